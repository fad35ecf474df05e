package bench

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"tidings/bridge/bridgetest"
	"tidings/streams"
)

func TestMain(m *testing.M) {
	inPart()
	goleak.VerifyTestMain(bridgetest.Main(m))
}

func TestBridge(t *testing.T) {
	temp := t.TempDir()
	vhost := bridgetest.Private(t).Vhost(t)
	t.Setenv("TMPDIR", temp)
	var said strings.Builder
	results, err := Bridge(t.Context(), Options{
		Modes: []streams.Durability{streams.Relaxed, streams.Strict}, Count: 50, Size: 100, Window: 8, Rounds: 2,
		AMQPURL: vhost.URL, Progress: &said,
	})
	require.NoError(t, err)

	t.Run("measures every mode, in the order asked for", func(t *testing.T) {
		require.Len(t, results, 2)
		require.Equal(t, "relaxed", results[0].Mode)
		require.Equal(t, "strict", results[1].Mode)
		for _, r := range results {
			require.Positive(t, r.Product)
			require.Positive(t, r.Bare)
			require.InDelta(t, r.Product/r.Bare, r.Ratio, 0.01)
			require.Positive(t, r.P50)
			require.GreaterOrEqual(t, r.P99, r.P50)
		}
	})
	t.Run("takes turns, and says how far it is", func(t *testing.T) {
		var steps []string
		for line := range strings.Lines(said.String()) {
			if step, ok := strings.CutSuffix(before(line, ": 50 of 50"), ", publishing"); !ok && step != "" {
				steps = append(steps, step)
			}
		}
		require.Equal(t, []string{
			"round 1 of 2, relaxed, product", "round 1 of 2, relaxed, bare loop",
			"round 1 of 2, strict, product", "round 1 of 2, strict, bare loop",
			"round 2 of 2, relaxed, bare loop", "round 2 of 2, relaxed, product",
			"round 2 of 2, strict, bare loop", "round 2 of 2, strict, product",
		}, steps)
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

func TestBridgeWithRepeats(t *testing.T) {
	vhost := bridgetest.Private(t).Vhost(t)
	t.Setenv("TMPDIR", t.TempDir())
	results, err := Bridge(t.Context(), Options{
		Modes: []streams.Durability{streams.Strict}, Count: 500, Size: 100, Window: 64, Rounds: 1,
		Duplicates: 0.05, Conflicts: 0.05, Memory: true, AMQPURL: vhost.URL,
	})
	require.NoError(t, err) // so each became what it must
	r := results[0]
	require.Positive(t, r.Mixed)
	require.InDelta(t, r.Mixed/r.Product, r.MixedRatio, 0.01)
	require.NotNil(t, r.Memory)
	require.LessOrEqual(t, r.Memory.At10, r.Memory.At50)
	require.LessOrEqual(t, r.Memory.At50, r.Memory.At100)
	require.InDelta(t, r.PeakRSS, r.Memory.At100, 0)
}

func TestWhatIsNotInTheLogIsSaid(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	p, err := openPlace(t.Context(), streams.Relaxed)
	require.NoError(t, err)
	defer p.close()
	require.NoError(t, p.holds(t.Context(), 0))
	for k, fault := range map[kind]string{
		original:  "there are 0 events in the log and not 1",
		duplicate: "there are 0 duplicates in the log and not 1",
		conflict:  "there are 0 dead letters in the log and not 1",
	} {
		var want [kinds]int
		want[k] = 1
		require.ErrorContains(t, p.holdsAll(t.Context(), want), fault)
	}
}

func before(line, end string) string {
	step, _, found := strings.Cut(line, end)
	if !found {
		return ""
	}
	return step
}

func TestBridgeThatIsInterruptedLeavesNothing(t *testing.T) {
	vhost := bridgetest.Private(t).Vhost(t)
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := Bridge(ctx, Options{
		Modes: []streams.Durability{streams.Strict}, Count: 200_000, Size: 100, Window: 8, Rounds: 1,
		AMQPURL: vhost.URL, Progress: writer(func(string) { cancel() }),
	})
	require.ErrorIs(t, err, context.Canceled)
	left, err := filepath.Glob(filepath.Join(temp, "*"))
	require.NoError(t, err)
	require.Empty(t, left)
	queues, err := vhost.Queues(t.Context())
	require.NoError(t, err)
	require.Empty(t, queues)
}

type writer func(string)

func (w writer) Write(p []byte) (int, error) { w(string(p)); return len(p), nil }

var _ io.Writer = writer(nil)

func TestEveryMessageIsAnEventOfTheSizeAskedFor(t *testing.T) {
	vhost := bridgetest.Private(t).Vhost(t)
	q, err := newQueue(vhost.URL)
	require.NoError(t, err)
	defer func() { require.NoError(t, q.remove()) }()
	require.NoError(t, q.fill(t.Context(), 3, 512, func(func() int) func() { return func() {} }))
	ids := map[string]bool{}
	for range 3 {
		var d amqp.Delivery
		require.Eventually(t, func() (ok bool) { d, ok, _ = q.ch.Get(q.name, true); return ok }, 10*time.Second, 10*time.Millisecond)
		require.Len(t, d.Body, 512)
		ids[d.MessageId] = true
	}
	require.Len(t, ids, 3)
}

func TestAWrongURLIsNotShown(t *testing.T) {
	for _, url := range []string{"amqp://u:se%cret@h/", "http://u:secret@h/"} {
		_, err := Bridge(t.Context(), Options{Modes: []streams.Durability{streams.Relaxed}, Count: 1, Size: 16, Window: 1, Rounds: 1, AMQPURL: url})
		require.ErrorContains(t, err, "URL")
		require.NotContains(t, err.Error(), "cret")
	}
}

func TestMedian(t *testing.T) {
	require.InDelta(t, 2, median([]float64{3, 1, 2}), 0)
	require.InDelta(t, 2.5, median([]float64{4, 1, 3, 2}), 0)
}

func TestPercentile(t *testing.T) {
	var sorted []time.Duration
	for i := range 100 {
		sorted = append(sorted, time.Duration(i+1))
	}
	require.Equal(t, time.Duration(50), percentile(sorted, 50))
	require.Equal(t, time.Duration(99), percentile(sorted, 99))
	require.Equal(t, time.Duration(1), percentile(sorted[:1], 99))
}

func TestMeter(t *testing.T) {
	m := newMeter(2)
	m.acked(100 * time.Millisecond)
	require.Equal(t, 1, m.count())
	m.acked(0)
	<-m.done
	m.acked(0) // a repeat does not count
	r := m.result()
	require.Len(t, r.held, 2)
	require.Greater(t, r.rate, 0.0)
	require.LessOrEqual(t, r.rate, 20.0, "two in at least 100 ms")
}

func TestPeakMemory(t *testing.T) {
	require.InDelta(t, 64, peakIn("Name:\tx\nVmHWM:\t   65536 kB\nVmRSS:\t 1 kB\n"), 0)
	require.Zero(t, peakIn(""))
	if _, err := os.Stat("/proc/self/status"); err == nil {
		require.Positive(t, peakRSS())
	}
}
