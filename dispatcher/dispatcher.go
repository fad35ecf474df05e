package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"tidings/dispatcher/letters"
	"tidings/dispatcher/plan"
	"tidings/streams"
	"tidings/streams/event"
)

// Planner makes the messages of an event, or says why there are none. It must
// be pure: it is asked again for the addresses and contents of a frozen plan.
type Planner interface {
	// Plan returns a *plan.Error for an event that needs an operator.
	Plan(key event.Key, e event.Envelope) (plan.Plan, error)
	// Needs returns the channels on which an event of a type may have messages.
	Needs(tenant, typ string) []plan.Need
	// Providers returns which providers a route's messages of a tenant go to, in order;
	// nil: as the channel has them.
	Providers(tenant, route string) []string
	// Revision names the configuration in force; it goes into every claim.
	Revision() string
}

// Options are what a Dispatcher needs. Log, Planner and Owner have no defaults.
type Options struct {
	Log          *streams.Log
	Owner        event.Owner // this process; the boot must be new at every start
	Planner      Planner
	Channels     map[string]Channel
	Tenants      map[string]Tenant // those that have something of their own
	Suppressions Suppressions      // nil: nobody is suppressed
	// Staleness is how old an event may be when first claimed; 0 switches it off.
	Staleness time.Duration
	Crashes   int // claims of a generation that may end without results; 3
	// Workers is how many events are in hand at a time. 0: so many that no channel
	// holds up the others, at least 256.
	Workers int
	// MaxWaiting is how many events may wait for a time or for a channel before no
	// more are taken from EVENTS; 100 000.
	MaxWaiting int
	// Consume holds the bounds of delivery; its Workers and Gate are taken from above.
	Consume streams.ConsumeOptions
	// Tried is told how each call ended and how long it took; it returns at once.
	// nil: nobody.
	Tried func(channel, provider string, result event.TryResult, took time.Duration)
	// Paused says why nothing may be begun although there is work, or "". It is
	// asked before every step, also to end the pause. Nil: never.
	Paused func() string
	Now    func() time.Time // nil: time.Now
	Logger *slog.Logger     // nil: discard
	// Steady leaves out the jitter of pauses, so that a simulation can be repeated.
	Steady bool
}

// Dispatcher is the part that takes events from EVENTS and RETRIES. Make one
// with New; it does nothing before Run.
type Dispatcher struct {
	*core
	*setup // by which it works; of the value that New returns, that of the start
}

// core is what stays the same when the setup becomes another.
type core struct {
	log          *streams.Log
	payloads     letters.Payloads
	consume      streams.ConsumeOptions
	lease        time.Duration // of a claim
	margin       time.Duration // at its end, into which no call lasts
	settleWithin time.Duration // for recording results once the process stops
	appendWithin time.Duration // for an append that is under way then, and for putting a claim back
	paused       func() string
	tried        func(channel, provider string, result event.TryResult, took time.Duration)
	now          func() time.Time
	logger       *slog.Logger
	steady       bool

	current atomic.Pointer[Dispatcher] // with the setup in force
	changed chan struct{}              // holds a token when there may be ways that nobody looks after yet
	hand    inHand
	waiting waiting
	trouble trouble
	steps   atomic.Uint64
	stop    atomic.Pointer[context.Context] // Run's context
}

// New returns a dispatcher. It fails only on options that cannot work.
func New(o Options) (*Dispatcher, error) {
	if o.Log == nil || o.Planner == nil || o.Owner.Instance == "" || o.Owner.Boot == "" {
		return nil, errors.New("dispatcher: Log, Planner, Owner.Instance and Owner.Boot are needed")
	}
	d := &Dispatcher{core: &core{
		log: o.Log, payloads: letters.Payloads{Events: o.Log.Events, Letters: o.Log.DeadLetters}, now: o.Now, logger: o.Logger,
		steady: o.Steady, changed: make(chan struct{}, 1),
		lease: claimLease, margin: leaseMargin,
		consume: o.Consume, settleWithin: 3 * time.Second, appendWithin: 3 * time.Second,
	}}
	d.setDefaults(o)
	var err error
	if d.setup, err = d.prepareSetup(o.setup(), &setup{rules: rules{me: o.Owner, skew: 5 * time.Second}}); err != nil {
		return nil, err
	}
	d.current.Store(d)
	d.trouble.logger = d.logger
	if d.consume.Workers = o.Workers; o.Workers <= 0 {
		d.consume.Workers = d.workers()
	}
	return d, nil
}

func (d *Dispatcher) setDefaults(o Options) {
	if d.tried = o.Tried; d.tried == nil {
		d.tried = func(string, string, event.TryResult, time.Duration) {}
	}
	if d.paused = o.Paused; d.paused == nil {
		d.paused = func() string { return "" }
	}
	if d.now == nil {
		d.now = time.Now
	}
	if d.logger == nil {
		d.logger = slog.New(slog.DiscardHandler)
	}
	if o.MaxWaiting <= 0 {
		o.MaxWaiting = 100_000
	}
	d.waiting = waiting{most: o.MaxWaiting, ask: d.askWaiting}
}

// workers returns how many events are in hand at a time, so that all channels may
// be full and there is still somebody for the events of the next.
func (d *Dispatcher) workers() int {
	n := shortLine
	for o := range d.ways.all() {
		n += o.count + shortLine
	}
	return min(max(n, 256), mostWorkers)
}

// mostWorkers bounds the events in hand where many tenants have channels of their own.
const mostWorkers = 8192

// Run takes deliveries until ctx is done, then finishes what is in hand within
// the drain budget, and returns nil. What the end of the budget cuts has some
// seconds more to be recorded. A sender that goes on all the same is left behind,
// and the error names its channel. Run is called once.
func (d *Dispatcher) Run(ctx context.Context) error {
	aside := d.recall(ctx)
	g, ctx := errgroup.WithContext(ctx)
	d.stop.Store(&ctx) // it ends too if one of them cannot go on
	events := d.consume
	events.Gate = d.waiting.gate
	g.Go(func() error { return d.log.Events.Consume(ctx, events, d.handleNew) })
	g.Go(func() error { return d.log.Retries.Consume(ctx, d.consume, d.handleNew) })
	g.Go(func() error { return d.consumeAside(ctx, aside) })
	err := g.Wait()
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	if err = errors.Join(err, d.leftBehind()); err != nil {
		return fmt.Errorf("dispatcher: %w", err)
	}
	return nil
}

// leftBehind names the channels whose senders did not end with their calls.
func (d *Dispatcher) leftBehind() error {
	var errs []error
	for channel, p := range d.inForce().callable() {
		if n := p.stuck.Load(); n > 0 {
			errs = append(errs, fmt.Errorf("channel %q: %d still calling although their time is over; they end with the process", channel, n))
		}
	}
	return errors.Join(errs...)
}

// stopping reports whether no further try is to be started.
func (d *Dispatcher) stopping() bool {
	ctx := d.stop.Load()
	return ctx != nil && (*ctx).Err() != nil
}
