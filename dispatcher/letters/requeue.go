package letters

import (
	"context"
	"fmt"
	"time"

	"tidings/streams"
	"tidings/streams/event"
)

// Requeued is an event that was opened again.
type Requeued struct {
	Event      event.Ref `json:"event"`
	Generation int       `json:"generation"` // the one that was opened
	Sequence   uint64    `json:"sequence"`   // of the record in OUTCOMES
	// Already says that the same replay plan had requeued the letter before:
	// nothing was done now.
	Already bool `json:"already,omitempty"`
	// Admitted says that it was no event: the delivery was handed in again, and has
	// become one. Sequence is that of the audit entry then.
	Admitted bool `json:"admitted,omitempty"`
	// Duplicate says that the event of a delivery was known already: nothing is sent.
	Duplicate bool `json:"duplicate,omitempty"`
}

// Recorded returns the sequence of the record in OUTCOMES.
func (r Requeued) Recorded() uint64 { return r.Sequence }

// Requeue opens the next generation of the event whose dead letter t names: all
// its messages that were not delivered are tried again. A delivery that could not
// become an event stands at the door again, and the error is a *[RefusedError] if
// it is refused again. For a replay plan
// (w.Replay) a letter that the plan has requeued before is no conflict.
//
// Errors: a *[ConflictError] if the event has gone on since; [streams.ErrNotFound]
// if there is no such letter; [ErrWord]; those of the log. It may be repeated: a
// letter is requeued once.
func (d *Desk) Requeue(ctx context.Context, t Target, w Word) (Requeued, error) {
	if err := w.check(); err != nil {
		return Requeued{}, err
	}
	done, err := d.requeue(ctx, t, w)
	if err == nil {
		return done, nil
	}
	if w.Replay != "" {
		if before, found := d.replayed(ctx, t, w.Replay); found {
			return before, nil
		}
	}
	return Requeued{}, fmt.Errorf("requeue %s: %w", t.Key, err)
}

func (d *Desk) requeue(ctx context.Context, t Target, w Word) (Requeued, error) {
	letter, at, err := d.letter(ctx, t, w.Replay)
	if err != nil {
		return Requeued{}, err
	}
	if isDelivery(letter) {
		return d.readmit(ctx, letter, at, w, Change{})
	}
	return d.open(ctx, letter, event.Requeued{
		Generation: letter.Generation + 1, Operator: w.Operator, Reason: w.Reason, Replay: w.Replay,
	})
}

// open appends the requeue of an event by its letter, and wakes the event.
func (d *Desk) open(ctx context.Context, letter event.Letter, fact event.Requeued) (Requeued, error) {
	rec, seq, err := d.extend(ctx, letter.Tenant, letter.Key, func(e end) (event.Ref, []event.Fact, error) {
		return d.onDead(ctx, letter, e, fact)
	})
	if err != nil {
		return Requeued{}, err
	}
	d.wake(ctx, rec.Event)
	return Requeued{Event: rec.Event, Generation: rec.State.Generation, Sequence: seq}, nil
}

// onDead returns the facts that put fact on top of a dead letter, if its event's
// history ends there. A history that is beyond the horizon begins anew with what
// the letter knows of it.
func (d *Desk) onDead(ctx context.Context, letter event.Letter, e end, fact event.Fact) (event.Ref, []event.Fact, error) {
	switch {
	case e.seq == 0:
		return *letter.Event, []event.Fact{
			event.Restored{From: event.FromLetter, State: *letter.State}, event.Dead{Cause: letter.Cause}, fact,
		}, nil
	case e.state.Phase == event.PhaseDead && e.state.Generation == letter.Generation:
		return e.ref, []event.Fact{fact}, nil
	case Over(letter.Generation, e.state):
		d.clear(ctx, e.ref, e.state) // a crash came before it
	}
	return event.Ref{}, nil, d.conflict(ctx, letter.Tenant, letter.Key, "")
}

// wakeWithin bounds the wake-up that follows a record: what is recorded is
// requeued, and the steward wakes what nobody did.
const wakeWithin = 5 * time.Second

func (d *Desk) wake(ctx context.Context, ref event.Ref) {
	ctx, cancel := context.WithTimeout(ctx, wakeWithin)
	defer cancel()
	err := d.o.Waker.Wake(ctx, streams.Wakeup{Tenant: ref.Tenant, Key: ref.Key, Sequence: ref.Sequence})
	if err != nil {
		d.o.Logger.Warn("requeued, and not woken yet: the steward does it", "key", ref.Key, "tenant", ref.Tenant, "error", err)
	}
}

// replayed finds the requeue of an event by a replay plan. What cannot be read is
// not found: then the error that led here stands.
func (d *Desk) replayed(ctx context.Context, t Target, replay string) (Requeued, bool) {
	deeds, _ := d.deeds(ctx, t.Tenant, t.Key)
	for _, done := range deeds {
		if done.Action == actionRequeued && done.Replay == replay {
			return Requeued{Event: done.ref, Generation: done.Generation, Sequence: done.Sequence, Already: true}, true
		}
	}
	return Requeued{}, false
}
