package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"tidings/bridge"
	"tidings/dispatcher/plan"
	"tidings/store"
	"tidings/streams/event"
)

// Planner plans tests, and knows recipients. [plan.Planner] is one.
type Planner interface {
	Plan(key event.Key, e event.Envelope) (plan.Plan, error)
	// CheckTest says why a test cannot reach its address.
	CheckTest(e event.Envelope) error
	// Recipient returns how an address is known in histories.
	Recipient(address string) event.Recipient
	// Sample returns what there is for a test of a route of a tenant.
	Sample(tenant, route string) (plan.Sample, error)
}

// Test is an event that an operator tries the rules out with.
type Test struct {
	Tenant  string `json:"tenant,omitempty" doc:"default if empty"`
	ID      string `json:"id,omitempty" maxLength:"1000" doc:"the same id is sent once. Without one each request is a test of its own"`
	Type    string `json:"type,omitempty" doc:"of the event; with a route that is for one type only, that if empty"`
	To      string `json:"to,omitempty" maxLength:"2048" doc:"the address that gets every message: a mailbox, or the URL of a webhook. Only a preview can do without"`
	Channel string `json:"channel,omitempty" doc:"only routes on this channel"`
	Route   string `json:"route,omitempty" doc:"only this route, whatever its condition says"`

	Subject       string    `json:"subject,omitempty"`
	CorrelationID string    `json:"correlation_id,omitempty"`
	OccurredAt    time.Time `json:"occurred_at,omitzero"`
	ContentType   string    `json:"content_type,omitempty" doc:"of the payload; application/json if empty"`
	// Data is the payload as JSON, and DataBase64 byte for byte. Without either it is
	// the sample of the route's template.
	Data       json.RawMessage `json:"data,omitempty" doc:"the payload, as JSON. Without it or data_base64, _sample.json beside the template of the route"`
	DataBase64 *[]byte         `json:"data_base64,omitempty" doc:"the payload, byte for byte"`
}

// TestPreview is what a test would send.
type TestPreview struct {
	Messages []TestMessage         `json:"messages"`
	Routes   []event.RouteDecision `json:"routes"`            // what became of each route that was considered
	Nothing  event.Outcome         `json:"nothing,omitempty"` // why there are no messages
	Problem  string                `json:"problem,omitempty"` // why it would be a dead letter
}

// TestMessage is one message as it would be sent, with its address and its words.
type TestMessage struct {
	ID          string `json:"id"`
	Route       string `json:"route"`
	Channel     string `json:"channel"`
	Template    string `json:"template,omitempty"`
	Locale      string `json:"locale,omitempty"`
	To          string `json:"to"`
	Subject     string `json:"subject,omitempty"`
	Text        string `json:"text,omitempty"`
	HTML        string `json:"html,omitempty"`
	Body        string `json:"body,omitempty"`
	ContentType string `json:"content_type,omitempty"` // of Body
}

type testInput struct{ Body Test }

func (s *Server) registerTests(api huma.API) {
	errs := []int{http.StatusBadRequest, http.StatusNotFound, http.StatusUnprocessableEntity, http.StatusServiceUnavailable}
	huma.Register(api, huma.Operation{
		OperationID: "dispatch-test", Method: http.MethodPost, Path: "/v1/tests", Tags: []string{"tests"},
		Summary: "Send a test, to one address only",
		Description: "It goes the whole way of an event: stored, claimed, planned, sent and recorded, with suppressions, tries and dead letters. " +
			"But every message goes to the one address, and none to the recipients that its data names. Its source is " + event.TestSource +
			", which nothing else may have; it is never stale, and marked and counted as a test. Sent again with the same id it is a duplicate, " +
			"and goes nowhere, not to another address either.",
		MaxBodyBytes: maxEdit, DefaultStatus: http.StatusAccepted, Errors: errs,
	}, s.dispatchTest)
	huma.Register(api, huma.Operation{
		OperationID: "preview-test", Method: http.MethodPost, Path: "/v1/tests/preview", Tags: []string{"tests"},
		Summary:      "What a test would send, message by message, in its words",
		Description:  "By the rules in force, and by nothing else: suppressions are not asked. Nothing is stored or sent.",
		MaxBodyBytes: maxEdit, Errors: errs,
	}, s.previewTest)
}

func (s *Server) dispatchTest(ctx context.Context, in *testInput) (*answer[Accepted], error) {
	if in.Body.To == "" {
		return nil, unfit(errors.New("there is no address to send it to: set to, or ask for a preview"))
	}
	e, err := s.testOf(in.Body)
	if err != nil {
		return nil, err
	}
	// Beyond its window the door does not know repeats: the dispatcher does.
	_, err = s.Ledger.Event(event.TestKey(e.Tenant, e.ID))
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, s.failure(err)
	}
	known := err == nil
	ctx, cancel := context.WithTimeout(ctx, acceptTimeout)
	defer cancel()
	receipt, err := s.Door.Accept(ctx, bridge.Arrival{
		Envelope: e, Body: e.Data, Where: "a test of an operator", Stage: event.StageHTTP, Test: true,
		Delivery: event.Delivery{Broker: "http"},
	})
	if err != nil {
		s.Logger.Warn("a test was not taken in", "error", err)
		return nil, unavailable("the log cannot take the test now: send it again, with the same id")
	}
	accepted := Accepted(receipt)
	accepted.Duplicate = accepted.Quarantined == "" && (accepted.Duplicate || known)
	return &answer[Accepted]{accepted}, nil
}

func (s *Server) previewTest(_ context.Context, in *testInput) (*answer[TestPreview], error) {
	in.Body.ID = cmp.Or(in.Body.ID, "preview")
	e, err := s.testOf(in.Body)
	if err != nil {
		return nil, err
	}
	out := TestPreview{Messages: []TestMessage{}, Routes: []event.RouteDecision{}}
	made, err := s.Planner.Plan(event.TestKey(e.Tenant, e.ID), e)
	if broken, ok := errors.AsType[*plan.Error](err); ok {
		out.Problem = broken.Error()
		return &answer[TestPreview]{out}, nil
	}
	if err != nil {
		return nil, s.failure(err)
	}
	out.Routes, out.Nothing = append(out.Routes, made.Fact.Routes...), made.Fact.Nothing
	for _, m := range made.Messages {
		out.Messages = append(out.Messages, testMessage(m))
	}
	return &answer[TestPreview]{out}, nil
}

// testOf returns the event of a test that can reach its address.
func (s *Server) testOf(t Test) (event.Envelope, error) {
	if s.Planner == nil {
		return event.Envelope{}, unavailable("tests are not available here")
	}
	if t.Route != "" {
		sample, err := s.Planner.Sample(cmp.Or(t.Tenant, event.DefaultTenant), t.Route)
		if err != nil {
			return event.Envelope{}, problem(http.StatusNotFound, "not-found", err.Error())
		}
		t.Type, t.To = cmp.Or(t.Type, sample.Type), cmp.Or(t.To, sample.To)
		if err := t.fill(sample); err != nil {
			return event.Envelope{}, unfit(err)
		}
	}
	e := t.envelope()
	if e.Type == "" {
		return e, unfit(errors.New("the type is missing: set type"))
	}
	if err := s.Planner.CheckTest(e); err != nil {
		return e, unfit(err)
	}
	return e, nil
}

// fill takes the sample where there is no payload.
func (t *Test) fill(s plan.Sample) error {
	switch {
	case len(t.Data) > 0 || t.DataBase64 != nil:
	case s.Data != nil:
		t.DataBase64 = &s.Data
	case s.File != "":
		return fmt.Errorf("there is nothing to fill the template with: give data, or put a sample into %s", s.File)
	}
	return nil
}

func (t *Test) envelope() event.Envelope {
	e := event.Envelope{
		Tenant: cmp.Or(t.Tenant, event.DefaultTenant), Source: event.TestSource,
		ID: cmp.Or(t.ID, event.NewNonce()), IDSource: event.IDOperator, Type: t.Type, Subject: t.Subject,
		CorrelationID: t.CorrelationID, OccurredAt: t.OccurredAt, ContentType: cmp.Or(t.ContentType, "application/json"),
		Data: t.Data, Extensions: map[string]string{event.ExtensionTestTo: t.To},
	}
	if t.DataBase64 != nil {
		e.Data = append([]byte{}, *t.DataBase64...)
	}
	if t.Channel != "" {
		e.Extensions[event.ExtensionTestChannel] = t.Channel
	}
	if t.Route != "" {
		e.Extensions[event.ExtensionTestRoute] = t.Route
	}
	return e
}

// unfit says what about a test is to be mended.
func unfit(err error) error {
	return problem(http.StatusUnprocessableEntity, "invalid", err.Error())
}

// Test sends a test to its address.
func (c *Client) Test(ctx context.Context, t Test) (Accepted, error) {
	return post[Accepted](ctx, c, "/v1/tests", nil, t)
}

// PreviewTest says what a test would send.
func (c *Client) PreviewTest(ctx context.Context, t Test) (TestPreview, error) {
	return post[TestPreview](ctx, c, "/v1/tests/preview", nil, t)
}
