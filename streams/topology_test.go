package streams_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"tidings/streams"
	"tidings/streams/streamstest"
)

func TestOpen(t *testing.T) {
	setup := func(t *testing.T) (*streamstest.Server, *nats.Conn, jetstream.JetStream) {
		s := streamstest.NewServer(t)
		nc := s.Connect()
		js, err := jetstream.New(nc)
		require.NoError(t, err)
		return s, nc, js
	}
	change := func(t *testing.T, js jetstream.JetStream, name string, change func(*jetstream.StreamConfig)) {
		s, err := js.Stream(t.Context(), name)
		require.NoError(t, err)
		c := s.CachedInfo().Config
		change(&c)
		_, err = js.UpdateStream(t.Context(), c)
		require.NoError(t, err)
	}
	config := func(t *testing.T, js jetstream.JetStream, name string) jetstream.StreamConfig {
		s, err := js.Stream(t.Context(), name)
		require.NoError(t, err)
		return s.CachedInfo().Config
	}

	t.Run("makes the four streams, and finds them again as they are", func(t *testing.T) {
		s, nc, js := setup(t)
		for range 2 {
			_, err := streams.Open(t.Context(), nc, s.Options())
			require.NoError(t, err)
		}
		outcomes := config(t, js, streams.OutcomesStream)
		require.True(t, outcomes.DenyDelete)
		require.True(t, outcomes.DenyPurge)
		require.True(t, outcomes.AllowDirect)
		require.Equal(t, 30*24*time.Hour, outcomes.MaxAge)
		require.Equal(t, jetstream.DiscardNew, outcomes.Discard)
		require.Zero(t, config(t, js, streams.EventsStream).MaxAge)
		require.EqualValues(t, 1, config(t, js, streams.RetriesStream).MaxMsgsPerSubject)
		require.True(t, config(t, js, streams.RetriesStream).AllowMsgSchedules)
		require.Equal(t, "1", config(t, js, streams.DeadLettersStream).Metadata["tidings.schema"])
	})
	t.Run("widens what was raised in the configuration and keeps what the operator added", func(t *testing.T) {
		s, nc, js := setup(t)
		o := s.Options()
		_, err := streams.Open(t.Context(), nc, o)
		require.NoError(t, err)
		change(t, js, streams.OutcomesStream, func(c *jetstream.StreamConfig) { c.Description = "ours" })
		o.Horizon, o.OutcomesMaxBytes = 60*24*time.Hour, 2<<30
		_, err = streams.Open(t.Context(), nc, o)
		require.NoError(t, err)
		got := config(t, js, streams.OutcomesStream)
		require.Equal(t, o.Horizon, got.MaxAge)
		require.Equal(t, o.OutcomesMaxBytes, got.MaxBytes)
		require.Equal(t, "ours", got.Description)
	})
	t.Run("has DEADLETTERS of an earlier version keep the last letter of each event", func(t *testing.T) {
		s, nc, js := setup(t)
		l, err := streams.Open(t.Context(), nc, s.Options())
		require.NoError(t, err)
		change(t, js, streams.DeadLettersStream, func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = -1 })
		for generation := range 2 {
			_, _, err := l.DeadLetters.Put(t.Context(), letter("1", generation))
			require.NoError(t, err)
		}
		l, err = streams.Open(t.Context(), nc, s.Options())
		require.NoError(t, err)
		info, err := l.DeadLetters.Info(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 1, info.Messages)
		got, _, err := l.DeadLetters.Get(t.Context(), "acme", ref("1").Key)
		require.NoError(t, err)
		require.Equal(t, 1, got.Generation)
	})
	t.Run("has RETRIES of an earlier version take what is set aside", func(t *testing.T) {
		s, nc, js := setup(t)
		_, err := streams.Open(t.Context(), nc, s.Options())
		require.NoError(t, err)
		change(t, js, streams.RetriesStream, func(c *jetstream.StreamConfig) { c.Subjects = []string{"retries.*.*", "schedules.*"} })
		l, err := streams.Open(t.Context(), nc, s.Options())
		require.NoError(t, err)
		require.NoError(t, l.Retries.SetAside(t.Context(), wakeup("1", 1), "mail"))
	})
	t.Run("refuses a stream that takes subjects of somebody else", func(t *testing.T) {
		s, nc, js := setup(t)
		_, err := streams.Open(t.Context(), nc, s.Options())
		require.NoError(t, err)
		change(t, js, streams.RetriesStream, func(c *jetstream.StreamConfig) { c.Subjects = append(c.Subjects, "others.>") })
		_, err = streams.Open(t.Context(), nc, s.Options())
		require.ErrorContains(t, err, "RETRIES subjects")
	})
	t.Run("refuses drift that could lose data, names all of it, and changes nothing", func(t *testing.T) {
		s, nc, js := setup(t)
		o := s.Options()
		_, err := streams.Open(t.Context(), nc, o)
		require.NoError(t, err)
		change(t, js, streams.EventsStream, func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld })
		change(t, js, streams.DeadLettersStream, func(c *jetstream.StreamConfig) { c.MaxMsgs = 10 })
		o.Horizon = 24 * time.Hour // shorter than the stream's

		_, err = streams.Open(t.Context(), nc, o)
		var drift *streams.DriftError
		require.ErrorAs(t, err, &drift)
		got := map[string]streams.Drift{}
		for _, d := range drift.Drifts {
			require.NotEmpty(t, d.Do)
			d.Do = ""
			got[d.Stream+" "+d.Field] = d
		}
		require.Equal(t, map[string]streams.Drift{
			"EVENTS discard":       {Stream: "EVENTS", Field: "discard", Want: "DiscardNew", Have: "DiscardOld"},
			"OUTCOMES max-age":     {Stream: "OUTCOMES", Field: "max-age", Want: "24h0m0s", Have: "720h0m0s"},
			"DEADLETTERS max-msgs": {Stream: "DEADLETTERS", Field: "max-msgs", Want: "-1", Have: "10"},
		}, got)
		require.Equal(t, jetstream.DiscardOld, config(t, js, streams.EventsStream).Discard)
	})
	t.Run("refuses a stream that forgets by itself", func(t *testing.T) {
		s, nc, js := setup(t)
		_, err := streams.Open(t.Context(), nc, s.Options())
		require.NoError(t, err)
		change(t, js, streams.OutcomesStream, func(c *jetstream.StreamConfig) { c.AllowMsgTTL = true })
		_, err = streams.Open(t.Context(), nc, s.Options())
		require.ErrorContains(t, err, "OUTCOMES allow-msg-ttl: want false, have true")
	})
	t.Run("removing and purging OUTCOMES is refused by the server", func(t *testing.T) {
		s, nc, js := setup(t)
		_, err := streams.Open(t.Context(), nc, s.Options())
		require.NoError(t, err)
		out, err := js.Stream(t.Context(), streams.OutcomesStream)
		require.NoError(t, err)
		require.Error(t, out.Purge(t.Context()))
		require.Error(t, out.DeleteMsg(t.Context(), 1))
	})
}
