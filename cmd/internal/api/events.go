package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"tidings/store"
	"tidings/streams/event"
)

// Event is an event as the ledger knows it. Its JSON is that of API and CLI.
type Event struct {
	Event    store.Row       `json:"event"`
	Messages []event.Message `json:"messages"`
}

// History is a part of the history of an event, in order. Next is what to ask
// for as after for the part that follows; 0 after the last.
type History struct {
	Items []store.Entry `json:"items"`
	Next  uint64        `json:"next,omitempty"`
}

type eventsInput struct {
	ID      string    `query:"id" doc:"id that the producer gave; several events may have it"`
	Tenant  string    `query:"tenant"`
	Type    string    `query:"type" doc:"event type"`
	Outcome string    `query:"outcome" enum:"processed,failed,suppressed,no_recipient,no_template,stale"`
	Phase   string    `query:"phase" enum:"open,claimed,waiting,settled,dead"`
	Since   time.Time `query:"since" doc:"stored then or later"`
	Until   time.Time `query:"until" doc:"stored before"`
	Limit   int       `query:"limit" minimum:"1" maximum:"1000" default:"50"`
	Cursor  string    `query:"cursor" doc:"next of the page before, of the same query"`
}

type eventInput struct {
	ID     string `path:"id" doc:"key of the event, or the id that the producer gave"`
	Tenant string `query:"tenant" doc:"where several tenants use the id"`
}

type historyInput struct {
	ID     string `path:"id" doc:"key of the event, or the id that the producer gave"`
	Tenant string `query:"tenant" doc:"where several tenants use the id"`
	After  uint64 `query:"after" doc:"sequence to begin behind"`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"1000"`
}

type answer[T any] struct{ Body T }

func (s *Server) registerEvents(api huma.API) {
	huma.Register(api, huma.Operation{
		OperationID: "list-events", Method: http.MethodGet, Path: "/v1/events", Tags: []string{"events"},
		Summary: "Ledger rows, newest first",
	}, s.listEvents)
	huma.Register(api, huma.Operation{
		OperationID: "get-event", Method: http.MethodGet, Path: "/v1/events/{id}", Tags: []string{"events"},
		Summary: "One event and its messages", Errors: []int{http.StatusNotFound, http.StatusConflict},
	}, s.getEvent)
	huma.Register(api, huma.Operation{
		OperationID: "get-history", Method: http.MethodGet, Path: "/v1/events/{id}/history", Tags: []string{"events"},
		Summary:     "Everything that happened to one event, in order",
		Description: "Records without their states, and duplicates. The facts are those of docs/record.schema.json.",
		Errors:      []int{http.StatusNotFound, http.StatusConflict},
	}, s.getHistory)
}

func (s *Server) listEvents(_ context.Context, in *eventsInput) (*answer[store.Page[store.Row]], error) {
	q := store.Query{
		Tenant: in.Tenant, Type: in.Type, Outcome: event.Outcome(in.Outcome), Phase: event.Phase(in.Phase),
		Since: in.Since, Until: in.Until, Limit: in.Limit, Cursor: in.Cursor,
	}
	if in.ID != "" {
		return s.eventsWithID(in.ID, q)
	}
	page, err := s.Ledger.Events(q)
	if err != nil {
		return nil, s.failure(err)
	}
	return &answer[store.Page[store.Row]]{page}, nil
}

// eventsWithID lists the events of one id that fit the other conditions. They
// are few, so they are one page, and none is an answer too.
func (s *Server) eventsWithID(id string, q store.Query) (*answer[store.Page[store.Row]], error) {
	rows, err := s.Ledger.FindID(id, q.Tenant)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, s.failure(err)
	}
	page := store.Page[store.Row]{Items: []store.Row{}}
	for _, r := range rows {
		if fits(q, r) && len(page.Items) < q.Limit {
			page.Items = append(page.Items, r)
		}
	}
	return &answer[store.Page[store.Row]]{page}, nil
}

func fits(q store.Query, r store.Row) bool {
	return (q.Type == "" || q.Type == r.Type) &&
		(q.Outcome == "" || q.Outcome == r.Outcome) &&
		(q.Phase == "" || q.Phase == r.Phase) &&
		(q.Since.IsZero() || !r.ReceivedAt.Before(q.Since)) &&
		(q.Until.IsZero() || r.ReceivedAt.Before(q.Until))
}

func (s *Server) getEvent(_ context.Context, in *eventInput) (*answer[Event], error) {
	row, err := s.find(in.ID, in.Tenant)
	if err != nil {
		return nil, err
	}
	messages, err := s.Ledger.Messages(row.Key)
	if err != nil {
		return nil, s.failure(err)
	}
	if messages == nil {
		messages = []event.Message{}
	}
	return &answer[Event]{Event{Event: row, Messages: messages}}, nil
}

func (s *Server) getHistory(_ context.Context, in *historyInput) (*answer[History], error) {
	row, err := s.find(in.ID, in.Tenant)
	if err != nil {
		return nil, err
	}
	entries, err := s.Ledger.History(row.Key, in.After, in.Limit)
	if err != nil {
		return nil, s.failure(err)
	}
	history := History{Items: entries}
	if history.Items == nil {
		history.Items = []store.Entry{}
	}
	if len(entries) == in.Limit {
		history.Next = entries[len(entries)-1].Sequence
	}
	return &answer[History]{history}, nil
}

// find returns the row that a key or an id names. An id may look like a key,
// so what is no key of an event is looked up as an id.
func (s *Server) find(id, tenant string) (store.Row, error) {
	if key := event.Key(id); key.Valid() {
		row, err := s.Ledger.Event(key)
		if err == nil {
			return row, nil
		}
		if !errors.Is(err, store.ErrNotFound) {
			return store.Row{}, s.failure(err)
		}
	}
	rows, err := s.Ledger.FindID(id, tenant)
	switch {
	case err != nil:
		return store.Row{}, s.failure(err)
	case len(rows) == 1:
		return rows[0], nil
	}
	return store.Row{}, several(id, rows)
}

// several lists the keys to choose from.
func several(id string, rows []store.Row) error {
	var details []*huma.ErrorDetail
	for _, r := range rows {
		details = append(details, &huma.ErrorDetail{
			Message:  fmt.Sprintf("%s of tenant %q from %q", r.Type, r.Tenant, r.Source),
			Location: "key", Value: string(r.Key),
		})
	}
	return problem(http.StatusConflict, "ambiguous",
		fmt.Sprintf("%d events have the id %q: ask for one by its key", len(rows), id), details...)
}
