package api_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"tidings/bridge"
	"tidings/cmd/internal/api"
	"tidings/dispatcher/letters"
	"tidings/dispatcher/plan"
	"tidings/streams/event"
)

// someSuppressed suppresses one recipient.
type someSuppressed struct{ to event.Recipient }

func (s someSuppressed) Suppressed(_ context.Context, _, _ string, to event.Recipient) (string, bool, error) {
	return "unsubscribed", to.Hash == s.to.Hash, nil
}

func previewWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	planner, err := plan.Compile(plan.Rules{
		Contracts: map[string]string{"order.paid": "x"},
		Routes:    []plan.Route{{Name: "hook", Event: "order.*", When: "data.total > 5", Channel: "hook", Recipients: "data.to"}},
	}, nil, plan.Options{
		Secret: []byte("x"), Channels: map[string]plan.Channel{"hook": {Kind: plan.Webhook}},
		Read: func(string) ([]byte, error) { return []byte(`{"required":["paid"]}`), nil },
	})
	require.NoError(t, err)
	door := bridge.NewDoor(bridge.DoorOptions{Events: w.stream.Events, Letters: w.stream.DeadLetters, Audit: w.stream.Outcomes})
	desk := letters.New(letters.Options{
		Outcomes: w.stream.Outcomes, Letters: w.stream.DeadLetters, Events: w.stream.Events, Waker: w.stream.Retries,
		Planner: planner, Suppressions: someSuppressed{planner.Recipient("https://example.com/no")},
	})
	w.options.Planner, w.options.Read = planner, door.Read
	w.options.Desk = func() *letters.Desk { return desk }
	w.serve()
	return w
}

func cloudEvent(typ string) http.Header {
	return http.Header{"Ce-Specversion": {"1.0"}, "Ce-Id": {"1"}, "Ce-Source": {"shop"}, "Ce-Type": {typ}, "Content-Type": {"application/json"}}
}

func TestPreviewSaysWhatAnEventWouldBecomeAndStoresNothing(t *testing.T) {
	w := previewWorld(t)
	ask := func(typ, data string) api.EventPreview {
		t.Helper()
		got, err := w.client.PreviewEvent(t.Context(), cloudEvent(typ), []byte(data))
		require.NoError(t, err)
		return got
	}
	t.Run("message by message, in its words, with what suppression would do", func(t *testing.T) {
		got := ask("order.placed", `{"total":9,"to":["https://example.com/yes","https://example.com/no"]}`)
		require.Len(t, got.Messages, 2)
		require.Equal(t, "https://example.com/yes", got.Messages[0].To)
		require.Equal(t, letters.WouldSend, got.Messages[0].Would)
		require.Contains(t, got.Messages[0].Body, `"type":"order.placed"`)
		require.Equal(t, letters.WouldSuppress, got.Messages[1].Would)
		require.Equal(t, "unsubscribed", got.Messages[1].Why)
		require.NotEmpty(t, got.Key)
	})
	t.Run("why nothing, and what would have been needed", func(t *testing.T) {
		got := ask("order.placed", `{"total":1}`)
		require.Equal(t, event.NoRecipient, got.Nothing)
		require.Equal(t, "data.total > 5 must be true", got.Routes[0].Needed)
	})
	t.Run("that it would be a dead letter, and why", func(t *testing.T) {
		require.Contains(t, ask("order.paid", `{}`).Problem, "the payload lacks paid")
		got, err := w.client.PreviewEvent(t.Context(), http.Header{"Content-Type": {"application/cloudevents+json"}}, []byte(`{`))
		require.NoError(t, err)
		require.Contains(t, got.Problem, "undecodable")
	})
	t.Run("that it would be a duplicate", func(t *testing.T) {
		key := ask("order.placed", `{}`).Key
		ref := event.Ref{Key: key, Tenant: event.DefaultTenant, Source: "shop", ID: "1", Type: "order.placed"}
		claimed := event.Claimed{Owner: event.Owner{Instance: "a", Boot: "b"}}
		_, err := w.stream.Outcomes.Append(t.Context(), event.NewRecord(ref, event.State{}, ref.ReceivedAt, claimed), 0)
		require.NoError(t, err)
		require.True(t, ask("order.placed", `{}`).Known)
	})
	events, err := w.stream.Events.Info(t.Context())
	require.NoError(t, err)
	dead, err := w.stream.DeadLetters.Info(t.Context())
	require.NoError(t, err)
	require.Zero(t, events.Messages+dead.Messages)
}

func TestPreviewOfWhatCannotBe(t *testing.T) {
	w := previewWorld(t)
	batch := w.ask(http.MethodPost, "/v1/preview", "[]", "Content-Type", bridge.TypeBatch)
	require.Contains(t, problem(t, batch, http.StatusBadRequest), "one event is previewed at a time")
	w.options.Read = func(bridge.Arrival) (event.Envelope, event.Key, error) {
		return event.Envelope{}, "", errors.New("10.0.0.9 is down")
	}
	w.serve()
	res := w.ask(http.MethodPost, "/v1/preview", "{}")
	require.Equal(t, "5", res.Header.Get("Retry-After"))
	require.NotContains(t, problem(t, res, http.StatusServiceUnavailable), "10.0.0.9")
}
