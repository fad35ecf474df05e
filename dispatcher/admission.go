package dispatcher

import (
	"context"
	"errors"
	"slices"
	"time"

	"tidings/streams"
	"tidings/streams/event"
)

// errStopping ends a wait when the process is told to stop.
var errStopping = errors.New("stopping: not claimed yet")

// longestAside is when an event that was set aside is looked at again at the
// latest, should the wake-up that waits with it be lost.
const longestAside = 24 * time.Hour

// pass is what an event in hand may call: the seats that it has, and the channels
// that have no room for it.
type pass struct {
	seats   map[string]*seat // by way
	lacking []string         // ways
	plans   []*outlet        // where it may be in doubt until its plan is frozen
}

func (p *pass) take(way string, s *seat) {
	if p.seats == nil {
		p.seats = make(map[string]*seat, 1)
	}
	p.seats[way] = s
}

func (p *pass) leave() {
	p.planned()
	for _, s := range p.seats {
		s.leave()
	}
}

// planned says that the plan is frozen: what is not named by the claim is not in
// doubt any more.
func (p *pass) planned() {
	for _, o := range p.plans {
		o.plans.Release(1)
	}
	p.plans = nil
}

// shut reports whether the event can do nothing but wait.
func (p *pass) shut() bool { return len(p.seats) == 0 && len(p.lacking) > 0 }

// admit looks for a seat on every channel that the event may need. It comes before
// the claim: an event that could only wait for a provider is better left
// unclaimed, because whatever is claimed when the process is killed is in doubt.
// Where there is no seat it waits for a moment, if one is to be expected.
// had is a seat that the event came with; it is given back if it is of no use.
// size is how many bytes of the event are in hand.
func (d *Dispatcher) admit(ctx context.Context, h history, size int, had map[string]*seat) (*pass, error) {
	p := &pass{}
	needs := d.needs(h)
	for _, n := range needs {
		s := had[n.name]
		if s == nil || s.outlet != n.outlet { // it is of a way that another has taken the place of
			s = n.enter(want{held: n.held, size: size})
		}
		if s == nil {
			p.lacking = append(p.lacking, n.name)
			continue
		}
		if had[n.name] == s {
			delete(had, n.name)
		}
		p.take(n.name, s)
	}
	if len(p.lacking) > 0 {
		d.lineUp(ctx, needs, size, p)
	}
	if d.stopping() && p.shut() {
		return nil, errStopping
	}
	if !h.state.Planned && len(p.seats) > 0 {
		if err := d.bound(ctx, needs, p); err != nil {
			p.leave()
			return nil, err
		}
	}
	return p, nil
}

// bound keeps small the number of events that are claimed although a channel that
// holds messages of unknown fate has no room for them: as long as their plan is
// not frozen, a killed process leaves these messages in doubt too.
func (d *Dispatcher) bound(ctx context.Context, needs []need, p *pass) error {
	if len(p.lacking) == 0 {
		return nil
	}
	ctx, cancel := d.untilStopped(ctx)
	defer cancel()
	for _, name := range slices.Sorted(slices.Values(p.lacking)) { // nobody waits for somebody who waits for him
		i := slices.IndexFunc(needs, func(n need) bool { return n.name == name && n.held })
		if i < 0 {
			continue
		}
		if err := needs[i].plans.Acquire(ctx, 1); err != nil {
			return context.Cause(ctx)
		}
		p.plans = append(p.plans, needs[i].outlet)
	}
	return nil
}

// lineUp waits a moment for the seats that the event lacks.
func (d *Dispatcher) lineUp(ctx context.Context, needs []need, size int, p *pass) {
	ctx, cancel := d.untilStopped(ctx)
	defer cancel()
	lacking := p.lacking
	p.lacking = nil
	for _, n := range needs {
		if !slices.Contains(lacking, n.name) {
			continue
		}
		if s := n.lineUp(ctx, want{held: n.held, size: size}); s != nil {
			p.take(n.name, s)
		} else {
			p.lacking = append(p.lacking, n.name)
		}
	}
}

// need is a way that an event may need.
type need struct {
	*outlet
	held bool // some of its messages are held when their fate is unknown
}

// needs returns the ways that the event may need now. An event whose plan is frozen
// needs those of the messages that are to be tried. Of what is not configured the
// plan says what becomes of its messages.
func (d *Dispatcher) needs(h history) []need {
	var needs []need
	add := func(o *outlet, held bool) {
		if o == nil {
			return
		}
		i := slices.IndexFunc(needs, func(n need) bool { return n.outlet == o })
		if i < 0 {
			i = len(needs)
			needs = append(needs, need{outlet: o})
		}
		needs[i].held = needs[i].held || held
	}
	if !h.state.Planned {
		for _, n := range d.planner.Needs(h.ref.Tenant, h.ref.Type) {
			add(d.ways.of(h.ref.Tenant, n.Channel, n.Providers), n.Held)
		}
		return needs
	}
	policies := d.ways.policiesOf(h.ref.Tenant)
	for _, m := range d.ready(policies, begun(h.state, policies, d.now()), everywhere) {
		add(d.way(h.ref.Tenant, m), m.OnUnknown == event.Hold)
	}
	return needs
}

// setAside has the event wait until one of the ways has room for it. That
// burns neither a try nor a round. An event that waits for room already keeps its
// record; before are facts that belong in front of the wait.
func (d *Dispatcher) setAside(ctx context.Context, h history, ways []string, before ...event.Fact) error {
	if h.state.Waits != event.WaitBusy || !d.now().Before(h.state.Due) || len(before) > 0 {
		next, err := d.append(ctx, h, append(slices.Clip(before), event.Waiting{
			Round: roundOf(h.state, d.ways.policiesOf(h.ref.Tenant), d.now()), Due: d.now().Add(longestAside),
			Reason: event.WaitBusy, Channel: channelOf(ways[0]),
		})...)
		if err != nil {
			return err
		}
		h = next
	}
	return d.queue(ctx, h, ways)
}

// queue makes sure that the event is woken when one of the ways has room.
func (d *Dispatcher) queue(ctx context.Context, h history, ways []string) error {
	for _, name := range ways {
		err := d.persist(ctx, "set a wake-up aside", func(ctx context.Context) error {
			return d.log.Retries.SetAside(ctx, h.wakeup(), name)
		})
		if err != nil {
			return err
		}
		d.waiting.add()
	}
	return nil
}

// handleAside handles what was set aside for a way: it first waits until there is
// room, however long that takes. The event is not in hand meanwhile, because another
// way may have room for it before.
func (d *Dispatcher) handleAside(way string) func(context.Context, *streams.Delivery) {
	return func(ctx context.Context, del *streams.Delivery) {
		had := map[string]*seat{}
		s, err := d.seatOn(ctx, way)
		if err != nil {
			del.PutBack()
			return
		}
		if s != nil {
			had[way] = s
		}
		defer func() {
			for _, s := range had { // unless the event took it
				s.leave()
			}
		}()
		d.handle(ctx, del, had)
	}
}

// seatOn waits for a seat on the way of that name, as it is in force by then. Of a way
// that is gone there is none.
func (d *Dispatcher) seatOn(ctx context.Context, way string) (*seat, error) {
	for {
		v := d.inForce()
		o := v.ways.named(way)
		if o == nil {
			return nil, nil
		}
		waiting, cancel := v.untilReplaced(ctx)
		s, err := o.await(waiting, want{held: true})
		cancel()
		if !errors.Is(err, errReplaced) {
			return s, err
		}
	}
}

// untilStopped returns a context that ends when the process is told to stop.
func (d *Dispatcher) untilStopped(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := d.stop.Load()
	if stop == nil {
		return ctx, func() { cancel(nil) }
	}
	unhook := context.AfterFunc(*stop, func() { cancel(errStopping) })
	return ctx, func() { unhook(); cancel(nil) }
}
