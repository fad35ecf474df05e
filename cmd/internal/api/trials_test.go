package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/bridge"
	"tidings/cmd/internal/api"
	"tidings/dispatcher/plan"
	"tidings/store/storetest"
	"tidings/streams/event"
)

// newTrial returns a world whose rules tell a webhook about orders.
func newTrial(t *testing.T) *world {
	w := newWorld(t)
	rules, err := plan.Compile(plan.Rules{Routes: []plan.Route{
		{Name: "hook", Event: "order.placed", Channel: "hook", Recipients: "data.to"},
	}}, nil, plan.Options{Secret: []byte("s"), Channels: map[string]plan.Channel{"hook": {Kind: plan.Webhook}}})
	require.NoError(t, err)
	w.options.Planner = rules
	w.options.Door = bridge.NewDoor(bridge.DoorOptions{Events: w.stream.Events, Letters: w.stream.DeadLetters, Audit: w.stream.Outcomes})
	w.serve()
	return w
}

func aTest(id string) api.Test {
	return api.Test{ID: id, Type: "order.placed", To: "https://my.example/", Data: json.RawMessage(`{"to":"https://partner.example/"}`)}
}

func TestATestOfAnOperator(t *testing.T) {
	t.Run("is stored under the source of tests, with its address", func(t *testing.T) {
		w := newTrial(t)
		done, err := w.client.Test(t.Context(), aTest("1"))
		require.NoError(t, err)
		require.Equal(t, api.Accepted{Key: event.TestKey("default", "1"), Sequence: 1}, done)
		stored, err := w.stream.Events.Get(t.Context(), 1)
		require.NoError(t, err)
		require.True(t, stored.Ref.IsTest())
		require.Equal(t, event.IDOperator, stored.Ref.IDSource)
		require.Equal(t, map[string]string{event.ExtensionTestTo: "https://my.example/"}, stored.Envelope.Extensions)
		require.Equal(t, "application/json", stored.Envelope.ContentType)
		require.JSONEq(t, `{"to":"https://partner.example/"}`, string(stored.Envelope.Data))
	})
	t.Run("is a duplicate the second time, also to another address", func(t *testing.T) {
		w := newTrial(t)
		first, err := w.client.Test(t.Context(), aTest("1"))
		require.NoError(t, err)
		other := aTest("1")
		other.To = "https://other.example/"
		second, err := w.client.Test(t.Context(), other)
		require.NoError(t, err)
		require.Equal(t, api.Accepted{Key: first.Key, Sequence: 1, Duplicate: true}, second)
	})
	t.Run("is a duplicate also when only the ledger knows it", func(t *testing.T) {
		w := newTrial(t)
		w.record(event.Ref{
			Key: event.TestKey("default", "1"), Tenant: "default", Source: event.TestSource, ID: "1", Type: "order.placed", ReceivedAt: storetest.Start,
		}, event.Settled{})
		done, err := w.client.Test(t.Context(), aTest("1"))
		require.NoError(t, err)
		require.True(t, done.Duplicate)
	})
	t.Run("with the id of another and another payload is a dead letter", func(t *testing.T) {
		w := newTrial(t)
		_, err := w.client.Test(t.Context(), aTest("1"))
		require.NoError(t, err)
		other := aTest("1")
		other.Data = json.RawMessage(`{}`)
		done, err := w.client.Test(t.Context(), other)
		require.NoError(t, err)
		require.Equal(t, event.CauseIDConflict, done.Quarantined)
		require.False(t, done.Duplicate)
	})
	t.Run("without an id is one of its own each time", func(t *testing.T) {
		w := newTrial(t)
		first, err := w.client.Test(t.Context(), aTest(""))
		require.NoError(t, err)
		second, err := w.client.Test(t.Context(), aTest(""))
		require.NoError(t, err)
		require.NotEqual(t, first.Key, second.Key)
	})
	t.Run("that cannot go is refused, and nothing is stored", func(t *testing.T) {
		w := newTrial(t)
		for want, change := range map[string]func(*api.Test){
			"there is no address to send it to":           func(t *api.Test) { t.To = "" },
			"the type is missing":                         func(t *api.Test) { t.Type = "" },
			"the address is not an absolute http or http": func(t *api.Test) { t.To = "me@shop.example" },
			`there is no channel "x"`:                     func(t *api.Test) { t.Channel = "x" },
			`there is no route "x"`:                       func(t *api.Test) { t.Route = "x" },
		} {
			bad := aTest("1")
			change(&bad)
			_, err := w.client.Test(t.Context(), bad)
			require.ErrorContains(t, err, want)
		}
		w.hasCounts(0, 0, 0)
	})
	t.Run("has to be sent again where the log takes nothing, or tests are not there", func(t *testing.T) {
		w := newTrial(t)
		w.options.Door = doorFunc(func(context.Context, bridge.Arrival) (bridge.Receipt, error) {
			return bridge.Receipt{}, errors.New("down")
		})
		w.serve()
		body, err := json.Marshal(aTest("1"))
		require.NoError(t, err)
		res := w.ask(http.MethodPost, "/v1/tests", string(body), "Content-Type", "application/json")
		require.Contains(t, problem(t, res, http.StatusServiceUnavailable), "send it again, with the same id")
		require.NotEmpty(t, res.Header.Get("Retry-After"))
		w.options.Planner = nil
		w.serve()
		_, err = w.client.Test(t.Context(), aTest("1"))
		require.ErrorContains(t, err, "tests are not available here")
	})
}

func TestPreviewOfATest(t *testing.T) {
	w := newTrial(t)
	shown, err := w.client.PreviewTest(t.Context(), api.Test{Route: "hook", OccurredAt: time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)})
	require.NoError(t, err)
	require.Len(t, shown.Messages, 1)
	m := shown.Messages[0]
	require.Equal(t, "https://example.com/", m.To, "an address that nobody has")
	require.Contains(t, m.Body, `"source":"tidings:test"`)
	require.Equal(t, "application/cloudevents+json", m.ContentType)
	w.hasCounts(0, 0, 0)
}
