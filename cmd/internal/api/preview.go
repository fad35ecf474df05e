package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"tidings/bridge"
	"tidings/dispatcher/letters"
	"tidings/dispatcher/plan"
	"tidings/streams/event"
)

// EventPreview is what an event would become that came in now.
type EventPreview struct {
	Key      event.Key             `json:"key,omitempty"` // that it would have; empty where only its place in the log gives it one
	Messages []EventMessage        `json:"messages"`
	Routes   []event.RouteDecision `json:"routes"`            // what became of each route that was considered
	Nothing  event.Outcome         `json:"nothing,omitempty"` // why there are no messages
	Known    bool                  `json:"known,omitempty"`   // it came before: it would be a duplicate, and nothing would be sent
	Problem  string                `json:"problem,omitempty"` // why it would be a dead letter
}

// EventMessage is one message as it would be sent, and whether it would be.
type EventMessage struct {
	TestMessage
	Would letters.Would `json:"would"`
	Why   string        `json:"why,omitempty"`
}

func (s *Server) registerPreview(mux *http.ServeMux, spec *huma.OpenAPI) {
	mux.HandleFunc("POST /v1/preview", s.previewEvent)
	answer := huma.SchemaFromType(spec.Components.Schemas, reflect.TypeFor[EventPreview]())
	spec.AddOperation(&huma.Operation{
		OperationID: "preview-event", Method: http.MethodPost, Path: "/v1/preview", Tags: []string{"events"},
		Summary: "What an event would become if it came in now, message by message, in its words",
		Description: "The event is sent as for POST /v1/events, one at a time. It is planned by the rules and suppressions in force, and nothing is " +
			"stored or sent. Of an event without messages each route says why, and what would have been needed.",
		RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
			bridge.TypeStructured: {Schema: &huma.Schema{Type: "object"}},
			"application/json":    {Schema: &huma.Schema{}},
			"*/*":                 {Schema: &huma.Schema{Type: "string", Format: "binary"}},
		}},
		Responses: map[string]*huma.Response{
			"200": {Description: "What it would become", Content: map[string]*huma.MediaType{"application/json": {Schema: answer}}},
			"400": problemResponse(spec, "It is a batch, or the body did not arrive whole"),
			"413": problemResponse(spec, "The body is too large"),
			"503": problemResponse(spec, "The log is down, or too many large bodies are in hand: ask again after Retry-After"),
		},
	})
}

func (s *Server) previewEvent(w http.ResponseWriter, r *http.Request) {
	leave, err := s.room.enter(r)
	if err != nil {
		w.Header().Set("Retry-After", retryAfter)
		writeProblem(w, problem(http.StatusServiceUnavailable, "busy", "too many large bodies are in hand: ask again"))
		return
	}
	defer leave()
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.MaxBody))
	switch {
	case err != nil:
		writeProblem(w, s.unread(err))
		return
	case bridge.IsBatch(r.Header.Get("Content-Type")):
		writeProblem(w, problem(http.StatusBadRequest, "invalid", "one event is previewed at a time: send it alone"))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), acceptTimeout)
	defer cancel()
	out, err := s.foreseen(ctx, arrival(r.Header, body))
	if err != nil {
		s.Logger.Warn("an event was not previewed", "error", err)
		w.Header().Set("Retry-After", retryAfter)
		writeProblem(w, problem(http.StatusServiceUnavailable, "unavailable", "the log cannot be asked now: ask again"))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out) // nobody is left to tell
}

func (s *Server) foreseen(ctx context.Context, a bridge.Arrival) (EventPreview, error) {
	out := EventPreview{Messages: []EventMessage{}, Routes: []event.RouteDecision{}}
	desk := s.Desk()
	if desk == nil || s.Read == nil || s.Planner == nil {
		return out, errNoLogYet
	}
	e, key, err := s.Read(a)
	if refused, ok := errors.AsType[*bridge.RefusedError](err); ok {
		out.Problem = refused.Error()
		return out, nil
	}
	if err != nil {
		return out, err
	}
	found, err := desk.PreviewEvent(ctx, key, e)
	if err != nil {
		return out, err
	}
	out.Key, out.Problem, out.Nothing, out.Known = key, found.Problem, found.Nothing, found.Known != ""
	out.Routes = append(out.Routes, found.Routes...)
	made, err := s.Planner.Plan(key, e)
	if _, broken := errors.AsType[*plan.Error](err); err != nil && !broken {
		return out, err
	}
	words := map[string]plan.Message{}
	for _, m := range made.Messages {
		words[m.ID] = m
	}
	for _, m := range found.Messages {
		out.Messages = append(out.Messages, EventMessage{testMessage(words[m.ID]), m.Would, m.Why})
	}
	return out, nil
}

var errNoLogYet = errors.New("the log is not open yet")

func testMessage(m plan.Message) TestMessage {
	return TestMessage{
		ID: m.ID, Route: m.Route, Channel: m.Channel, Template: m.Template, Locale: m.Locale, To: m.Address,
		Subject: m.Content.Subject, Text: m.Content.Text, HTML: m.Content.HTML,
		Body: string(m.Content.Body), ContentType: m.Content.ContentType,
	}
}

// PreviewEvent says what an event would become, given as for [Client.Publish].
func (c *Client) PreviewEvent(ctx context.Context, header http.Header, body []byte) (EventPreview, error) {
	answer, err := c.do(ctx, http.MethodPost, "/v1/preview", header, body)
	if err != nil {
		return EventPreview{}, err
	}
	return decode[EventPreview](c, answer)
}
