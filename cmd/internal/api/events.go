package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
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

// RecipientHeader has the address whose events are listed. It is no parameter of the
// URL, which logs and proxies keep; the server compares its hash.
const RecipientHeader = "Tidings-Recipient"

type eventsInput struct {
	ID            string    `query:"id" doc:"id that the producer gave; several events may have it"`
	Tenant        string    `query:"tenant"`
	Type          string    `query:"type" doc:"event type"`
	Outcome       string    `query:"outcome" enum:"processed,failed,suppressed,no_recipient,no_template,stale"`
	Phase         string    `query:"phase" enum:"open,claimed,waiting,settled,dead"`
	Source        string    `query:"source" doc:"where the producer says that it comes from"`
	CorrelationID string    `query:"correlation_id"`
	Text          string    `query:"text" maxLength:"200" doc:"in its id, type, source, correlation id or cause, in any case"`
	Since         time.Time `query:"since" doc:"stored then or later"`
	Until         time.Time `query:"until" doc:"stored before"`
	Limit         int       `query:"limit" minimum:"1" maximum:"1000" default:"50"`
	Cursor        string    `query:"cursor" doc:"next of the page before, of the same query"`
	Recipient     string    `header:"Tidings-Recipient" doc:"address of a recipient of one of its messages: a header, so that no log of URLs holds it. It is hashed, and not kept"`
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
		Description: "Every condition that is given must fit. A page is bounded by work, too: one with few rows or none has a next " +
			"where there may be more.",
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
		ID: in.ID, Tenant: in.Tenant, Type: in.Type, Outcome: event.Outcome(in.Outcome), Phase: event.Phase(in.Phase),
		Source: in.Source, CorrelationID: in.CorrelationID, Text: in.Text,
		Since: in.Since, Until: in.Until, Limit: in.Limit, Cursor: in.Cursor,
	}
	if address := strings.TrimSpace(in.Recipient); address != "" {
		if s.Planner == nil {
			return nil, unavailable("events cannot be found by an address here")
		}
		q.Recipient = s.Planner.Recipient(address).Hash
	}
	page, err := s.Ledger.Events(q)
	if err != nil {
		return nil, s.failure(err)
	}
	return &answer[store.Page[store.Row]]{page}, nil
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
	history, err := s.history(row.Key, in.After, in.Limit)
	if err != nil {
		return nil, err
	}
	return &answer[History]{history}, nil
}

// history returns up to limit entries of an event behind a sequence.
func (s *Server) history(key event.Key, after uint64, limit int) (History, error) {
	entries, err := s.Ledger.History(key, after, limit)
	if err != nil {
		return History{}, s.failure(err)
	}
	history := History{Items: append([]store.Entry{}, entries...)}
	if len(entries) == limit {
		history.Next = entries[limit-1].Sequence
	}
	return history, nil
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
