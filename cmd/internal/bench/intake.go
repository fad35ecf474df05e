package bench

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"tidings/bridge"
	"tidings/streams"
	"tidings/streams/event"
)

// From says where events come from.
type From string

// Where events can come from.
const (
	FromAMQP      From = "amqp"      // a queue, by the bridge
	FromJetStream From = "jetstream" // EVENTS, where they are already
)

// intake is where events come from.
type intake interface {
	// fill brings events 0 to count-1, and returns when all are confirmed.
	fill(ctx context.Context, count int, follow follower) error
	// send brings the event with that number, and returns what waits until it is confirmed.
	send(ctx context.Context, i int) (confirmed func() error, err error)
	// run takes them to EVENTS until ctx is done.
	run(ctx context.Context) error
	// since returns when the first was taken, after all parts were told to begin.
	since(began time.Time) time.Time
	remove() error
}

// bridged is a queue and a bridge.
type bridged struct {
	*queue
	body   []byte
	bridge *bridge.Bridge
	first  atomic.Pointer[time.Time]
}

func newBridged(url string, log *streams.Log) (*bridged, error) {
	q, err := newQueue(url)
	if err != nil {
		return nil, err
	}
	b := &bridged{queue: q, body: body(dispatchSize, "x")}
	door := bridge.NewDoor(bridge.DoorOptions{Events: log.Events, Letters: log.DeadLetters, Audit: log.Outcomes})
	b.bridge, err = bridge.New(bridge.Config{URL: url, Queue: q.name, Window: dispatchWindow, Name: "tidings bench"}, door,
		bridge.Options{Held: b.held})
	if err != nil {
		return nil, errors.Join(err, q.remove())
	}
	return b, nil
}

func (b *bridged) held(d time.Duration) {
	if b.first.Load() == nil {
		taken := time.Now().Add(-d)
		b.first.CompareAndSwap(nil, &taken)
	}
}

func (b *bridged) fill(ctx context.Context, count int, follow follower) error {
	return b.queue.fill(ctx, count, dispatchSize, follow)
}

func (b *bridged) send(ctx context.Context, i int) (func() error, error) {
	c, err := b.publish(ctx, i, b.body)
	return func() error {
		if ok, err := c.WaitContext(ctx); err != nil || !ok {
			return fmt.Errorf("publish: %w", errNotConfirmed)
		}
		return nil
	}, err
}

func (b *bridged) run(ctx context.Context) error { return b.bridge.Run(ctx) }

func (b *bridged) since(began time.Time) time.Time {
	if first := b.first.Load(); first != nil {
		return *first
	}
	return began
}

// stored is EVENTS itself.
type stored struct {
	events *streams.Events
	body   []byte
}

func newStored(log *streams.Log) *stored {
	return &stored{events: log.Events, body: body(dispatchSize, "x")}
}

func (s *stored) fill(ctx context.Context, count int, follow follower) error {
	var done atomic.Int64
	stop := follow(func() int { return int(done.Load()) })
	defer stop()
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(dispatchWindow)
	for i := range count {
		g.Go(func() error {
			defer done.Add(1)
			return s.publish(ctx, i)
		})
	}
	return g.Wait()
}

func (s *stored) send(ctx context.Context, i int) (func() error, error) {
	done := make(chan error, 1)
	go func() { done <- s.publish(ctx, i) }()
	return func() error { return <-done }, nil
}

func (s *stored) publish(ctx context.Context, i int) error {
	_, err := s.events.Publish(ctx, streams.Incoming{Nonce: event.NewNonce(), Envelope: event.Envelope{
		Source: source, ID: idOf(i), IDSource: event.IDMessageID, Type: eventType,
		ContentType: "application/json", Data: s.body,
	}})
	return err
}

func (s *stored) run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (s *stored) since(began time.Time) time.Time { return began }

func (s *stored) remove() error { return nil }
