package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"tidings/bridge"
	"tidings/bridge/bridgetest"
	"tidings/streams"
	"tidings/streams/event"
	"tidings/streams/streamstest"
)

// gatedEvents asks before it stores an event.
type gatedEvents struct {
	bridge.Events
	ask   func(context.Context, event.Envelope) error
	calls atomic.Int64
}

func (g *gatedEvents) Publish(ctx context.Context, in streams.Incoming) (streams.Accepted, error) {
	g.calls.Add(1)
	if err := g.ask(ctx, in.Envelope); err != nil {
		return streams.Accepted{}, err
	}
	return g.Events.Publish(ctx, in)
}

// gate puts ask before the world's events.
func (w *world) gate(ask func(context.Context, event.Envelope) error) *gatedEvents {
	g := &gatedEvents{Events: w.log.Events, ask: ask}
	w.door.Events = g
	return g
}

func (w *world) ready() bool { return w.bridge.Status().Ready() }

func messages(n int) (all []amqp.Publishing) {
	for i := range n {
		all = append(all, plain(fmt.Sprintf("e-%04d", i)))
	}
	return all
}

func TestNoGhosts(t *testing.T) {
	bothSubscribers(t, testNoGhostsOfAQueue)
	t.Run("when the broker closes the connection, ten times", func(t *testing.T) {
		testNoGhostsOfConnections(t, withQueue(t))
	})
}

func testNoGhostsOfConnections(t *testing.T, w *world) {
	w.start()
	for i := range 10 {
		w.eventually("a consumer", w.ready)
		require.NoError(t, w.vhost.CloseConnections(t.Context(), "for the test"))
		w.publish(plain(fmt.Sprint(i)))
		w.eventually("the event", func() bool { return w.stored() == i+1 })
	}
	require.Len(t, w.settled(10), 10)
	require.Len(t, w.ids(), 10)
	require.Empty(t, w.letters())
	require.GreaterOrEqual(t, w.bridge.Status().Reconnects, uint64(10))
}

func testNoGhostsOfAQueue(t *testing.T, withQueue func(*testing.T) *world) {
	t.Run("when the queue is deleted, ten times", func(t *testing.T) {
		// A classic queue: RabbitMQ 3.10 now and then delivers the first message
		// of a quorum queue to nobody if another one had its name just before.
		w := withQueue(t)
		ch := w.channel()
		_, err := ch.QueueDelete("orders", false, false, false)
		require.NoError(t, err)
		w.declareWith("orders", nil)
		w.start()
		for i := range 10 {
			w.eventually("a consumer", w.ready)
			_, err := ch.QueueDelete("orders", false, false, false)
			require.NoError(t, err)
			w.eventually("trouble", func() bool { return !w.ready() })
			w.declareWith("orders", nil)
			w.publish(plain(fmt.Sprint(i)))
			w.eventually("the event", func() bool { return w.stored() == i+1 })
		}
		require.Len(t, w.settled(10), 10)
		require.Len(t, w.ids(), 10)
		require.Empty(t, w.letters())
	})
}

func TestNothingIsLostWhileConnectionsAreClosed(t *testing.T) {
	testNothingIsLost(t, withQueue(t))
}

func testNothingIsLost(t *testing.T, w *world) {
	w.start()
	w.eventually("a consumer", w.ready)
	producer, err := bridge.NewPublisher(w.vhost.URL)
	require.NoError(t, err)
	t.Cleanup(producer.Close)
	var published int
	done := make(chan struct{})
	var producing sync.WaitGroup
	producing.Go(func() {
		for ; ; published++ {
			select {
			case <-done:
				return
			default:
			}
			// A producer that does not know publishes again, with the same id.
			for producer.Publish(t.Context(), "", "orders", plain(fmt.Sprint(published))) != nil {
				if t.Context().Err() != nil {
					return
				}
			}
		}
	})

	for range 10 {
		require.NoError(t, w.vhost.CloseConnections(t.Context(), "for the test"))
	}
	close(done)
	producing.Wait()

	w.eventually("all events", func() bool { return len(w.ids()) == published })
	w.acknowledged()
	t.Logf("%d events, %d duplicates", published, len(w.duplicates()))
	require.Greater(t, published, 100)
	require.Equal(t, published, w.stored(), "one copy of each")
	require.Empty(t, w.letters())
}

func TestWindow(t *testing.T) { bothSubscribers(t, testWindow) }

func testWindow(t *testing.T, withQueue func(*testing.T) *world) {
	w := withQueue(t)
	w.config.Window = 4
	pass := make(chan struct{})
	g := w.gate(func(context.Context, event.Envelope) error { <-pass; return nil })
	w.publish(messages(8)...)

	w.start()
	w.eventually("a full window", func() bool { return g.calls.Load() == 4 })
	ch := w.channel()
	require.Equal(t, 4, w.waiting(ch), "the rest stays in the queue")
	require.Equal(t, 4, w.bridge.Status().InHand)
	pass <- struct{}{}
	w.eventually("one more", func() bool { return g.calls.Load() == 5 })
	require.Equal(t, 4, w.bridge.Status().InHand)
	close(pass)

	w.settled(8)
}

func TestStop(t *testing.T) { bothSubscribers(t, testStop) }

func testStop(t *testing.T, withQueue func(*testing.T) *world) {
	t.Run("finishes what is in hand, and leaves the rest in the queue", func(t *testing.T) {
		w := withQueue(t)
		w.config.Window = 3
		pass := make(chan struct{})
		var cancelled atomic.Int64
		g := w.gate(func(ctx context.Context, _ event.Envelope) error {
			<-pass
			if ctx.Err() != nil {
				cancelled.Add(1)
			}
			return nil
		})
		w.publish(messages(10)...)
		w.start()
		w.eventually("a full window", func() bool { return g.calls.Load() == 3 })

		stopped := make(chan struct{})
		go func() { defer close(stopped); w.stop() }()
		w.eventually("the end of intake", func() bool { return !w.bridge.Status().Consuming })
		close(pass)
		<-stopped

		require.Zero(t, cancelled.Load())
		require.Len(t, w.events(), 3)
		require.Equal(t, int64(3), g.calls.Load())
		w.back(7)
		require.Equal(t, "stopped", w.bridge.Status().Reason)
	})
	t.Run("gives back what is not finished within the drain time", func(t *testing.T) {
		w := withQueue(t)
		w.config.Drain = 100 * time.Millisecond
		g := w.gate(func(ctx context.Context, _ event.Envelope) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})
		w.publish(messages(2)...)
		w.start()
		w.eventually("both in hand", func() bool { return g.calls.Load() == 2 })

		w.stop()

		require.Empty(t, w.events())
		w.back(2)
	})
	t.Run("does not wait for a log that is down", func(t *testing.T) {
		w := withQueue(t)
		w.gate(func(context.Context, event.Envelope) error { return streams.ErrUnavailable })
		w.publish(messages(2)...)
		w.start()
		w.eventually("trouble", func() bool { return w.bridge.Status().InHand == 2 && !w.ready() })

		w.stop()

		w.back(2)
		require.Empty(t, w.letters())
	})
	t.Run("while the broker is away", func(t *testing.T) {
		w := withQueue(t)
		w.config.URL = "amqp://guest:guest@127.0.0.1:1/"
		w.start()
		w.eventually("trouble", func() bool { return !w.ready() })
		w.stop()
	})
	t.Run("before it has begun", func(t *testing.T) {
		w := withQueue(t)
		b, err := bridge.New(w.config, bridge.NewDoor(w.door), w.options)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, b.Run(ctx))
	})
	t.Run("and start again", func(t *testing.T) {
		w := withQueue(t)
		w.start()
		w.eventually("a consumer", w.ready)
		w.stop()
		w.publish(plain("a"))
		w.start()
		w.settled(1)
	})
}

// A quorum queue that has many acknowledgements at a time sets some aside, and
// forgets them if the connection ends then.
func TestAStopLosesNoAcknowledgements(t *testing.T) {
	const window, rest = 2000, 100
	w := withQueue(t)
	w.config.Window = window
	var stored sync.WaitGroup
	stored.Add(window)
	pass := make(chan struct{})
	w.door.Events = afterwards{w.log.Events, func(e event.Envelope) {
		stored.Done()
		<-pass
		if e.ID == "e-0000" { // as long as it is outstanding, the others are acknowledged one by one
			for w.bridge.Status().Acked < window-1 {
				runtime.Gosched()
			}
		}
	}}
	w.publish(messages(window + rest)...)
	w.start()
	stored.Wait()

	stopped := make(chan struct{})
	go func() { defer close(stopped); w.stop() }()
	w.eventually("the end of intake", func() bool { return !w.bridge.Status().Consuming })
	close(pass)
	<-stopped

	require.Equal(t, window, w.stored())
	w.back(rest)
}

// afterwards does something after an event was stored.
type afterwards struct {
	bridge.Events
	do func(event.Envelope)
}

func (a afterwards) Publish(ctx context.Context, in streams.Incoming) (streams.Accepted, error) {
	accepted, err := a.Events.Publish(ctx, in)
	a.do(in.Envelope)
	return accepted, err
}

func TestLogInTrouble(t *testing.T) { bothSubscribers(t, testLogInTrouble) }

func testLogInTrouble(t *testing.T, withQueue func(*testing.T) *world) {
	t.Run("is waited out with the deliveries in hand", func(t *testing.T) {
		w := withQueue(t)
		var down atomic.Bool
		down.Store(true)
		w.gate(func(context.Context, event.Envelope) error {
			if down.Load() {
				return fmt.Errorf("%w: no server", streams.ErrUnavailable)
			}
			return nil
		})
		w.publish(messages(5)...)
		w.start()
		w.eventually("trouble", func() bool { return w.bridge.Status().InHand == 5 && !w.ready() })
		require.Equal(t, "the log does not take events: store the event: log is unavailable: no server", w.bridge.Status().Reason)
		w.back(0)
		require.Zero(t, w.bridge.Status().Acked)

		down.Store(false)

		w.eventually("the end of the trouble", w.ready)
		w.settled(5)
		require.Empty(t, w.duplicates())
		require.Equal(t, 1, w.said.count("the log does not take events"))
		require.Equal(t, 1, w.said.count("the log takes events again"))
	})
	t.Run("for some of them is said once, while the others pass", func(t *testing.T) {
		w := withQueue(t)
		var down atomic.Bool
		down.Store(true)
		g := w.gate(func(_ context.Context, e event.Envelope) error {
			if down.Load() && strings.HasPrefix(e.ID, "large") {
				return streams.ErrFull
			}
			return nil
		})
		w.publish(plain("large-1"), plain("large-2"))
		w.start()
		w.eventually("trouble", func() bool { return g.calls.Load() >= 2 })
		for i := range 20 {
			before := g.calls.Load()
			w.publish(plain(fmt.Sprint(i)))
			w.eventually("the event, and a try", func() bool { return w.stored() == i+1 && g.calls.Load() > before+int64(i%2) })
		}
		require.Equal(t, 1, w.said.count("the log does not take events"), w.said.all())
		require.Zero(t, w.said.count("the log takes events again"), w.said.all())

		down.Store(false)

		w.settled(22)
		require.Equal(t, 1, w.said.count("the log takes events again"), w.said.all())
	})
	t.Run("for long: the window is given back once, and taken again when the log answers", func(t *testing.T) {
		w := withQueue(t)
		w.config.HoldFor = 300 * time.Millisecond
		var down atomic.Bool
		down.Store(true)
		answer := func() error {
			if down.Load() {
				return streams.ErrFull
			}
			return nil
		}
		g := w.gate(func(context.Context, event.Envelope) error { return answer() })
		var probes atomic.Int64
		w.options.Probe = func(context.Context) error {
			if probes.Add(1) == 1 {
				return nil // it goes down just then
			}
			return answer()
		}
		w.publish(messages(5)...)
		w.start()
		ch := w.channel()
		w.eventually("a full hand", func() bool { return w.bridge.Status().InHand == 5 })
		w.eventually("the window back", func() bool { return w.waiting(ch) == 5 })
		calls := g.calls.Load()
		before := probes.Load()
		w.eventually("probes", func() bool { return probes.Load() >= before+3 })
		require.Equal(t, calls, g.calls.Load(), "nothing is taken meanwhile")
		require.Equal(t, 5, w.waiting(ch))
		require.Equal(t, "the log does not take events: stream is full", w.bridge.Status().Reason)

		down.Store(false)

		for _, e := range w.settled(5) {
			headers, err := bridge.DecodeHeaders(e.Headers)
			require.NoError(t, err)
			require.Equal(t, int64(1), headers["x-delivery-count"], "given back once")
		}
		require.Empty(t, w.duplicates())
	})
	t.Run("at the start: nothing is taken", func(t *testing.T) {
		w := withQueue(t)
		var up atomic.Bool
		w.options.Probe = func(context.Context) error {
			if !up.Load() {
				return errors.New("no route")
			}
			return nil
		}
		w.publish(plain("a"))
		w.start()
		w.eventually("trouble", func() bool { return w.bridge.Status().Reason == "the log does not take events: no route" })
		require.Zero(t, w.look(w.channel()).Consumers)
		up.Store(true)
		w.settled(1)
	})
}

func TestLogServerThatRestarts(t *testing.T) {
	w := withQueue(t)
	server := streamstest.NewServer(t)
	w.log = server.Log()
	w.door = bridge.DoorOptions{Events: w.log.Events, Letters: w.log.DeadLetters, Audit: w.log.Outcomes}
	var once sync.Once
	half := make(chan struct{})
	g := w.gate(func(context.Context, event.Envelope) error { return nil })
	g.ask = func(context.Context, event.Envelope) error {
		if g.calls.Load() >= 1000 {
			once.Do(func() { close(half) })
		}
		return nil
	}
	w.publish(messages(2000)...)

	w.start()
	<-half
	server.Restart()

	w.settled(2000)
	require.Len(t, w.ids(), 2000)
	require.Empty(t, w.letters())
}

func TestConsumerTimeout(t *testing.T) {
	w := withQueue(t)
	node := bridgetest.Private(t)
	set := func(timeout, tick string) {
		_, err := node.Ctl(context.WithoutCancel(t.Context()), "eval", "application:set_env(rabbit, consumer_timeout, "+timeout+
			"), application:set_env(rabbit, channel_tick_interval, "+tick+").")
		require.NoError(t, err)
	}
	set("500", "200")
	t.Cleanup(func() { set("1800000", "60000") })
	pass := make(chan struct{})
	w.gate(func(context.Context, event.Envelope) error { <-pass; return nil })
	w.publish(plain("a"))

	w.start()

	w.eventually("trouble", func() bool { return !w.ready() && w.bridge.Status().InHand == 1 })
	require.Contains(t, w.bridge.Status().Reason, "the broker closed the channel: ")
	require.Contains(t, w.bridge.Status().Reason, "timed out")
	close(pass)
	w.eventually("the repeat: the broker had given it to another, which was us", func() bool { return len(w.duplicates()) == 1 })
	w.settled(1)
	require.Len(t, w.duplicates(), 1)
}

func TestHandlerThatPanicsDoesNotLoop(t *testing.T) {
	w := withQueue(t)
	w.config.Reconnect = bridge.Reconnect{Initial: 100 * time.Millisecond, Max: 100 * time.Millisecond}
	var panics atomic.Int64
	w.gate(func(context.Context, event.Envelope) error {
		if panics.Add(1) <= 5 {
			panic("a bug")
		}
		return nil
	})
	w.publish(plain("a"))
	begin := time.Now()

	w.start()

	stored := w.settled(1)[0]
	require.Greater(t, time.Since(begin), 5*50*time.Millisecond, "there is a pause before every further try")
	headers, err := bridge.DecodeHeaders(stored.Headers)
	require.NoError(t, err)
	require.NotContains(t, headers, "x-delivery-count", "it was never put back")
}

func TestBrokerInTrouble(t *testing.T) {
	t.Run("that is down at the start is waited out", func(t *testing.T) {
		w := withQueue(t)
		w.publish(plain("a"))
		node := bridgetest.Private(t)
		require.NoError(t, node.StopApp(t.Context()))

		w.start()

		w.eventually("trouble", func() bool { return !w.ready() && w.said.count("not consuming") > 0 })
		require.Contains(t, w.bridge.Status().Reason, fmt.Sprintf("connect to %s: ", w.bridge.Status().Broker))
		require.NoError(t, node.StartApp(t.Context()))
		w.settled(1)
	})
	t.Run("that restarts is waited out", func(t *testing.T) {
		w := withQueue(t)
		w.start()
		w.eventually("a consumer", w.ready)
		node := bridgetest.Private(t)
		require.NoError(t, node.StopApp(t.Context()))
		w.eventually("trouble", func() bool { return !w.ready() })
		require.NoError(t, node.StartApp(t.Context()))
		w.publish(plain("a"))
		w.settled(1)
		require.LessOrEqual(t, w.said.count("not consuming"), 5, "each change is said once:\n"+w.said.all())
	})
	t.Run("without the queue: it says what to do, and goes on when it is there", func(t *testing.T) {
		w := newWorld(t)
		w.start()
		w.eventually("trouble", func() bool { return w.said.count("not consuming") > 0 })
		require.Equal(t, fmt.Sprintf(`queue "orders" not found in vhost %q: create it or set topology: declare`, w.vhost.Name),
			w.bridge.Status().Reason)
		w.declare("orders")
		w.publish(plain("a"))
		w.settled(1)
		require.LessOrEqual(t, w.said.count("not consuming"), 2, "each change is said once:\n"+w.said.all())
		require.Zero(t, w.said.count("guest"), "no credentials")
	})
}
