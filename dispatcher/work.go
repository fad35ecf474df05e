package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"tidings/dispatcher/plan"
	"tidings/streams"
	"tidings/streams/event"
)

// The bounds of a claim (design: one claim tries at most 64 messages under a
// lease of 60 s, and no call lasts into its last 5 s).
const (
	claimLimit  = 64
	claimLease  = 60 * time.Second
	leaseMargin = 5 * time.Second
)

// source yields the stored copy of the event in hand.
type source func(context.Context) (streams.StoredEvent, error)

// work is what one claim is for: the event in hand, its plan, and until when
// this process may call providers for it.
type work struct {
	*Dispatcher
	history
	pass   *pass
	source source
	plan   map[string]plan.Message // rendered messages by id
	until  time.Time               // no call may last longer; monotonic
}

// claim takes the event in hand and works on it until it ends or waits. source
// yields the event; it is called only after the claim is recorded, because
// decoding may be what kills the process.
func (d *Dispatcher) claim(ctx context.Context, h history, p *pass, source source, before ...event.Fact) error {
	w := &work{Dispatcher: d, history: h, pass: p, source: source}
	if err := w.renew(ctx, before...); err != nil {
		return err
	}
	return w.do(ctx)
}

// renew appends the facts and a claim in one record. The lease is counted from
// before the append, so that it ends here before it ends for anybody else.
func (w *work) renew(ctx context.Context, facts ...event.Fact) error {
	start := time.Now()
	h, err := w.extend(ctx, w.history, func(s event.State) []event.Fact {
		return append(slices.Clip(facts), w.claimed(s.Apply("", w.now(), facts...)))
	})
	if err != nil {
		return err
	}
	w.history, w.until = h, start.Add(w.lease-w.margin)
	return nil
}

// claimed returns the claim to be made in a state. It names the messages that it
// will try, so that a crash leaves no other in doubt.
func (w *work) claimed(s event.State) event.Claimed {
	c := event.Claimed{
		Owner: w.rules.me, Generation: s.Generation, Round: roundOf(s, w.policies(), w.now()),
		LeaseMS: w.lease.Milliseconds(), Limit: claimLimit, Config: w.planner.Revision(),
	}
	for _, m := range w.ready(w.policies(), begun(s, w.policies(), w.now()), w.room) {
		c.Messages = append(c.Messages, m.ID)
	}
	return c
}

// policies are those of the event's tenant.
func (w *work) policies() map[string]Policy { return w.ways.policiesOf(w.ref.Tenant) }

// room returns how many messages like m a claim may name now.
func (w *work) room(m event.Message) int {
	o := w.way(w.ref.Tenant, m)
	if o == nil {
		return claimLimit // orphans gives them up
	}
	if s := w.pass.seats[o.name]; s != nil {
		return s.names(m)
	}
	return 0
}

// do plans, sends and records.
func (w *work) do(ctx context.Context) error {
	facts, err := w.prepare(ctx)
	w.pass.planned()
	broken, ok := errors.AsType[*brokenError](err)
	if ok {
		err = w.bury(ctx, w.history, broken.cause, broken.detail)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return errors.Join(err, w.putBack(ctx))
	case err != nil || ok:
		return err
	}
	for {
		if facts, err = w.try(ctx, facts); err != nil {
			return err
		}
		again, err := w.record(ctx, facts)
		if err != nil || !again {
			return err
		}
		facts = nil
	}
}

// putBack ends a claim under which nothing was tried yet, because the process is
// being stopped: that is no crash, and leaves nothing in doubt.
func (w *work) putBack(ctx context.Context) error {
	ctx, cancel := outlive(ctx, w.appendWithin)
	defer cancel()
	h, err := w.extend(ctx, w.history, func(s event.State) []event.Fact {
		return []event.Fact{event.Waiting{Round: s.Round, Due: w.now(), Reason: event.WaitInterrupted}}
	})
	if err != nil {
		return err
	}
	return w.schedule(ctx, h)
}

// brokenError says that an event cannot be planned and needs an operator.
type brokenError struct {
	cause  event.Cause
	detail string
}

func (e *brokenError) Error() string { return string(e.cause) + ": " + e.detail }

// prepare makes the plan. It returns the facts to be recorded with the first
// results: the plan that is frozen by them. A plan that a crash could leave in
// doubt is recorded before anything is sent: one of which only a part is tried now,
// because a claim has a limit or a channel no room, and one after a crash, whose
// uncertain messages the history must show before they are sent again.
func (w *work) prepare(ctx context.Context) ([]event.Fact, error) {
	stored, err := w.source(ctx)
	if errors.Is(err, streams.ErrNotFound) {
		return nil, &brokenError{event.CauseEventMissing, fmt.Sprintf("the copy %d in EVENTS is gone, and no dead letter has the payload", w.ref.Sequence)}
	}
	if err != nil && ctx.Err() == nil {
		return nil, &brokenError{event.CauseUndecodable, err.Error()}
	}
	if err != nil {
		return nil, err
	}
	p, err := safePlan(w.planner, w.ref.Key, stored.Envelope)
	if err != nil {
		return nil, err
	}
	w.plan = make(map[string]plan.Message, len(p.Messages))
	for _, m := range p.Messages {
		w.plan[m.ID] = m
	}
	var facts []event.Fact
	switch {
	case w.state.Planned:
	case w.state.Lost != nil || w.inPart(p.Fact):
		if err := w.renew(ctx, p.Fact); err != nil {
			return nil, err
		}
	default:
		facts = append(facts, p.Fact)
	}
	return append(facts, w.orphans(w.state.Apply("", w.now(), facts...))...), nil
}

// inPart reports whether some messages of a plan are tried now and others are not.
func (w *work) inPart(p event.Planned) bool {
	s := w.state.Apply("", w.now(), p)
	open, ready := len(s.Open()), len(w.ready(w.policies(), s, w.room))
	return open > claimLimit || 0 < ready && ready < open
}

// safePlan turns a panic in planning into a dead letter with its stack.
func safePlan(p Planner, key event.Key, e event.Envelope) (out plan.Plan, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &brokenError{event.CausePanic, fmt.Sprintf("planning: %v\n%s", r, debug.Stack())}
		}
	}()
	out, err = p.Plan(key, e)
	if bad, ok := errors.AsType[*plan.Error](err); ok {
		return out, &brokenError{bad.Cause, bad.Detail}
	}
	return out, err
}

// orphans gives up the open messages of a plan that the configuration in force
// does not produce any more, so that there is no address for them, or for whose
// channel it has no sender. One that a provider may have that is gone is held: no
// other would know it for a repeat.
func (w *work) orphans(s event.State) []event.Fact {
	var facts []event.Fact
	for _, i := range s.Open() {
		m := s.Messages[i]
		o := w.way(w.ref.Tenant, m)
		if _, ok := w.plan[m.ID]; !ok {
			facts = append(facts, event.GaveUp{Message: m.ID, Reason: gaveUpNoPlan})
		} else if o == nil {
			facts = append(facts, event.GaveUp{Message: m.ID, Reason: gaveUpChannel})
		} else if len(o.of(m)) == 0 {
			facts = append(facts, event.GaveUp{Message: m.ID, Reason: gaveUpHeld})
		}
	}
	return facts
}

// record appends the results and what follows from them. again means that the
// claim was renewed with them and that messages can be tried now.
func (w *work) record(ctx context.Context, facts []event.Fact) (again bool, err error) {
	stopping := w.stopping() || ctx.Err() != nil
	ctx, cancel := outlive(ctx, w.settleWithin)
	defer cancel()
	start := time.Now()
	var end ending
	h, ours, err := w.land(ctx, w.history, facts, func(s event.State) (all []event.Fact) {
		end, all = w.conclude(s, facts, stopping)
		return all
	})
	if err != nil || !ours {
		return false, err
	}
	w.history, w.until = h, start.Add(w.lease-w.margin)
	switch {
	case end.cause != "":
		return false, w.bury(ctx, h, end.cause, undelivered(h.state))
	case end.wait != nil:
		return false, w.putOff(ctx, h, end)
	case end.again:
		return true, nil
	}
	return false, w.dropLetter(ctx, h)
}

// putOff makes sure that a waiting event is woken, when it is due and when there is
// room for it.
func (w *work) putOff(ctx context.Context, h history, end ending) error {
	if err := w.queue(ctx, h, end.aside); err != nil || end.wait.Reason == event.WaitBusy && !end.timed {
		return err
	}
	return w.schedule(ctx, h)
}

// note records results while other calls go on, which the renewed claim names. A
// claim that was taken over meanwhile stays so: its evidence is recorded.
func (w *work) note(ctx context.Context, facts []event.Fact, underWay []string) error {
	if len(facts) == 0 {
		return nil
	}
	ctx, cancel := outlive(ctx, w.settleWithin)
	defer cancel()
	start := time.Now()
	h, ours, err := w.land(ctx, w.history, facts, func(s event.State) []event.Fact {
		c := w.claimed(s)
		c.Messages = underWay
		return append(slices.Clip(facts), c)
	})
	if err == nil && ours {
		w.history, w.until = h, start.Add(w.lease-w.margin)
	}
	return err
}

// conclude returns how the claim ends if the results are recorded in the state s,
// and the facts of that record.
func (w *work) conclude(s event.State, results []event.Fact, stopping bool) (ending, []event.Fact) {
	end := conclude(s.Apply("", w.now(), results...), outlook{
		policies: w.policies(), room: w.room, way: func(m event.Message) string { return w.way(w.ref.Tenant, m).name }, now: w.now(), stopping: stopping,
		late: w.rules.tooOldToWait(w.ref, s, w.now()),
	})
	facts := slices.Concat(results, end.facts)
	switch {
	case end.again, end.cause != "":
		// Results never wait for a letter: they go first, under a renewed claim.
		facts = append(facts, w.claimed(s.Apply("", w.now(), facts...)))
	case end.wait != nil:
		facts = append(facts, *end.wait)
	default:
		facts = append(facts, event.Settled{})
	}
	return end, facts
}

// outlive returns a context that ends only some time after ctx: what was sent
// is recorded even when the process is being stopped.
func outlive(ctx context.Context, by time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(by, func() { cancel(context.Cause(ctx)) })
		context.AfterFunc(longer, func() { timer.Stop() })
	})
	return longer, func() { stop(); cancel(nil) }
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
