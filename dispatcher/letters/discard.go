package letters

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tidings/streams"
	"tidings/streams/event"
)

// Discarded is a dead letter that was ended for good.
type Discarded struct {
	Key      event.Key   `json:"key"`
	Tenant   string      `json:"tenant"`
	Cause    event.Cause `json:"cause"`
	Sequence uint64      `json:"sequence"` // of the record in OUTCOMES
}

// Recorded returns the sequence of the record in OUTCOMES.
func (d Discarded) Recorded() uint64 { return d.Sequence }

// Discard ends a dead letter for good, and needs a reason: nothing more is sent of
// its event, and the letter is removed. What was not delivered counts as failed.
// Errors are those of [Desk.Requeue].
func (d *Desk) Discard(ctx context.Context, t Target, w Word) (Discarded, error) {
	if err := w.checkReason(); err != nil {
		return Discarded{}, err
	}
	done, err := d.discard(ctx, t, w)
	if err != nil {
		return Discarded{}, fmt.Errorf("discard %s: %w", t.Key, err)
	}
	return done, nil
}

func (d *Desk) discard(ctx context.Context, t Target, w Word) (Discarded, error) {
	letter, at, err := d.letter(ctx, t, "")
	if err != nil {
		return Discarded{}, err
	}
	if isDelivery(letter) {
		return d.discardDelivery(ctx, letter, at, w)
	}
	rec, seq, err := d.extend(ctx, letter.Tenant, letter.Key, func(e end) (event.Ref, []event.Fact, error) {
		return d.onDead(ctx, letter, e, event.Discarded{Operator: w.Operator, Reason: w.Reason})
	})
	if err != nil {
		return Discarded{}, err
	}
	d.clear(ctx, rec.Event, rec.State)
	return Discarded{Key: letter.Key, Tenant: letter.Tenant, Cause: letter.Cause, Sequence: seq}, nil
}

// clearWithin bounds the removal that follows a record: what the record says is
// over is over, and the steward removes what nobody did.
const clearWithin = 5 * time.Second

// clear removes the letter of an event that is over by a state of it.
func (d *Desk) clear(ctx context.Context, ref event.Ref, s event.State) {
	ctx, cancel := context.WithTimeout(ctx, clearWithin)
	defer cancel()
	if _, err := d.remove(ctx, ref.Tenant, ref.Key, s); err != nil {
		d.o.Logger.Warn("a dead letter is over, and not removed yet: the steward does it", "key", ref.Key, "tenant", ref.Tenant, "error", err)
	}
}

// Sweep removes the letter under a key if it is over, which a crash may have left
// behind, and reports whether it did. It may be called at any time, for any key.
func (d *Desk) Sweep(ctx context.Context, tenant string, key event.Key) (removed bool, err error) {
	e, err := d.end(ctx, tenant, key)
	if err != nil {
		return false, err
	}
	return d.remove(ctx, tenant, key, e.state)
}

func (d *Desk) remove(ctx context.Context, tenant string, key event.Key, s event.State) (bool, error) {
	letter, at, err := d.o.Letters.Get(ctx, tenant, key)
	if err == nil && Over(letter.Generation, s) {
		err = d.o.Letters.Remove(ctx, at)
		if err == nil {
			return true, nil
		}
	}
	if errors.Is(err, streams.ErrNotFound) || errors.Is(err, streams.ErrForeign) {
		return false, nil
	}
	return false, err
}
