package dispatcher

import (
	"context"
	"errors"
	"slices"

	"tidings/dispatcher/letters"
	"tidings/streams"
	"tidings/streams/event"
)

// bury ends an event as a dead letter: first the letter, then the record. A
// crash between the two repeats harmlessly, because the letter is the same for
// the same generation. before are facts that belong in front of the end.
func (d *Dispatcher) bury(ctx context.Context, h history, cause event.Cause, detail string, before ...event.Fact) error {
	if err := d.putLetter(ctx, h, cause, detail); err != nil {
		return err
	}
	_, err := d.extend(ctx, h, func(event.State) []event.Fact {
		return append(slices.Clip(before), event.Dead{Cause: cause, Detail: firstLine(detail)})
	})
	return err
}

// putLetter makes sure that the letter of the event's present generation
// exists. The payload is copied as it is, without decoding it.
func (d *Dispatcher) putLetter(ctx context.Context, h history, cause event.Cause, detail string) error {
	state := h.state
	letter := event.Letter{
		Schema: event.Schema, Kind: event.LetterEvent, Key: h.ref.Key, Tenant: h.ref.Tenant,
		Cause: cause, Stage: event.StageDispatcher, Detail: detail,
		Generation: h.state.Generation, At: d.now(), Event: &h.ref, State: &state,
	}
	stored, err := d.stored(ctx, h)
	switch {
	case errors.Is(err, streams.ErrNotFound), errors.Is(err, streams.ErrForeign):
		letter.Cause = event.CauseEventMissing
	case err != nil:
		return err
	default:
		letter.Envelope, letter.Data = &stored.Envelope, stored.Envelope.Data
	}
	return d.put(ctx, letter)
}

// dropLetter removes the letter of an event that an operator requeued and that
// has settled since. The steward does it where a crash came in between.
func (d *Dispatcher) dropLetter(ctx context.Context, h history) error {
	if h.state.Generation == 0 {
		return nil // nobody requeued it
	}
	err := d.persist(ctx, "remove a dead letter", func(ctx context.Context) error {
		letter, at, err := d.log.DeadLetters.Get(ctx, h.ref.Tenant, h.ref.Key)
		if err != nil || !letters.Over(letter.Generation, h.state) {
			return err
		}
		return d.log.DeadLetters.Remove(ctx, at)
	})
	if errors.Is(err, streams.ErrNotFound) || errors.Is(err, streams.ErrForeign) {
		return nil // it is gone, or no letter of ours
	}
	return err
}

// buryConflict keeps a second event that claims a known identity with another
// body, under a key of its own. The history of the first is not touched.
func (d *Dispatcher) buryConflict(ctx context.Context, del *streams.Delivery, h history) error {
	stored, err := d.otherCopy(ctx, del, h)
	if err != nil {
		return err
	}
	return d.put(ctx, event.Letter{
		Schema: event.Schema, Kind: event.LetterDelivery,
		Key: event.ConflictKey(h.ref.Key, stored.Ref.Digest), Tenant: h.ref.Tenant,
		Cause: event.CauseIDConflict, Stage: event.StageDispatcher,
		Detail: "the event " + string(h.ref.Key) + " has the same identity and another body",
		At:     d.now(), Event: &stored.Ref, Envelope: &stored.Envelope, Data: stored.Envelope.Data,
	})
}

// otherCopy returns the copy that a delivery, or a wake-up in its place, is about.
func (d *Dispatcher) otherCopy(ctx context.Context, del *streams.Delivery, h history) (streams.StoredEvent, error) {
	if del.FromEvents() {
		return del.Event()
	}
	return d.copyOf(ctx, event.Ref{Key: h.ref.Key, Tenant: h.ref.Tenant, Sequence: del.Wakeup().Sequence})
}

// buryUnreadable keeps a message in EVENTS that is not an event of ours: some
// other program wrote it there.
func (d *Dispatcher) buryUnreadable(ctx context.Context, del *streams.Delivery, why error) error {
	return d.put(ctx, event.Letter{
		Schema: event.Schema, Kind: event.LetterDelivery, Tenant: event.DefaultTenant,
		Key:   event.DeliveryKey(event.DefaultTenant, streams.EventsStream, del.Subject(), "", del.Data()),
		Cause: event.CauseUndecodable, Stage: event.StageDispatcher, Detail: why.Error(), At: d.now(),
		Delivery: &event.Delivery{Broker: "nats", Queue: streams.EventsStream, RoutingKey: del.Subject()}, Data: del.Data(),
	})
}

func (d *Dispatcher) put(ctx context.Context, letter event.Letter) error {
	return d.persist(ctx, "write a dead letter", func(ctx context.Context) error {
		_, _, err := d.log.DeadLetters.Put(ctx, letter)
		return err
	})
}
