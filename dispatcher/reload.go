package dispatcher

import (
	"context"
	"errors"
	"iter"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"tidings/dispatcher/channel"
)

// Setup is what may become another while a dispatcher runs: who gets what, on which
// channels and how patiently.
type Setup struct {
	Planner      Planner
	Channels     map[string]Channel
	Tenants      map[string]Tenant // those that have something of their own
	Suppressions Suppressions      // nil: nobody is suppressed
	Staleness    time.Duration     // 0: no event is stale
	Crashes      int               // 0: 3
}

func (o Options) setup() Setup {
	return Setup{
		Planner: o.Planner, Channels: o.Channels, Tenants: o.Tenants,
		Suppressions: o.Suppressions, Staleness: o.Staleness, Crashes: o.Crashes,
	}
}

// setup is a Setup at work. Whatever is done about an event between two looks at it is
// done by one setup, from the seat to the last record.
type setup struct {
	rules        rules
	planner      Planner
	ways         *ways
	suppressions Suppressions

	life    context.Context // ends when another has taken its place
	replace context.CancelCauseFunc
	users   atomic.Int64 // who work by it, and one for being in force; 0 for good
	ended   chan struct{}
	old     []*setup // those before by which somebody may still be calling
}

// errReplaced says that another setup is in force.
var errReplaced = errors.New("another setup is in force")

// prepareSetup makes a setup that takes the place of another.
func (c *core) prepareSetup(s Setup, before *setup) (*setup, error) {
	if s.Planner == nil {
		return nil, errors.New("dispatcher: Planner is needed")
	}
	ways, err := newWays(s.Channels, s.Tenants, before.ways, c.changed, c.now)
	if err != nil {
		return nil, err
	}
	next := &setup{rules: before.rules, planner: s.Planner, ways: ways, suppressions: s.Suppressions, ended: make(chan struct{})}
	next.rules.staleness, next.rules.crashes = s.Staleness, 3
	if s.Crashes > 0 {
		next.rules.crashes = s.Crashes
	}
	if next.suppressions == nil {
		next.suppressions = SuppressionList(nil)
	}
	next.old = slices.DeleteFunc(append(slices.Clone(before.old), before), (*setup).over)
	next.life, next.replace = context.WithCancelCause(context.Background())
	next.users.Store(1)
	return next, nil
}

// Reload puts another setup in force with one swap: whatever is claimed from then on is
// claimed by it. What is in hand is finished by the one before; when that has ended, the
// returned channel is closed, and its senders may be. A sender that both have stays with
// what is known about its provider: breaker, rate, calls under way. An error means that
// nothing has changed. Reload is not called by two at a time.
func (d *Dispatcher) Reload(s Setup) (ended <-chan struct{}, err error) {
	before := d.inForce().setup
	next, err := d.prepareSetup(s, before)
	if err != nil {
		return nil, err
	}
	d.current.Store(&Dispatcher{core: d.core, setup: next})
	before.replace(errReplaced)
	before.release()
	select {
	case d.changed <- struct{}{}: // there may be ways to look after
	default:
	}
	return before.ended, nil
}

// inForce returns the dispatcher with the setup in force. Who calls providers pins it.
func (d *Dispatcher) inForce() *Dispatcher { return d.current.Load() }

// pin returns the dispatcher with the setup in force, whose senders stay open until
// done is called.
func (d *Dispatcher) pin() (v *Dispatcher, done func()) {
	for {
		v = d.inForce()
		if n := v.users.Load(); n > 0 && v.users.CompareAndSwap(n, n+1) {
			return v, v.release
		}
	}
}

// release says that one less works by the setup.
func (s *setup) release() {
	if s.users.Add(-1) == 0 {
		close(s.ended)
	}
}

// over reports whether nobody works by the setup, nor is calling by it although the time
// for that is over.
func (s *setup) over() bool {
	if s.ended == nil { // the one before the first
		return true
	}
	select {
	case <-s.ended:
	default:
		return false
	}
	for o := range s.ways.all() {
		for _, p := range o.providers {
			if p.stuck.Load() > 0 {
				return false
			}
		}
	}
	return true
}

// callable yields every provider by which somebody may be calling, with its channel.
func (s *setup) callable() iter.Seq2[string, *provider] {
	return func(yield func(string, *provider) bool) {
		seen := map[*provider]bool{}
		for _, s := range append(slices.Clone(s.old), s) {
			for o := range s.ways.all() {
				for _, p := range o.providers {
					if !seen[p] && !yield(o.name, p) {
						return
					}
					seen[p] = true
				}
			}
		}
	}
}

// untilReplaced returns a context that ends too when another setup is in force.
func (d *Dispatcher) untilReplaced(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := d.untilStopped(ctx)
	ctx, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(d.life, func() { cancel(errReplaced) })
	return ctx, func() { unhook(); cancel(nil); stop() }
}

// keeping returns the outlet with the providers that were there before, or that of
// before if nothing is different.
func (o *outlet) keeping(before *outlet) *outlet {
	if before == nil {
		return o
	}
	same := len(o.providers) == len(before.providers) && reflect.DeepEqual(o.Policy, before.Policy)
	for i, p := range o.providers {
		for j, q := range before.providers {
			if p.is(q) {
				o.providers[i] = q
				same = same && i == j
			}
		}
		same = same && o.providers[i] != p
	}
	if same {
		return before
	}
	return o
}

// is reports whether two providers are one: by the same sender, with the same bounds.
func (p *provider) is(q *provider) bool {
	return p.Name == q.Name && sameSender(p.Sender, q.Sender) && reflect.DeepEqual(p.Policy, q.Policy)
}

// sameSender reports whether two senders are one. Of functions nobody can tell.
func sameSender(a, b channel.Sender) bool {
	return a != nil && b != nil && reflect.TypeOf(a).Comparable() && reflect.TypeOf(b).Comparable() && a == b
}
