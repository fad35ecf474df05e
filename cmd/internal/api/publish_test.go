package api_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/bridge"
	"tidings/cmd/internal/api"
	"tidings/streams"
	"tidings/streams/event"
)

func TestPublish(t *testing.T) {
	w := newWorld(t)
	key := event.NewKey("published")
	var got bridge.Arrival
	w.door = func(_ context.Context, a bridge.Arrival) (bridge.Receipt, error) {
		got = a
		return bridge.Receipt{Key: key, Sequence: 7}, nil
	}
	t.Run("a CloudEvent in binary mode is taken in", func(t *testing.T) {
		res := w.ask(http.MethodPost, "/v1/events", `{"n":1}`, "Content-Type", "application/json",
			"Ce-Specversion", "1.0", "Ce-Id", "o-1", "Ce-Source", "shop", "Ce-Type", "order.placed", "Ce-Tenantid", "acme")
		require.Equal(t, http.StatusAccepted, res.StatusCode)
		require.JSONEq(t, fmt.Sprintf(`{"key":%q,"sequence":7,"duplicate":false}`, key), text(t, res))
		require.NoError(t, got.Err)
		require.Equal(t, event.StageHTTP, got.Stage)
		require.Equal(t, "o-1", got.Envelope.ID)
		require.Equal(t, event.IDCloudEvents, got.Envelope.IDSource)
		require.Equal(t, "acme", got.Envelope.Tenant)
		require.Equal(t, "order.placed", got.Envelope.Type)
		require.JSONEq(t, `{"n":1}`, string(got.Envelope.Data))
	})
	t.Run("a CloudEvent in structured mode is taken in", func(t *testing.T) {
		res := w.ask(http.MethodPost, "/v1/events", `{"specversion":"1.0","id":"o-2","source":"shop","type":"order.placed","data":{"n":2}}`,
			"Content-Type", "application/cloudevents+json; charset=utf-8")
		require.Equal(t, http.StatusAccepted, res.StatusCode)
		require.NoError(t, got.Err)
		require.Equal(t, "o-2", got.Envelope.ID)
		require.JSONEq(t, `{"n":2}`, string(got.Envelope.Data))
	})
	t.Run("plain JSON with headers is taken in", func(t *testing.T) {
		res := w.ask(http.MethodPost, "/v1/events", `{"n":3}`, "Content-Type", "application/json",
			"Event-Id", "o-3", "Event-Type", "order.placed", "Event-Source", "shop", "Tenant-Id", "acme",
			"Correlation-Id", "c-3", "Occurred-At", "2026-05-01T12:00:00Z")
		require.Equal(t, http.StatusAccepted, res.StatusCode)
		require.NoError(t, got.Err)
		require.Equal(t, "o-3", got.Envelope.ID)
		require.Equal(t, event.IDHeader, got.Envelope.IDSource)
		require.Equal(t, "shop", got.Envelope.Source)
		require.Equal(t, "c-3", got.Envelope.CorrelationID)
		require.Equal(t, time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC), got.Envelope.OccurredAt.UTC())
		require.Equal(t, "application/json", got.Envelope.ContentType)
	})
	t.Run("what holds no event reaches the door with the reason, and no credential", func(t *testing.T) {
		w.ask(http.MethodPost, "/v1/events", "who knows", "Content-Type", "text/plain", "Cookie", "session=hunter2")
		require.Error(t, got.Err)
		require.Equal(t, "who knows", string(got.Body))
		require.Equal(t, event.Delivery{Broker: "http", Properties: map[string]string{"content_type": "text/plain"}}, got.Delivery)
		require.NotContains(t, fmt.Sprintf("%+v", got), token)
	})
	t.Run("the headers of a refused CloudEvent are kept", func(t *testing.T) {
		w.ask(http.MethodPost, "/v1/events", "", "Ce-Specversion", "0.1", "Ce-Id", "x")
		require.Error(t, got.Err)
		require.Equal(t, map[string]string{"ce-specversion": "0.1", "ce-id": "x"}, got.Delivery.Properties)
	})
	t.Run("duplicates and dead letters are said", func(t *testing.T) {
		w.door = func(context.Context, bridge.Arrival) (bridge.Receipt, error) {
			return bridge.Receipt{Key: key, Sequence: 1, Duplicate: true}, nil
		}
		a, err := w.client.Publish(t.Context(), http.Header{"Event-Type": {"x"}}, nil)
		require.NoError(t, err)
		require.Equal(t, api.Accepted{Key: key, Sequence: 1, Duplicate: true}, a)
		w.door = func(context.Context, bridge.Arrival) (bridge.Receipt, error) {
			return bridge.Receipt{Key: key, Sequence: 2, Quarantined: event.CauseFuture}, nil
		}
		a, err = w.client.Publish(t.Context(), nil, nil)
		require.NoError(t, err)
		require.Equal(t, event.CauseFuture, a.Quarantined)
	})
	t.Run("a log that is down or full is 503 with Retry-After, and its words stay inside", func(t *testing.T) {
		for want, cause := range map[string]error{
			"make room":                      streams.ErrFull,
			"cannot take events now":         fmt.Errorf("10.0.0.9: %w", streams.ErrUnavailable),
			"the log cannot take events now": errors.New("anything else at 10.0.0.9"),
		} {
			w.door = func(context.Context, bridge.Arrival) (bridge.Receipt, error) { return bridge.Receipt{}, cause }
			res := w.ask(http.MethodPost, "/v1/events", "{}")
			require.Equal(t, "5", res.Header.Get("Retry-After"))
			body := problem(t, res, http.StatusServiceUnavailable)
			require.Contains(t, body, want)
			require.NotContains(t, body, "10.0.0.9")
		}
	})
	t.Run("a body of exactly the bound is taken in, one byte more is not", func(t *testing.T) {
		w.door = func(_ context.Context, a bridge.Arrival) (bridge.Receipt, error) {
			got = a
			return bridge.Receipt{}, nil
		}
		require.Equal(t, http.StatusAccepted, w.ask(http.MethodPost, "/v1/events", strings.Repeat("x", 1<<10)).StatusCode)
		require.Len(t, got.Body, 1<<10)
		res := w.ask(http.MethodPost, "/v1/events", strings.Repeat("x", 1<<10+1))
		require.Contains(t, problem(t, res, http.StatusRequestEntityTooLarge), "urn:tidings:too-large")
	})
	t.Run("a body kept by the log is not written over by the next request", func(t *testing.T) {
		var bodies [][]byte
		w.door = func(_ context.Context, a bridge.Arrival) (bridge.Receipt, error) {
			bodies = append(bodies, a.Body)
			return bridge.Receipt{}, nil
		}
		w.ask(http.MethodPost, "/v1/events", "first")
		w.ask(http.MethodPost, "/v1/events", "again")
		require.Equal(t, "first", string(bodies[0]))
	})
}

func TestPublishToTheLog(t *testing.T) {
	w := newWorld(t)
	w.options.Door = bridge.NewDoor(bridge.DoorOptions{
		Events: w.stream.Events, Letters: w.stream.DeadLetters, Audit: w.stream.Outcomes,
	})
	w.serve()
	header := http.Header{"Event-Id": {"o-1"}, "Event-Type": {"order.placed"}, "Tenant-Id": {"acme"}, "Content-Type": {"application/json"}}
	t.Run("an event is stored, its repeat is a duplicate, and its id on another body is a dead letter", func(t *testing.T) {
		first, err := w.client.Publish(t.Context(), header, []byte(`{"n":1}`))
		require.NoError(t, err)
		stored, err := w.stream.Events.Get(t.Context(), first.Sequence)
		require.NoError(t, err)
		require.Equal(t, first.Key, stored.Ref.Key)
		require.Equal(t, "acme", stored.Ref.Tenant)
		require.JSONEq(t, `{"n":1}`, string(stored.Envelope.Data))

		again, err := w.client.Publish(t.Context(), header, []byte(`{"n":1}`))
		require.NoError(t, err)
		require.Equal(t, api.Accepted{Key: first.Key, Sequence: first.Sequence, Duplicate: true}, again)

		other, err := w.client.Publish(t.Context(), header, []byte(`{"n":2}`))
		require.NoError(t, err)
		require.Equal(t, event.CauseIDConflict, other.Quarantined)
	})
	t.Run("what is no event is kept byte for byte", func(t *testing.T) {
		refused, err := w.client.Publish(t.Context(), http.Header{"Content-Type": {"application/cloudevents+json"}}, []byte("\x00{"))
		require.NoError(t, err)
		require.Equal(t, event.CauseUndecodable, refused.Quarantined)
		letter, _, err := w.stream.DeadLetters.Get(t.Context(), event.DefaultTenant, refused.Key)
		require.NoError(t, err)
		require.Equal(t, []byte("\x00{"), letter.Data)
		require.Equal(t, event.StageHTTP, letter.Stage)
		require.Equal(t, "http", letter.Delivery.Broker)
	})
}
