package bridge

import (
	"context"
	"fmt"

	"tidings/streams"
	"tidings/streams/event"
)

// RefusedError is why a delivery cannot come in as an event.
type RefusedError struct {
	Cause  event.Cause
	Detail string // in words
}

// Error implements error.
func (e *RefusedError) Error() string { return fmt.Sprintf("%s: %s", e.Cause, e.Detail) }

// Offer is Accept for what is kept elsewhere: where that would make a dead letter
// of the arrival, Offer keeps nothing and returns a *[RefusedError].
func (d *Door) Offer(ctx context.Context, a Arrival) (Receipt, error) {
	receipt, letter, err := d.admit(ctx, &a)
	if letter != nil {
		return Receipt{}, &RefusedError{Cause: letter.Cause, Detail: letter.Detail}
	}
	return receipt, err
}

// Read returns the event that an arrival would become, and its key, which is empty
// where only its copy in EVENTS gives it one. It returns a *[RefusedError] for
// what can be seen to be none.
func (d *Door) Read(a Arrival) (event.Envelope, event.Key, error) {
	if r := d.check(&a); r != nil {
		return a.Envelope, "", &RefusedError{Cause: r.cause, Detail: r.detail}
	}
	if r := tooLarge(d.opts.Events.Fits(streams.Incoming{
		Envelope: a.Envelope, Nonce: a.Nonce, Headers: a.Delivery.Headers,
	})); r != nil {
		return a.Envelope, "", &RefusedError{Cause: r.cause, Detail: r.detail}
	}
	if a.Envelope.IDSource == event.IDContent {
		return a.Envelope, "", nil
	}
	return a.Envelope, d.opts.Identity.Key(a.Envelope), nil
}
