package bridge

import (
	"context"
	"fmt"
	"time"
	"unicode/utf8"

	"tidings/streams"
	"tidings/streams/event"
)

// conflict is the letter of a second event under the identity of another one.
func (d *Door) conflict(a *Arrival, stored streams.StoredEvent) *event.Letter {
	letter := d.letter(a, &refusal{event.CauseIDConflict, fmt.Sprintf(
		"the event %s, stored in EVENTS at %d, has the same identity and another body", stored.Ref.Key, stored.Ref.Sequence)})
	letter.Key = event.ConflictKey(stored.Ref.Key, event.Digest(a.Envelope.Data))
	return letter
}

// letter keeps the arrival as it came, under a key that is the same whenever
// it comes.
func (d *Door) letter(a *Arrival, r *refusal) *event.Letter {
	tenant := a.Envelope.Tenant
	if tenant == "" || len(tenant) > maxTenant || !utf8.ValidString(tenant) {
		tenant = event.DefaultTenant
	}
	if a.from != nil {
		a.Delivery.Properties = properties(a.from)
	}
	return &event.Letter{
		Schema: event.Schema, Kind: event.LetterDelivery, Tenant: tenant,
		Key:   letterKey(tenant, a),
		Cause: r.cause, Stage: a.Stage, Detail: event.Shorten(r.detail, maxDetail), At: d.opts.Now(),
		Envelope: listed(a.Envelope), Delivery: &a.Delivery, Data: a.Body,
	}
}

// maxDetail is how long the reason of a letter may be, in bytes: it may name what
// a stranger wrote.
const maxDetail = 1000

// listed is the envelope that a letter is listed by. Attributes that are larger
// than all headers of an event are not needed for that: body and headers have them.
func listed(e event.Envelope) *event.Envelope {
	for _, text := range []*string{
		&e.Source, &e.ID, &e.Type, &e.Subject, &e.CorrelationID, &e.ContentType, &e.DataSchema, &e.Traceparent, &e.Tracestate,
	} {
		*text = event.Shorten(*text, streams.MaxHeaders)
	}
	size := 0
	for name, value := range e.Extensions {
		size += len(name) + len(value)
	}
	if size > streams.MaxHeaders {
		e.Extensions = nil
	}
	return &e
}

// letterKey is that of a delivery, and of what it says it is: events that carry
// the same body are different events, also where none of them can come in.
func letterKey(tenant string, a *Arrival) event.Key {
	delivery := event.DeliveryKey(tenant, a.Delivery.Exchange, a.Delivery.RoutingKey,
		a.Delivery.Properties["content_type"], a.Body)
	e := a.Envelope
	return event.NewKey("delivery of", string(delivery), e.Tenant, e.Source, e.ID, e.Type,
		e.OccurredAt.UTC().Format(time.RFC3339Nano))
}

func (d *Door) put(ctx context.Context, letter event.Letter) (Receipt, error) {
	sequence, _, err := d.opts.Letters.Put(ctx, letter)
	if err != nil {
		return Receipt{}, fmt.Errorf("store the dead letter: %w", err)
	}
	return Receipt{Key: letter.Key, Sequence: sequence, Quarantined: letter.Cause}, nil
}
