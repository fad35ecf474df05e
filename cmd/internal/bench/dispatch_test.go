package bench

import (
	"context"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/bridge/bridgetest"
	"tidings/streams"
	"tidings/streams/event"
)

func TestDispatch(t *testing.T) {
	temp := t.TempDir()
	vhost := bridgetest.Private(t).Vhost(t)
	t.Setenv("TMPDIR", temp)
	var said strings.Builder
	results, err := Dispatch(t.Context(), DispatchOptions{
		Modes: []streams.Durability{streams.Relaxed, streams.Strict}, From: []From{FromAMQP, FromJetStream},
		Count: 50, Rounds: 2, Steady: 40 * time.Millisecond, Ungrouped: true, AMQPURL: vhost.URL, Progress: &said,
	})
	require.NoError(t, err)

	t.Run("measures every mode from every source, in the order asked for", func(t *testing.T) {
		var kinds []string
		for _, r := range results {
			kinds = append(kinds, r.Mode+" from "+string(r.From))
			require.Positive(t, r.Rate)
			require.Positive(t, r.P50)
			require.GreaterOrEqual(t, r.P99, r.P50)
		}
		require.Equal(t, []string{
			"relaxed from amqp", "strict from amqp", "strict-ungrouped from amqp",
			"relaxed from jetstream", "strict from jetstream", "strict-ungrouped from jetstream",
		}, kinds)
	})
	t.Run("puts a steady load on all but strict without group commit", func(t *testing.T) {
		for _, r := range results {
			if strings.HasSuffix(r.Mode, "-ungrouped") {
				require.Nil(t, r.SteadyP99, r.Mode)
				continue
			}
			require.NotNil(t, r.SteadyP99, r.Mode)
			require.Positive(t, *r.SteadyP99)
		}
		require.Contains(t, said.String(), "round 2 of 2, strict from amqp, 500/s: 20 of 20")
	})
	t.Run("takes turns, and says how far it is", func(t *testing.T) {
		var steps []string
		for line := range strings.Lines(said.String()) {
			if step := before(line, ": 50 of 50"); step != "" && !strings.HasSuffix(step, ", publishing") {
				steps = append(steps, step)
			}
		}
		steps = slices.Compact(steps) // a second may be over just at the end
		require.Len(t, steps, 12)
		require.Equal(t, "round 1 of 2, relaxed from amqp", steps[0])
		require.Equal(t, "round 1 of 2, strict-ungrouped from jetstream", steps[5])
		require.Equal(t, "round 2 of 2, strict-ungrouped from jetstream", steps[6])
		require.Equal(t, "round 2 of 2, relaxed from amqp", steps[11])
		require.Contains(t, said.String(), "all is done in about")
	})
	t.Run("leaves no directory and no queue", func(t *testing.T) {
		left, err := filepath.Glob(filepath.Join(temp, "*"))
		require.NoError(t, err)
		require.Empty(t, left)
		queues, err := vhost.Queues(t.Context())
		require.NoError(t, err)
		require.Empty(t, queues)
	})
}

func TestDispatchThatIsInterruptedLeavesNothing(t *testing.T) {
	for _, step := range []string{"publishing", "from jetstream:", "500/s"} {
		t.Run(step, func(t *testing.T) {
			temp := t.TempDir()
			t.Setenv("TMPDIR", temp)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			_, err := Dispatch(ctx, DispatchOptions{
				Modes: []streams.Durability{streams.Relaxed}, From: []From{FromJetStream}, Rounds: 2, Steady: 10 * time.Second,
				Count: 2000, Progress: writer(func(line string) {
					if strings.Contains(line, step) {
						cancel()
					}
				}),
			})
			require.ErrorIs(t, err, context.Canceled)
			left, err := filepath.Glob(filepath.Join(temp, "*"))
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
}

// measured50 is the product after 50 events, with all that came of them.
func measured50(t *testing.T) *whole {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	w, err := openWhole(t.Context(), streams.Options{Durability: streams.Relaxed}, 50)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.close()) })
	in := newStored(w.log)
	silent := func(func() int) func() { return func() {} }
	require.NoError(t, in.fill(t.Context(), 50, silent))
	require.NoError(t, w.work(t.Context(), in.run, func(ctx context.Context) error { return w.settled(ctx, 50) }))
	return w
}

func TestAMeasurementFailsUnlessEveryEventWasReceivedExactlyOnce(t *testing.T) {
	w := measured50(t)
	lives, err := w.lives(50)
	require.NoError(t, err)
	require.Len(t, lives, 50)
	for _, l := range lives {
		require.True(t, l.received.After(l.claimed))
	}

	row, err := w.store.FindID(idOf(7), "")
	require.NoError(t, err)
	message := event.NewMessageID(row[0].Key, hookRoute, hookChannel, w.receiver.url)
	// but changes what one key was received, for one test.
	but := func(t *testing.T, key string, times, total int) {
		receipts := w.receiver.receipts
		t.Cleanup(func() { w.receiver.receipts, w.receiver.total = receipts, 50 })
		w.receiver.receipts, w.receiver.total = maps.Clone(receipts), total
		w.receiver.receipts[key] = receipt{time.Now(), times}
	}
	t.Run("one was received twice", func(t *testing.T) {
		but(t, message, 2, 51)
		_, err := w.lives(50)
		require.ErrorContains(t, err, "event bench-7: message "+message+" was received 2 times, not once")
	})
	t.Run("one was received twice and another not at all", func(t *testing.T) {
		but(t, message, 0, 50)
		_, err := w.lives(50)
		require.ErrorContains(t, err, "was received 0 times")
	})
	t.Run("something else was received", func(t *testing.T) {
		but(t, "another", 1, 51)
		_, err := w.lives(50)
		require.ErrorContains(t, err, "51 messages were received")
	})
	t.Run("one is not in the ledger", func(t *testing.T) {
		_, err := w.lives(51)
		require.ErrorContains(t, err, "of 51 events, 50 are in the ledger")
	})
	t.Run("there are more in the ledger", func(t *testing.T) {
		_, err := w.lives(49)
		require.ErrorIs(t, err, errStranger)
		require.ErrorContains(t, w.settled(t.Context(), 49), "the ledger has 50 events")
	})
}

func TestWhatIsStuckIsNotWaitedForForever(t *testing.T) {
	w := measured50(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, w.settled(ctx, 51), context.Canceled)
	require.ErrorIs(t, w.work(t.Context(), func(context.Context) error { return nil },
		func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }), errEnded)
}

func TestTheReceiverCountsByIdempotencyKey(t *testing.T) {
	r, err := startReceiver(2)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.close()) }()
	for _, key := range []string{"a", "b", "b"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url, strings.NewReader("{}"))
		require.NoError(t, err)
		req.Header.Set("webhook-id", key)
		res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, http.StatusOK, res.StatusCode)
	}
	require.Equal(t, 3, r.count())
	_, err = r.once("a")
	require.NoError(t, err)
	_, err = r.once("b")
	require.ErrorContains(t, err, "received 2 times")
}
