package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tidings/streams"
	"tidings/streams/event"
)

// handle takes one delivery as far as it goes now and acknowledges it. An error
// means that the process is stopping or the delivery is rubbish: it is not
// acknowledged, and comes again.
func (d *Dispatcher) handle(ctx context.Context, del *streams.Delivery, had map[string]*seat) {
	wake := del.Wakeup()
	putDown, err := d.hand.take(ctx, wake.Key)
	if err != nil {
		return
	}
	defer putDown()
	if err := d.waitOutPause(ctx); err != nil {
		del.PutBack()
		return
	}
	for err = errReplaced; errors.Is(err, errReplaced); {
		v, done := d.pin()
		err = v.handleBy(ctx, del, had)
		done()
	}
	if errors.Is(err, errStopping) {
		del.PutBack()
		return
	}
	if errors.Is(err, errNoEvent) {
		d.logger.Warn("wake-up for an event that is not in the log: put away", "key", wake.Key, "tenant", wake.Tenant, "sequence", wake.Sequence)
		err = nil
	}
	if err != nil {
		d.logger.Warn("step not finished: the delivery comes again", "key", wake.Key, "tenant", wake.Tenant, "error", err)
		return
	}
	d.steps.Add(1)
	if err := del.Ack(ctx); err != nil {
		d.logger.Debug("acknowledgement lost: the delivery comes again and changes nothing", "key", wake.Key, "error", err)
	}
}

// handleBy handles a delivery by one setup. It returns errReplaced where there is
// another one by now and nothing is claimed.
func (d *Dispatcher) handleBy(ctx context.Context, del *streams.Delivery, had map[string]*seat) error {
	switch _, unreadable := del.Ref(); {
	case del.FromEvents() && unreadable != nil:
		return d.buryUnreadable(ctx, del, unreadable)
	case !del.Wakeup().Key.Valid():
		return errNoEvent
	}
	return d.step(ctx, del, had)
}

// pauseLook is how often it is asked whether a pause is over.
const pauseLook = time.Second

// waitOutPause holds a delivery while nothing may be begun.
func (d *Dispatcher) waitOutPause(ctx context.Context) error {
	if d.paused() == "" {
		return nil
	}
	ctx, cancel := d.untilStopped(ctx)
	defer cancel()
	for d.paused() != "" {
		if err := sleep(ctx, pauseLook); err != nil {
			return err
		}
	}
	return nil
}

// step decides by the state in the event's last record and acts, until an
// action needs no more. Losing an append to somebody else means looking again.
func (d *Dispatcher) step(ctx context.Context, del *streams.Delivery, had map[string]*seat) error {
	h, known, err := d.begin(ctx, del)
	if err != nil {
		return err
	}
	for {
		l, err := d.look(ctx, del, h, known)
		if err != nil {
			return err
		}
		err = d.act(ctx, del, h, d.rules.decide(l), had)
		if err == nil || !errors.Is(err, errLookAgain) && !isConflict(err) {
			return err
		}
		if d.life.Err() != nil {
			return errReplaced
		}
		wake := del.Wakeup()
		h, known, err = d.last(ctx, wake.Tenant, wake.Key)
		if err == nil && !known {
			h.ref, err = d.refOf(ctx, del)
		}
		if err != nil {
			return err
		}
	}
}

var (
	// errLookAgain asks for another decision by the state as it is by now.
	errLookAgain = errors.New("look again")
	// errNoEvent says that a wake-up names an event that has neither a record nor
	// a copy: it was not written by Tidings, or the event is forgotten.
	errNoEvent = errors.New("there is no such event")
)

// begin returns what is known before the first decision. The first delivery of
// a copy in EVENTS is taken for a new event without a read: the claim expects
// that there is no record, and looks only on conflict.
func (d *Dispatcher) begin(ctx context.Context, del *streams.Delivery) (history, bool, error) {
	if del.FromEvents() && del.NumDelivered() == 1 {
		ref, err := del.Ref()
		return history{ref: ref}, false, err
	}
	wake := del.Wakeup()
	h, known, err := d.last(ctx, wake.Tenant, wake.Key)
	if err != nil || known {
		return h, known, err
	}
	h.ref, err = d.refOf(ctx, del)
	return h, false, err
}

// refOf returns the reference of an event that has no record.
func (d *Dispatcher) refOf(ctx context.Context, del *streams.Delivery) (event.Ref, error) {
	if del.FromEvents() {
		return del.Ref()
	}
	wake := del.Wakeup()
	stored, err := d.copyOf(ctx, event.Ref{Key: wake.Key, Tenant: wake.Tenant, Sequence: wake.Sequence})
	if errors.Is(err, streams.ErrNotFound) || errors.Is(err, streams.ErrForeign) {
		return event.Ref{}, errNoEvent
	}
	return stored.Ref, err
}

// sourceOf returns where to read the event from: the delivery itself if it is
// the copy that the history is about, else EVENTS or the event's dead letter.
func (d *Dispatcher) sourceOf(del *streams.Delivery, h history) source {
	if del.FromEvents() && del.Wakeup().Sequence == h.ref.Sequence && h.state.Edited == nil {
		return func(context.Context) (streams.StoredEvent, error) { return del.Event() }
	}
	return func(ctx context.Context) (streams.StoredEvent, error) { return d.stored(ctx, h) }
}

// copyOf reads the stored copy of an event.
func (d *Dispatcher) copyOf(ctx context.Context, ref event.Ref) (stored streams.StoredEvent, err error) {
	err = d.persist(ctx, "read the event", func(ctx context.Context) (err error) {
		stored, err = d.payloads.Copy(ctx, ref)
		return err
	})
	return stored, err
}

// stored reads the event with the payload in force.
func (d *Dispatcher) stored(ctx context.Context, h history) (stored streams.StoredEvent, err error) {
	err = d.persist(ctx, "read the event", func(ctx context.Context) (err error) {
		stored, err = d.payloads.Of(ctx, h.ref, h.state)
		return err
	})
	return stored, err
}

func (d *Dispatcher) look(ctx context.Context, del *streams.Delivery, h history, known bool) (look, error) {
	l := look{
		known: known, ref: h.ref, state: h.state, at: h.at,
		copied: del.FromEvents(), copySeq: del.Wakeup().Sequence,
		lastDelivery: del.LastDelivery(), now: d.now(),
	}
	switch ref, err := del.Ref(); {
	case l.copied && err == nil:
		l.digest = ref.Digest
	case !l.copied && known && l.copySeq != 0 && l.copySeq != h.ref.Sequence:
		// A wake-up that took the place of another copy, see [streams.Delivery.PutBack].
		other, err := d.copyOf(ctx, event.Ref{Key: h.ref.Key, Tenant: h.ref.Tenant, Sequence: l.copySeq})
		if errors.Is(err, streams.ErrNotFound) || errors.Is(err, streams.ErrForeign) {
			return l, nil
		}
		l.copied, l.digest = true, other.Ref.Digest
		return l, err
	}
	return l, nil
}

// act does what was decided.
func (d *Dispatcher) act(ctx context.Context, del *streams.Delivery, h history, dec decision, had map[string]*seat) error {
	switch dec.action {
	case actAck:
		return d.dropLetter(ctx, h)
	case actDuplicate:
		return d.auditDuplicate(ctx, del, h.ref)
	case actConflict:
		return d.buryConflict(ctx, del, h)
	case actLetter:
		return d.putLetter(ctx, h, h.state.Cause, "")
	case actReschedule:
		return d.schedule(ctx, h)
	case actHold:
		return d.hold(ctx, dec.until)
	case actExpire:
		return d.expire(ctx, h)
	case actBury:
		return d.bury(ctx, h, dec.cause, dec.reason, crashes(dec)...)
	case actClaim:
		p, err := d.admit(ctx, h, inHandOf(del), had)
		if err != nil {
			return err
		}
		defer p.leave()
		if p.shut() && !d.rules.tooOldToWait(h.ref, h.state, d.now()) {
			return d.setAside(ctx, h, p.lacking, crashes(dec)...)
		}
		return d.claim(ctx, h, p, d.sourceOf(del, h), crashes(dec)...)
	}
	return fmt.Errorf("no such action: %s", dec.action)
}

// inHandOf returns how many bytes of an event came with a delivery.
func inHandOf(del *streams.Delivery) int {
	if !del.FromEvents() {
		return 0
	}
	return len(del.Data())
}

func crashes(dec decision) []event.Fact {
	if dec.crashed == nil {
		return nil
	}
	return []event.Fact{*dec.crashed}
}

func (d *Dispatcher) auditDuplicate(ctx context.Context, del *streams.Delivery, ref event.Ref) error {
	dup := event.NewDuplicate(ref, event.StageDispatcher, streams.EventsStream, del.Wakeup().Sequence, "", "a second copy in EVENTS", d.now())
	return d.persist(ctx, "audit a duplicate", func(ctx context.Context) error {
		return d.log.Outcomes.AppendDuplicate(ctx, dup)
	})
}

// hold waits, with the delivery in hand, until a live owner's lease is over or the
// event is due. It ends when the process is to stop: there is nothing in hand to
// be finished.
func (d *Dispatcher) hold(ctx context.Context, until time.Time) error {
	ctx, cancel := d.untilReplaced(ctx)
	defer cancel()
	select {
	case <-time.After(until.Sub(d.now())):
		if d.stopping() {
			return errStopping
		}
		return errLookAgain
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (d *Dispatcher) expire(ctx context.Context, h history) error {
	_, err := d.append(ctx, h,
		event.Expired{AgeMS: h.ref.Age(d.now()).Milliseconds(), WindowMS: d.rules.staleness.Milliseconds()},
		event.Settled{})
	return err
}

// schedule makes sure that a waiting event is woken when it is due.
func (d *Dispatcher) schedule(ctx context.Context, h history) error {
	d.waiting.add()
	return d.persist(ctx, "schedule a wake-up", func(ctx context.Context) error {
		return d.log.Retries.Schedule(ctx, h.wakeup(), h.state.Due)
	})
}
