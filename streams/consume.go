package streams

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"
)

// ConsumeOptions says how deliveries are handled. The zero value works.
type ConsumeOptions struct {
	Workers    int           // handlers at a time; zero: 256
	AckWait    time.Duration // when a message that nobody holds comes again; zero: 30 s
	MaxDeliver int           // deliveries after which a handler has to end it, see [Delivery.LastDelivery]; zero: 12
	Heartbeat  time.Duration // how often the server is told what is held; zero: 10 s; at most a third of AckWait
	Drain      time.Duration // how long handlers may go on after the stop; zero: 25 s
	// Gate is asked each time before messages are taken. It blocks while none
	// should be, and returns at the end of its context. nil: always open.
	Gate func(context.Context)
}

func (o ConsumeOptions) withDefaults() ConsumeOptions {
	o.Workers = cmp.Or(o.Workers, 256)
	o.AckWait = cmp.Or(o.AckWait, 30*time.Second)
	o.MaxDeliver = cmp.Or(o.MaxDeliver, 12)
	o.Heartbeat = min(cmp.Or(o.Heartbeat, 10*time.Second), o.AckWait/3)
	o.Drain = cmp.Or(o.Drain, 25*time.Second)
	return o
}

// Consume hands the events to handle, up to Workers at a time, until ctx is
// done. It blocks, and waits out a log that cannot be reached.
//
// It stops in two steps. When ctx is done, it asks for nothing more and hands
// nothing more on; handlers go on, because their contexts are not children of
// ctx. After Drain their contexts are cancelled with cause [ErrStopping].
// Consume returns nil when all of them have returned.
//
// At most twice as many messages as there are workers are taken at a time, and
// 64 MiB. All of them, waiting or in hand, are kept from being redelivered, for
// however long a handler takes. A handler that returns without Ack leaves its
// message to AckWait, and so does the stop with a message that is just on its
// way. Two handlers may run for the same event.
//
// It returns a *[DriftError] if there is a consumer of another kind.
func (e *Events) Consume(ctx context.Context, o ConsumeOptions, handle func(context.Context, *Delivery)) error {
	return consume(ctx, &e.stream, dispatcherConsumer, "", o, handle)
}

// Consume hands the wake-ups that are due to handle, like [Events.Consume].
func (r *Retries) Consume(ctx context.Context, o ConsumeOptions, handle func(context.Context, *Delivery)) error {
	return consume(ctx, &r.stream, retriesConsumer, "retries.>", o, handle)
}

func consume(ctx context.Context, s *stream, name, filter string, o ConsumeOptions, handle func(context.Context, *Delivery)) error {
	c := newConsumption(s, name, filter, o.withDefaults(), handle)
	c.last, c.bound = c.MaxDeliver, c.MaxDeliver
	return c.consume(ctx)
}

func (c *consumption) consume(ctx context.Context) error {
	if err := c.run(ctx); err != nil {
		return fmt.Errorf("consume %s: %w", c.stream.name, err)
	}
	return nil
}

// Sizes of what is taken at a time.
const (
	holdBytes = 48 << 20
	takeBytes = 16 << 20 // more than the largest message
)

// consumption is one Consume under way. One goroutine takes messages from the
// server, the workers handle them, and one beats for all that are held.
type consumption struct {
	*stream
	ConsumeOptions
	name, filter string
	last, bound  int // of deliveries, see [Delivery]
	handle       func(context.Context, *Delivery)
	ready        chan *Delivery // has room for all that may be held
	hire         func()         // starts a worker
	hired        int            // workers; as few as there were deliveries

	mu    sync.Mutex
	held  map[*Delivery]struct{} // taken and not yet let go
	bytes int                    // of what is held
	freed chan struct{}          // holds a token after something was let go
}

func newConsumption(s *stream, name, filter string, o ConsumeOptions, handle func(context.Context, *Delivery)) *consumption {
	return &consumption{
		stream: s, ConsumeOptions: o, name: name, filter: filter, handle: handle,
		ready: make(chan *Delivery, 2*o.Workers),
		held:  map[*Delivery]struct{}{}, freed: make(chan struct{}, 1),
	}
}

func (c *consumption) run(ctx context.Context) error {
	handlers, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(nil)
	var workers sync.WaitGroup
	c.hire = func() { workers.Go(func() { c.work(ctx, handlers) }) }
	beating, stopBeating := context.WithCancel(context.WithoutCancel(ctx))
	var heart sync.WaitGroup
	heart.Go(func() { c.beat(beating) })

	err := c.pull(ctx) // until ctx is done, or there is no consumer to be had
	if err != nil {
		cut(err)
		close(c.ready)
		workers.Wait()
	} else {
		c.drain(&workers, cut)
	}
	c.giveBack()
	stopBeating()
	heart.Wait()
	return err
}

// drain waits for the handlers, and cuts them off when their time is over.
func (c *consumption) drain(workers *sync.WaitGroup, cut context.CancelCauseFunc) {
	done := make(chan struct{})
	go func() { workers.Wait(); close(done) }()
	timer := time.NewTimer(c.Drain)
	defer timer.Stop()
	select {
	case <-done:
		return
	case <-timer.C:
		cut(ErrStopping)
	}
	<-done
}

// giveBack puts back what was taken and never handed out, instead of leaving it to
// AckWait: no handler has seen it, so nothing can go wrong twice, and it is
// delivered at once after a restart.
func (c *consumption) giveBack() {
	c.mu.Lock()
	held := slices.Collect(maps.Keys(c.held))
	clear(c.held)
	c.mu.Unlock()
	var g errgroup.Group
	g.SetLimit(giveBackAtOnce)
	for _, d := range held {
		g.Go(func() error { d.PutBack(); return nil })
	}
	_ = g.Wait()
}

const giveBackAtOnce = 64

func (c *consumption) work(stop, handlers context.Context) {
	for {
		select {
		case <-stop.Done():
			return
		case d, ok := <-c.ready:
			if !ok || stop.Err() != nil { // both were ready: it stays in held
				return
			}
			c.handle(handlers, d)
			c.letGo(d)
		}
	}
}

func (c *consumption) hold(d *Delivery) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held[d] = struct{}{}
	c.bytes += len(d.msg.Data())
}

func (c *consumption) letGo(d *Delivery) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.held, d)
	c.bytes -= len(d.msg.Data())
	select {
	case c.freed <- struct{}{}:
	default:
	}
}

// beat keeps what is held from being redelivered.
func (c *consumption) beat(ctx context.Context) {
	tick := time.NewTicker(c.Heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		c.mu.Lock()
		for d := range c.held {
			_ = d.msg.InProgress() // lost with the connection: the next beat tells
		}
		c.mu.Unlock()
	}
}

// pull takes messages until ctx is done. It returns an error only if there is
// a consumer that must not be changed.
func (c *consumption) pull(ctx context.Context) error {
	pause := c.pauses()
	said := ""
	for ctx.Err() == nil {
		taken, err := c.pullWhileConnected(ctx)
		if _, drift := errors.AsType[*DriftError](err); drift {
			return err
		}
		if taken > 0 {
			pause.Reset()
			said = ""
		}
		if err != nil && ctx.Err() == nil && !errors.Is(err, context.Canceled) && err.Error() != said {
			said = err.Error()
			c.log.Warn("no messages for now", "stream", c.stream.name, "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause.NextBackOff()):
		}
	}
	return nil
}

func (c *consumption) pullWhileConnected(ctx context.Context) (taken int, err error) {
	ctx, cancel := until(undated{ctx}, c.nc, nats.CONNECTED, nats.CLOSED)
	defer cancel()
	consumer, err := c.consumer(ctx)
	if err != nil {
		return 0, err
	}
	for {
		if c.Gate != nil {
			c.Gate(ctx)
		}
		if ctx.Err() != nil {
			return taken, ctx.Err()
		}
		room, err := c.waitForRoom(ctx)
		if err != nil {
			return taken, err
		}
		n, err := c.fill(ctx, consumer, room)
		taken += n
		if err != nil {
			return taken, err
		}
	}
}

// fill takes room messages, as they come. When ctx is done, it still takes
// those that are on their way: they would be held up until AckWait.
func (c *consumption) fill(ctx context.Context, consumer jetstream.Consumer, room int) (taken int, err error) {
	it, err := consumer.Messages(jetstream.StopAfter(room),
		jetstream.PullMaxMessagesWithBytesLimit(room, takeBytes), jetstream.PullHeartbeat(pullBeat))
	if err != nil {
		return 0, err
	}
	defer it.Stop()
	last, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	defer context.AfterFunc(ctx, func() {
		it.Drain()
		time.AfterFunc(lastWait, giveUp)
	})()
	for {
		m, err := it.Next(jetstream.NextContext(last))
		switch {
		case err == nil:
			taken++
			if c.take(m); c.heavy() {
				it.Drain() // what is on its way, and then no more
			}
		case errors.Is(err, jetstream.ErrMsgIteratorClosed), ctx.Err() != nil:
			return taken, ctx.Err()
		default:
			return taken, err
		}
	}
}

// lastWait bounds the wait for the last messages when the connection is lost.
const lastWait = 2 * time.Second

// waitForRoom returns how many messages may be taken. It waits until that is
// half of the workers, so that messages do not come one by one under load,
// when there are still some waiting.
func (c *consumption) waitForRoom(ctx context.Context) (int, error) {
	for {
		c.mu.Lock()
		room, bytes := cap(c.ready)-len(c.held), c.bytes
		c.mu.Unlock()
		if room >= (c.Workers+1)/2 && bytes <= holdBytes {
			return room, nil
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-c.freed:
		}
	}
}

// heavy reports whether there are enough bytes in hand.
func (c *consumption) heavy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes > holdBytes
}

func (c *consumption) take(m jetstream.Msg) {
	meta, err := m.Metadata()
	if err != nil {
		c.log.Error("message without metadata", "stream", c.stream.name, "error", err)
		return
	}
	d := newDelivery(m, *meta, c.stream)
	d.maxDeliver, d.bound = c.last, c.bound
	c.hold(d)
	c.ready <- d
	if c.hired < c.Workers {
		c.hired++
		c.hire()
	}
}
