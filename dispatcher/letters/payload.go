package letters

import (
	"context"
	"errors"
	"fmt"

	"tidings/streams"
	"tidings/streams/event"
)

// Events holds what producers published. [streams.Events] is one.
type Events interface {
	Get(ctx context.Context, sequence uint64) (streams.StoredEvent, error)
}

// Payloads finds what an event is sent from: its stored copy, or its dead letter
// where the copy was trimmed or an operator put another payload in its place.
type Payloads struct {
	Events  Events
	Letters Getter
}

// Getter finds a letter by its key. [streams.DeadLetters] is one.
type Getter interface {
	Get(ctx context.Context, tenant string, key event.Key) (event.Letter, uint64, error)
}

// Copy returns the stored copy of an event. It is [streams.ErrNotFound] too where
// its place is taken by another event, as after the stream was lost and made anew.
func (p Payloads) Copy(ctx context.Context, ref event.Ref) (streams.StoredEvent, error) {
	stored, err := p.Events.Get(ctx, ref.Sequence)
	if err == nil && (stored.Ref.Key != ref.Key || stored.Ref.Tenant != ref.Tenant) {
		return streams.StoredEvent{}, fmt.Errorf("copy %d of event %s: %w: another event is there", ref.Sequence, ref.Key, streams.ErrNotFound)
	}
	return stored, err
}

// Of returns an event with the payload that is in force in a state of it, or
// [streams.ErrNotFound] if that is nowhere any more.
func (p Payloads) Of(ctx context.Context, ref event.Ref, s event.State) (streams.StoredEvent, error) {
	stored, err := p.Copy(ctx, ref)
	gone := errors.Is(err, streams.ErrNotFound) || errors.Is(err, streams.ErrForeign)
	if err == nil && s.Edited == nil || err != nil && !gone {
		return stored, err
	}
	letter, _, err := p.Letters.Get(ctx, ref.Tenant, ref.Key)
	if err != nil {
		return streams.StoredEvent{}, fmt.Errorf("the payload of event %s in its dead letter: %w", ref.Key, err)
	}
	if gone {
		stored = fromLetter(ref, letter)
	}
	digest := ref.Digest
	if s.Edited != nil {
		digest = s.Edited.Digest
	}
	data, ok := letter.Payload(digest)
	if !ok {
		return streams.StoredEvent{}, fmt.Errorf("the payload of event %s: %w: its dead letter has another one", ref.Key, streams.ErrNotFound)
	}
	stored.Envelope.Data = data
	return stored, nil
}

// fromLetter returns an event without its payload as its letter knows it.
func fromLetter(ref event.Ref, l event.Letter) streams.StoredEvent {
	if l.Envelope != nil {
		return streams.StoredEvent{Ref: ref, Envelope: *l.Envelope}
	}
	return streams.StoredEvent{Ref: ref, Envelope: event.Envelope{
		Tenant: ref.Tenant, Source: ref.Source, ID: ref.ID, IDSource: ref.IDSource, Type: ref.Type,
		CorrelationID: ref.CorrelationID, OccurredAt: ref.OccurredAt, Traceparent: ref.Traceparent,
	}}
}
