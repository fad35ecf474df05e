package api_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"tidings/cmd/internal/api"
	"tidings/store/storetest"
	"tidings/streams/event"
)

func TestReadiness(t *testing.T) {
	w := newWorld(t)
	t.Run("health is the process alone", func(t *testing.T) {
		w.parts = []api.Part{{Name: "amqp", Reason: "down"}}
		require.JSONEq(t, `{"status":"ok"}`, text(t, w.ask(http.MethodGet, "/healthz", "")))
	})
	t.Run("ready when every part is", func(t *testing.T) {
		w.parts = []api.Part{{Name: "amqp", Ready: true}, {Name: "log", Ready: true, Reason: "idle"}}
		res := w.ask(http.MethodGet, "/readyz", "", "Authorization", "")
		require.Equal(t, http.StatusOK, res.StatusCode)
		require.JSONEq(t, `{"ready":true,"parts":[{"name":"amqp","ready":true},{"name":"log","ready":true,"reason":"idle"}]}`, text(t, res))
	})
	t.Run("one part that is not ready makes it 503, with the reason", func(t *testing.T) {
		w.parts = []api.Part{{Name: "amqp", Reason: "connection refused"}, {Name: "log", Ready: true}}
		res := w.ask(http.MethodGet, "/readyz", "", "Authorization", "")
		require.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
		require.JSONEq(t, `{"ready":false,"parts":[{"name":"amqp","ready":false,"reason":"connection refused"},{"name":"log","ready":true}]}`, text(t, res))
	})
	t.Run("no parts is [] and ready", func(t *testing.T) {
		w.parts = nil
		require.JSONEq(t, `{"ready":true,"parts":[]}`, text(t, w.ask(http.MethodGet, "/readyz", "")))
	})
}

func TestMetrics(t *testing.T) {
	w := newWorld(t)
	t.Run("there are none where nobody has any", func(t *testing.T) {
		problem(t, w.ask(http.MethodGet, "/metrics", ""), http.StatusNotFound)
	})
	w.options.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "up 1\n") })
	w.serve()
	t.Run("they are answered with the token", func(t *testing.T) {
		res := w.ask(http.MethodGet, "/metrics", "")
		require.Equal(t, http.StatusOK, res.StatusCode)
		require.Equal(t, "up 1\n", text(t, res))
	})
	t.Run("and not without", func(t *testing.T) {
		problem(t, w.ask(http.MethodGet, "/metrics", "", "Authorization", ""), http.StatusUnauthorized)
	})
	t.Run("the description lists them", func(t *testing.T) {
		require.Contains(t, text(t, w.ask(http.MethodGet, "/openapi.json", "")), `"/metrics"`)
	})
}

func TestStatus(t *testing.T) {
	w := newWorld(t)
	w.record(storetest.Ref("a", 1), claimed, planned, delivered, event.Settled{})
	w.record(storetest.Ref("a", 2), claimed)
	t.Run("it counts what the ledger holds", func(t *testing.T) {
		s, err := w.client.Status(t.Context())
		require.NoError(t, err)
		require.True(t, s.Ready)
		require.Equal(t, "v1.2.3", s.Version)
		require.Equal(t, 1, s.Ledger.Outcomes[event.Processed])
		require.Equal(t, 1, s.Ledger.Open[event.PhaseClaimed])
		require.Zero(t, s.Ledger.Outcomes[event.Failed])
		require.NotNil(t, s.Parts)
		require.NotNil(t, s.Streams)
	})
	t.Run("it names the streams, and a log that is down hides nothing else", func(t *testing.T) {
		w.options.Streams = func(context.Context) ([]api.Stream, error) {
			return []api.Stream{{Name: "EVENTS", Messages: 2}}, nil
		}
		w.serve()
		s, err := w.client.Status(t.Context())
		require.NoError(t, err)
		require.Equal(t, "EVENTS", s.Streams[0].Name)

		w.options.Streams = func(context.Context) ([]api.Stream, error) { return nil, errors.New("secret address") }
		w.serve()
		s, err = w.client.Status(t.Context())
		require.NoError(t, err)
		require.Equal(t, "the log does not answer", s.StreamsProblem)
		require.Equal(t, 1, s.Ledger.Outcomes[event.Processed])
	})
}
