package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"tidings/cmd/internal/why"
	"tidings/store"
	"tidings/streams/event"
)

// Story is the history of an event in words. Next is what to ask for as after for the
// part that follows; 0 after the last.
type Story struct {
	why.Story
	Next uint64 `json:"next,omitempty"`
}

// MessageTries is a message, and every call of a provider for it, in order.
type MessageTries struct {
	event.Message
	// Tried has the calls that the log still remembers: tries counts all.
	Tried []event.Tried `json:"tried"`
}

// MessagePage is a page of the messages of an event, in the order of its plan.
type MessagePage = store.Page[MessageTries]

type messagesInput struct {
	ID     string `path:"id" doc:"key of the event, or the id that the producer gave"`
	Tenant string `query:"tenant" doc:"where several tenants use the id"`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"50"`
	Cursor string `query:"cursor" doc:"next of the page before: the id of the message that it ended with"`
}

func (s *Server) registerStories(api huma.API) {
	huma.Register(api, huma.Operation{
		OperationID: "get-why", Method: http.MethodGet, Path: "/v1/events/{id}/why", Tags: []string{"events"},
		Summary: "Why became of one event what it did, in words",
		Description: "Its history in order, each decision with its reason and, where it came to nothing, with what would have been needed. " +
			"It is told from the log alone: the configuration may be another by now.",
		Errors: []int{http.StatusNotFound, http.StatusConflict},
	}, s.getStory)
	huma.Register(api, huma.Operation{
		OperationID: "list-messages", Method: http.MethodGet, Path: "/v1/events/{id}/messages", Tags: []string{"events"},
		Summary: "The messages of one event, each with its tries, their results and times",
		Errors:  []int{http.StatusBadRequest, http.StatusNotFound, http.StatusConflict},
	}, s.listMessages)
}

func (s *Server) getStory(_ context.Context, in *historyInput) (*answer[Story], error) {
	row, err := s.find(in.ID, in.Tenant)
	if err != nil {
		return nil, err
	}
	history, err := s.history(row.Key, in.After, in.Limit)
	if err != nil {
		return nil, err
	}
	if in.After == 0 {
		return &answer[Story]{Story{Story: why.Tell(row, history.Items), Next: history.Next}}, nil
	}
	messages, err := s.Ledger.Messages(row.Key)
	if err != nil {
		return nil, s.failure(err)
	}
	return &answer[Story]{Story{Story: why.TellOn(row, messages, history.Items), Next: history.Next}}, nil
}

func (s *Server) listMessages(_ context.Context, in *messagesInput) (*answer[MessagePage], error) {
	row, err := s.find(in.ID, in.Tenant)
	if err != nil {
		return nil, err
	}
	messages, err := s.Ledger.Messages(row.Key)
	if err != nil {
		return nil, s.failure(err)
	}
	page := MessagePage{Items: []MessageTries{}}
	if messages, err = behind(messages, in.Cursor); err != nil {
		return nil, err
	}
	if len(messages) > in.Limit {
		messages = messages[:in.Limit]
		page.Next = messages[in.Limit-1].ID
	}
	if len(messages) == 0 {
		return &answer[MessagePage]{page}, nil
	}
	tried, err := s.tries(row.Key)
	if err != nil {
		return nil, err
	}
	for _, m := range messages {
		page.Items = append(page.Items, MessageTries{Message: m, Tried: append([]event.Tried{}, tried[m.ID]...)})
	}
	return &answer[MessagePage]{page}, nil
}

// behind returns the messages that come after the one with the id.
func behind(messages []event.Message, id string) ([]event.Message, error) {
	if id == "" {
		return messages, nil
	}
	for i, m := range messages {
		if m.ID == id {
			return messages[i+1:], nil
		}
	}
	return nil, problem(http.StatusBadRequest, "cursor", "the cursor is none of this event's messages: begin anew without one")
}

// tries returns the calls in the history of an event, by message.
func (s *Server) tries(key event.Key) (map[string][]event.Tried, error) {
	tried := map[string][]event.Tried{}
	for after := uint64(0); ; {
		entries, err := s.Ledger.History(key, after, store.MaxLimit)
		if err != nil {
			return nil, s.failure(err)
		}
		for _, e := range entries {
			for _, f := range e.Facts {
				if t, ok := f.(event.Tried); ok {
					tried[t.Message] = append(tried[t.Message], t)
				}
			}
			after = e.Sequence
		}
		if len(entries) < store.MaxLimit {
			return tried, nil
		}
	}
}
