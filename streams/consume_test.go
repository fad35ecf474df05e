package streams_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"tidings/streams"
	"tidings/streams/event"
	"tidings/streams/streamstest"
)

func publish(t *testing.T, l *streams.Log, ids ...string) []streams.Accepted {
	t.Helper()
	var all []streams.Accepted
	for _, id := range ids {
		got, err := l.Events.Publish(t.Context(), streams.Incoming{Envelope: order(id), Nonce: "n" + id})
		require.NoError(t, err)
		all = append(all, got)
	}
	return all
}

func consumerInfo(t *testing.T, nc *nats.Conn) *jetstream.ConsumerInfo {
	t.Helper()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	c, err := js.Consumer(t.Context(), streams.EventsStream, "dispatcher")
	require.NoError(t, err)
	info, err := c.Info(t.Context())
	require.NoError(t, err)
	return info
}

func TestDelivery(t *testing.T) {
	l := streamstest.New(t)
	accepted := publish(t, l, "1")[0]
	content, err := l.Events.Publish(t.Context(), streams.Incoming{Envelope: event.Envelope{Type: "disk.full", Data: []byte("x")}})
	require.NoError(t, err)

	got := make(chan *streams.Delivery, 10)
	streamstest.Run(t, func(ctx context.Context) error {
		return l.Events.Consume(ctx, streams.ConsumeOptions{Workers: 1}, func(ctx context.Context, d *streams.Delivery) {
			if err := d.Ack(ctx); err != nil {
				t.Errorf("ack: %v", err)
			}
			got <- d
		})
	})
	t.Run("an event's delivery knows its event from headers alone, and the whole of it", func(t *testing.T) {
		d := receive(t, got)
		require.True(t, d.FromEvents())
		require.Equal(t, streams.Wakeup{Tenant: "acme", Key: accepted.Key, Sequence: accepted.Sequence}, d.Wakeup())
		require.Equal(t, 1, d.NumDelivered())
		require.False(t, d.LastDelivery())
		stored, err := l.Events.Get(t.Context(), accepted.Sequence)
		require.NoError(t, err)
		whole, err := d.Event()
		require.NoError(t, err)
		require.Equal(t, stored, whole)
		r, err := d.Ref()
		require.NoError(t, err)
		require.Equal(t, stored.Ref, r)
	})
	t.Run("an event without id has the key that Publish answered", func(t *testing.T) {
		d := receive(t, got)
		require.Equal(t, streams.Wakeup{Tenant: event.DefaultTenant, Key: content.Key, Sequence: content.Sequence}, d.Wakeup())
	})
	t.Run("a message that somebody else wrote has no valid key and says so", func(t *testing.T) {
		s := streamstest.NewServer(t)
		l := s.Log()
		js, err := jetstream.New(s.Connect())
		require.NoError(t, err)
		_, err = js.Publish(t.Context(), "events.acme.order", []byte("?"))
		require.NoError(t, err)
		got := make(chan *streams.Delivery, 1)
		streamstest.Run(t, func(ctx context.Context) error {
			return l.Events.Consume(ctx, streams.ConsumeOptions{Workers: 1}, func(ctx context.Context, d *streams.Delivery) {
				_ = d.Ack(ctx)
				got <- d
			})
		})
		d := receive(t, got)
		require.False(t, d.Wakeup().Key.Valid())
		_, err = d.Ref()
		require.ErrorContains(t, err, "not written by Tidings")
		_, err = d.Event()
		require.Error(t, err)
	})
}

func TestEveryEventIsHandledOnceByManyWorkers(t *testing.T) {
	l := streamstest.New(t)
	const n = 500
	var mu sync.Mutex
	handled := map[event.Key]int{}
	all := make(chan struct{})
	streamstest.Run(t, func(ctx context.Context) error {
		return l.Events.Consume(ctx, streams.ConsumeOptions{Workers: 8}, func(ctx context.Context, d *streams.Delivery) {
			if err := d.Ack(ctx); err != nil {
				t.Errorf("ack: %v", err)
			}
			mu.Lock()
			defer mu.Unlock()
			handled[d.Wakeup().Key]++
			if len(handled) == n {
				close(all)
			}
		})
	})
	for i := range n {
		publish(t, l, fmt.Sprint(i))
	}
	receive(t, all)
	mu.Lock()
	defer mu.Unlock()
	for key, times := range handled {
		require.Equal(t, 1, times, key)
	}
}

func TestStopLetsHandlersFinishAndHandsNothingOn(t *testing.T) {
	s := streamstest.NewServer(t)
	l := s.Log()
	for i := range 60 {
		publish(t, l, fmt.Sprint(i))
	}
	const workers = 10
	ctx, stop := context.WithCancel(t.Context())
	var started, finished, cut atomic.Int32
	busy := make(chan struct{}, 100)
	release := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- l.Events.Consume(ctx, streams.ConsumeOptions{Workers: workers}, func(ctx context.Context, d *streams.Delivery) {
			started.Add(1)
			busy <- struct{}{}
			<-release
			if ctx.Err() != nil {
				cut.Add(1)
			}
			if err := d.Ack(ctx); err != nil {
				t.Errorf("ack: %v", err)
			}
			finished.Add(1)
		})
	}()
	for range workers {
		receive(t, busy)
	}
	require.Eventually(t, func() bool { return consumerInfo(t, s.Connect()).NumAckPending == 2*workers }, 10*time.Second, 10*time.Millisecond,
		"as many again wait in the client")
	stop()
	select {
	case err := <-done:
		t.Fatalf("ended before its handlers: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(release)
	require.NoError(t, <-done)
	require.EqualValues(t, workers, started.Load(), "nothing that waited was handed on")
	require.EqualValues(t, workers, finished.Load())
	require.Zero(t, cut.Load(), "the stop is not the handlers' context")
	info := consumerInfo(t, s.Connect())
	require.EqualValues(t, workers, info.AckFloor.Stream)

	t.Run("what waited comes again at once, and each event is handled once in all", func(t *testing.T) {
		var mu sync.Mutex
		handled := map[uint64]bool{}
		all := make(chan struct{})
		streamstest.Run(t, func(ctx context.Context) error {
			return l.Events.Consume(ctx, streams.ConsumeOptions{Workers: workers}, func(ctx context.Context, d *streams.Delivery) {
				if err := d.Ack(ctx); err != nil {
					t.Errorf("ack: %v", err)
				}
				mu.Lock()
				defer mu.Unlock()
				if handled[d.Sequence()] || d.Sequence() <= workers {
					t.Errorf("event %d is handled again", d.Sequence())
				}
				handled[d.Sequence()] = true
				if len(handled) == 50 {
					close(all)
				}
			})
		})
		receive(t, all) // well before AckWait, which is 30 s
	})
}

func TestHandlersAreCutOffWhenTheDrainIsOver(t *testing.T) {
	l := streamstest.New(t)
	publish(t, l, "1")
	ctx, stop := context.WithCancel(t.Context())
	began := make(chan struct{})
	var cause error
	done := make(chan error, 1)
	go func() {
		o := streams.ConsumeOptions{Workers: 1, Drain: 50 * time.Millisecond}
		done <- l.Events.Consume(ctx, o, func(ctx context.Context, _ *streams.Delivery) {
			close(began)
			<-ctx.Done()
			cause = context.Cause(ctx)
		})
	}()
	receive(t, began)
	stop()
	require.NoError(t, <-done)
	require.ErrorIs(t, cause, streams.ErrStopping)
}

func TestWhatIsHeldIsNotRedelivered(t *testing.T) {
	l := streamstest.New(t)
	publish(t, l, "1", "2", "3")
	o := streams.ConsumeOptions{Workers: 2, AckWait: time.Second, Heartbeat: 100 * time.Millisecond}
	var deliveries atomic.Int32
	handled := make(chan uint64, 10)
	release := make(chan struct{})
	streamstest.Run(t, func(ctx context.Context) error {
		return l.Events.Consume(ctx, o, func(ctx context.Context, d *streams.Delivery) {
			deliveries.Add(1)
			<-release // two are in hand and the third waits, all longer than AckWait
			if d.NumDelivered() != 1 {
				t.Errorf("event %d was redelivered while it was held", d.Sequence())
			}
			if err := d.Ack(ctx); err != nil {
				t.Errorf("ack: %v", err)
			}
			handled <- d.Sequence()
		})
	})
	time.AfterFunc(3*o.AckWait, func() { close(release) })
	for range 3 {
		receive(t, handled)
	}
	require.EqualValues(t, 3, deliveries.Load())
}

func TestWhatIsNotAckedComesAgain(t *testing.T) {
	l := streamstest.New(t)
	publish(t, l, "1")
	o := streams.ConsumeOptions{Workers: 1, AckWait: 200 * time.Millisecond, Heartbeat: 50 * time.Millisecond, MaxDeliver: 3}
	type seen struct {
		number int
		last   bool
	}
	came := make(chan seen, 10)
	streamstest.Run(t, func(ctx context.Context) error {
		return l.Events.Consume(ctx, o, func(_ context.Context, d *streams.Delivery) {
			came <- seen{d.NumDelivered(), d.LastDelivery()}
		})
	})
	require.Equal(t, seen{1, false}, receive(t, came))
	require.Equal(t, seen{2, false}, receive(t, came))
	require.Equal(t, seen{3, true}, receive(t, came))
	require.Equal(t, seen{4, true}, receive(t, came), "after its last delivery too: it must not vanish")
}

func TestConsumeOutlastsTheServer(t *testing.T) {
	s := streamstest.NewServer(t)
	l := s.Log()
	got := make(chan uint64, 100)
	streamstest.Run(t, func(ctx context.Context) error {
		return l.Events.Consume(ctx, streams.ConsumeOptions{Workers: 2}, func(ctx context.Context, d *streams.Delivery) {
			if d.Ack(ctx) == nil {
				got <- d.Sequence()
			}
		})
	})
	publish(t, l, "1")
	require.EqualValues(t, 1, receive(t, got))
	s.Restart()
	require.Eventually(t, func() bool {
		_, err := l.Events.Publish(t.Context(), streams.Incoming{Envelope: order("2")})
		return err == nil
	}, 10*time.Second, 10*time.Millisecond)
	require.EqualValues(t, 2, receive(t, got))
}

func TestConsumeRefusesAConsumerOfAnotherKind(t *testing.T) {
	s := streamstest.NewServer(t)
	l := s.Log()
	js, err := jetstream.New(s.Connect())
	require.NoError(t, err)
	_, err = js.CreateConsumer(t.Context(), streams.EventsStream, jetstream.ConsumerConfig{
		Durable: "dispatcher", AckPolicy: jetstream.AckExplicitPolicy, FilterSubject: "events.acme.>",
	})
	require.NoError(t, err)
	err = l.Events.Consume(t.Context(), streams.ConsumeOptions{Workers: 1}, func(context.Context, *streams.Delivery) {})
	var drift *streams.DriftError
	require.ErrorAs(t, err, &drift)
	require.Equal(t, "filter", drift.Drifts[0].Field)
	require.False(t, errors.Is(err, context.Canceled))
}

func TestConsumeAdaptsToItsOptions(t *testing.T) {
	s := streamstest.NewServer(t)
	l := s.Log()
	for _, o := range []streams.ConsumeOptions{
		{Workers: 1, AckWait: time.Second, MaxDeliver: 3}, {Workers: 2, AckWait: 2 * time.Second, MaxDeliver: 5},
	} {
		publish(t, l, fmt.Sprint(o.Workers))
		ctx, stop := context.WithCancel(t.Context())
		require.NoError(t, l.Events.Consume(ctx, o, func(ctx context.Context, d *streams.Delivery) {
			if err := d.Ack(ctx); err != nil {
				t.Errorf("ack: %v", err)
			}
			stop()
		}))
		c := consumerInfo(t, s.Connect()).Config
		require.Equal(t, o.AckWait, c.AckWait)
		require.Equal(t, 10*o.MaxDeliver, c.MaxDeliver, "the server gives up long after the handler has")
		require.Equal(t, 4*o.Workers, c.MaxAckPending)
	}
}

func TestConsumeNoticesThatItsConsumerIsGone(t *testing.T) {
	s := streamstest.NewServer(t)
	l := s.Log()
	got := make(chan uint64, 100)
	streamstest.Run(t, func(ctx context.Context) error {
		return l.Events.Consume(ctx, streams.ConsumeOptions{Workers: 2}, func(ctx context.Context, d *streams.Delivery) {
			if d.Ack(ctx) == nil {
				got <- d.Sequence()
			}
		})
	})
	publish(t, l, "1")
	require.EqualValues(t, 1, receive(t, got))
	js, err := jetstream.New(s.Connect())
	require.NoError(t, err)
	require.NoError(t, js.DeleteConsumer(t.Context(), streams.EventsStream, "dispatcher"))
	require.EqualValues(t, 1, receive(t, got), "it is made again and begins anew")
	publish(t, l, "2")
	require.EqualValues(t, 2, receive(t, got))
}

func TestConsumeStopsSoonWhileTheServerIsDown(t *testing.T) {
	s := streamstest.NewServer(t)
	l := s.Log()
	publish(t, l, "1")
	ctx, stop := context.WithCancel(t.Context())
	began, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- l.Events.Consume(ctx, streams.ConsumeOptions{Workers: 1}, func(context.Context, *streams.Delivery) { close(began) })
	}()
	receive(t, began)
	s.Stop()
	stop()
	require.NoError(t, receive(t, done))
}

func TestWhatIsInHandIsBoundedInBytes(t *testing.T) {
	const large, events = 1 << 20, 150
	l := streamstest.New(t)
	for i := range events {
		e := order(fmt.Sprint(i))
		e.Data = make([]byte, large)
		_, err := l.Events.Publish(t.Context(), streams.Incoming{Envelope: e})
		require.NoError(t, err)
	}
	inside, release := make(chan struct{}, events), make(chan struct{})
	streamstest.Run(t, func(ctx context.Context) error {
		return l.Events.Consume(ctx, streams.ConsumeOptions{Workers: events}, func(ctx context.Context, d *streams.Delivery) {
			inside <- struct{}{}
			<-release
			if err := d.Ack(ctx); err != nil {
				t.Errorf("ack: %v", err)
			}
		})
	})
	letGo := sync.OnceFunc(func() { close(release) })
	t.Cleanup(letGo)
	for range 48 { // so many are allowed for
		receive(t, inside)
	}
	require.Never(t, func() bool { return 48+len(inside) > 65 }, 300*time.Millisecond, 10*time.Millisecond, "more than 64 MiB")
	letGo()
	require.Eventually(t, func() bool { return len(inside) == events-48 }, 30*time.Second, 10*time.Millisecond, "all come in the end")
}
