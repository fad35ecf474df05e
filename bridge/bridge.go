package bridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wamqp "github.com/ThreeDotsLabs/watermill-amqp/v2/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill/message"

	"tidings/streams/event"
)

// Options are what a bridge works with. The zero value works.
type Options struct {
	// Log is nil for none.
	Log *slog.Logger
	// Probe says why the log takes no events, nil if it does. It is asked before the bridge
	// consumes, and after the window was given back until it answers nil. Nil:
	// the bridge just tries.
	Probe func(context.Context) error
	// LookEvery is how often the queue is looked at for the status, 10 s if zero.
	LookEvery time.Duration
	// StallAfter is how long nothing may move although there is work, before
	// the bridge is not ready; 30 s if zero.
	StallAfter time.Duration
	// Now is time.Now if nil.
	Now func() time.Time
	// Held is told of each delivery that was acknowledged how long it was in
	// hand, by several goroutines at the same time. It must not block. Nil: nobody is.
	Held func(time.Duration)
}

// Bridge takes events from one queue to the door. Make one with [New].
type Bridge struct {
	config Config
	door   *Door
	opts   Options
	broker string
	where  string // events come from, in words
	state  *tracker
	wlog   watermill.LoggerAdapter
}

// New returns a bridge from a queue to door, or says everything that is wrong
// with config. It starts nothing.
func New(config Config, door *Door, opts Options) (*Bridge, error) {
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("bridge: %w", err)
	}
	config = config.withDefaults()
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Held == nil {
		opts.Held = func(time.Duration) {}
	}
	where := "amqp queue " + config.Queue
	if config.Name != "" {
		opts.Log = opts.Log.With("source", config.Name)
		where += " of source " + config.Name
	}
	setDefault(&opts.LookEvery, 10*time.Second)
	setDefault(&opts.StallAfter, 30*time.Second)
	state := newTracker(config, opts.Log, opts.Now, opts.StallAfter)
	return &Bridge{
		config: config, door: door, opts: opts, broker: state.status.Broker, state: state,
		where: where,
		wlog:  untraced{watermill.NewSlogLoggerWithLevelMapping(opts.Log, map[slog.Level]slog.Level{slog.LevelInfo: slog.LevelDebug})},
	}, nil
}

// untraced leaves out what Watermill logs of every message: it costs more than
// anybody has from it, also where it goes nowhere.
type untraced struct{ watermill.LoggerAdapter }

// Trace implements watermill.LoggerAdapter.
func (untraced) Trace(string, watermill.LogFields) {}

// With implements watermill.LoggerAdapter.
func (u untraced) With(f watermill.LogFields) watermill.LoggerAdapter {
	return untraced{u.LoggerAdapter.With(f)}
}

// Status returns how the bridge is doing. It may be called at any time.
func (b *Bridge) Status() Status { return b.state.get() }

// Run consumes until ctx is done, whatever the broker does meanwhile. Then it
// takes nothing more, finishes what it has in hand within the drain time and
// returns nil. It must not be called while it runs.
func (b *Bridge) Run(ctx context.Context) error {
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: b.closeTimeout()}, b.wlog)
	if err != nil {
		return fmt.Errorf("bridge: %w", err)
	}
	router.AddConsumerHandler("bridge", b.config.Queue, b.subscriber(), b.handle)

	closed := make(chan error, 1)
	ended := make(chan struct{})
	go func() {
		select {
		case <-ctx.Done():
			<-router.Running() // a router that is closed before it runs hangs
			closed <- router.Close()
		case <-ended:
			closed <- nil
		}
	}()
	// The subscriber, not the context, decides when deliveries end.
	err = router.Run(context.WithoutCancel(ctx))
	close(ended)
	if err := errors.Join(err, <-closed); err != nil {
		return fmt.Errorf("bridge: %w", err)
	}
	return nil
}

// closeTimeout is longer than a session can take to finish.
func (b *Bridge) closeTimeout() time.Duration {
	return b.config.Drain + killGrace + 2*closeTimeout + dialTimeout
}

func (b *Bridge) subscriber() *subscriber {
	intake := newWindowed
	if b.config.Subscriber == SubscriberWatermill {
		intake = newFanIn
	}
	return &subscriber{
		config: b.config.watermill(), declaration: b.config.declaration(), intake: intake,
		drain: b.config.Drain, crashPause: b.config.Reconnect.CrashLoop, probe: b.opts.Probe, every: b.opts.LookEvery,
		held:  b.opts.Held,
		state: b.state, log: b.opts.Log, wlog: b.wlog,
		stop: make(chan struct{}), done: make(chan struct{}),
	}
}

// errGivenBack ends the handling of a delivery that is given back to the
// broker. It is a cancellation so that the Router does not call it a failure.
var errGivenBack = fmt.Errorf("the delivery is given back: %w", context.Canceled)

// handle brings one message to the door. When it returns nil, the Router has
// the delivery acknowledged.
func (b *Bridge) handle(msg *message.Message) error {
	h := heldOf(msg)
	arrival := b.arrival(h)
	err := b.accept(h, arrival, false)
	if err != nil {
		err = b.retry(h, arrival, err)
	}
	return err
}

// retry tries the door again after err, as long as it makes sense.
func (b *Bridge) retry(h *held, a *Arrival, err error) error {
	pause := newBackOff(&wamqp.ReconnectConfig{
		BackoffInitialInterval: 100 * time.Millisecond, BackoffMaxInterval: 5 * time.Second,
		BackoffMultiplier: 2, BackoffRandomizationFactor: 0.5,
	})
	a.Again = true
	for refused := false; err != nil; refused = true {
		if !b.hold(h.session, err, refused, pause.NextBackOff()) {
			return errGivenBack
		}
		err = b.accept(h, a, true)
	}
	return nil
}

// acceptTimeout bounds one try, so that a log that does not answer is noticed.
// It is longer than any answer takes, but for what comes in many parts.
const acceptTimeout = 20 * time.Second

// accept brings an arrival to the door. refused says that it was refused before.
func (b *Bridge) accept(h *held, a *Arrival, refused bool) error {
	ctx := h.session.within()
	if parts := len(a.Body) >> 20; parts > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(h.session.ctx, acceptTimeout+time.Duration(parts)*time.Second)
		defer cancel()
	}
	receipt, err := b.door.accept(ctx, a)
	if err == nil {
		b.state.accepted(receipt, refused)
	}
	return err
}

// hold waits before the door is tried again, and reports whether it makes sense.
// again says that it is not the first time.
func (b *Bridge) hold(ss *session, err error, again bool, pause time.Duration) bool {
	if ss.over() {
		return false
	}
	left := b.config.HoldFor - b.opts.Now().Sub(b.state.refuse(err, again))
	if left <= 0 {
		ss.giveBack(err)
		return false
	}
	timer := time.NewTimer(min(pause, left))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ss.ended:
		return false
	}
}

// arrival is what a delivery brings. One whose mapping panics is no event.
func (b *Bridge) arrival(h *held) *Arrival {
	a := &Arrival{
		Body: h.Body, Nonce: event.NewNonce(), Again: h.Redelivered, Where: b.where, Stage: event.StageBridge,
		from: &h.Delivery,
	}
	a.Delivery, a.Err = describe(&h.Delivery)
	a.Delivery.Broker, a.Delivery.Queue = b.broker, b.config.Queue
	if a.Err != nil {
		return a
	}
	defer func() {
		if r := recover(); r != nil {
			a.Err = &refusal{event.CausePanic, fmt.Sprintf("reading the delivery panicked: %v", r)}
		}
	}()
	a.Err = b.config.Mapping.fill(&a.Envelope, &h.Delivery)
	return a
}
