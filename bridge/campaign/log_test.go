package campaign_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/bridge"
	"tidings/bridge/bridgetest"
)

// An outage is shorter or longer than what the bridge holds deliveries for.
const holdFor = time.Minute // the default

func TestNATSIsStoppedForHalfAMinute(t *testing.T) {
	t.Parallel()
	s := newSite(t, bridgetest.Private(t))
	o := s.outage(30 * time.Second)

	require.Equal(t, window, o.atEnd.InHand, "a window is in hand, and stays there")
	require.Equal(t, o.atStart.Acked, o.atEnd.Acked, "nothing is acknowledged")
	counted := s.finish()
	require.Zero(t, counted.givenAgain(), "nothing was given back")
	require.Empty(t, counted.duplicates)
}

func TestNATSIsStoppedForAMinuteAndAHalf(t *testing.T) {
	t.Parallel()
	s := newSite(t, bridgetest.Private(t))
	o := s.outage(holdFor + 30*time.Second)

	require.Zero(t, o.atEnd.InHand, "the window was given back")
	require.False(t, o.atEnd.Consuming)
	require.Equal(t, o.atStart.Acked, o.atEnd.Acked, "nothing is acknowledged")
	s.done.returns = 1
	s.finish().gaveBackOnce(t)
	require.Equal(t, uint64(1), o.after.Reconnects, "it consumed again when the log answered, and not before")
}

// outage is what a bridge did while its log was away.
type outage struct{ atStart, atEnd, after bridge.Status }

// outage stops the log under load and starts it again after a time. Meanwhile
// producers publish on, and RabbitMQ keeps what the bridge does not hold.
func (s *site) outage(lasts time.Duration) (o outage) {
	s.Helper()
	s.spawn()
	stop := s.produce(50)
	s.untilAcked(100)
	over := time.NewTimer(lasts)
	s.process.stopLog()
	o.atStart = s.until("a full hand", func(b bridge.Status) bool { return b.InHand == window && !b.Ready() })
	heap := s.process.heap()
	<-over.C
	o.atEnd, _ = s.process.status()
	grown := int64(s.process.heap()) - int64(heap)
	require.Less(s, grown, int64(1<<20), "memory stays flat")
	s.Logf("after %s without a log: %d in hand, %d in the queue; the heap of %d KiB has grown by %d KiB",
		lasts, o.atEnd.InHand, s.ready(), heap>>10, grown>>10)
	s.process.startLog()
	s.until("the end of the trouble", bridge.Status.Ready)
	s.untilAcked(100)
	stop()
	o.after, _ = s.process.status()
	return o
}

func TestTheLogIsFull(t *testing.T) {
	t.Parallel()
	s := newSite(t, bridgetest.Private(t))
	s.load.pad = strings.Repeat("x", 2000)
	s.settings.Log.EventsMaxBytes = 2 << 20
	s.settings.Bridge.HoldFor = 5 * time.Second // the log is full for much longer
	s.spawn()
	stop := s.produce(200)
	s.until("a full log", func(b bridge.Status) bool { return strings.Contains(b.Reason, "EVENTS is full") })
	over := time.NewTimer(20 * time.Second)
	s.until("the window back", func(b bridge.Status) bool { return b.InHand == 0 && !b.Consuming })
	<-over.C
	s.process.call("Widen", int64(1<<30), &struct{}{})
	s.until("the end of the trouble", bridge.Status.Ready)
	s.untilAcked(100)
	stop()
	s.done.returns = 1
	s.finish().gaveBackOnce(t)
}

// gaveBackOnce ensures that one window went back to the queue, and that once.
func (t tally) gaveBackOnce(tb testing.TB) {
	tb.Helper()
	// Some of it may have been stored, with the answer lost.
	require.Equal(tb, window, t.givenAgain()+len(t.duplicates), "a window was given back")
	for _, e := range t.events {
		require.LessOrEqual(tb, e.returns, 1, "once")
	}
}
