// Package channel says what a way out of Tidings is: a [Sender] that makes one
// call of a provider for one message, and errors that say what to do next.
//
// # What to believe
//
//   - One [Sender.Send] is one call. A sender never tries again by itself, neither
//     openly nor through a library that does so: whoever calls it records each try.
//   - The error is an instruction, read with [Classify]. [Transient] and
//     [RateLimited] promise that the provider did not take the message. Where that
//     is not certain the error is [Unknown], however unlikely the delivery.
//   - Message.ID is the idempotency key. It reaches the provider unchanged in every
//     try, so that a provider or a recipient can tell a repeat.
//   - The context bounds the whole call, and its end closes the connection.
//   - The text of an error holds no secret, no body, no path or query of an address
//     and none of the provider's words; these often quote an address.
//
// Package channeltest holds the suite that every sender passes.
package channel

import (
	"context"
	"log/slog"

	"tidings/streams/event"
)

// Message is one rendered and addressed notification. A channel uses the
// contents that it can carry: e-mail takes Subject, Text and HTML, a webhook
// takes Body and ContentType.
type Message struct {
	// ID is what a repeat is known by, the same in every try: the message id, and
	// another one once an operator has edited the payload. It becomes the e-mail's
	// Message-ID and the webhook's webhook-id.
	ID string

	Key       event.Key // of the event it tells of
	Tenant    string
	EventID   string
	EventType string

	To string // the address: a mailbox or a URL

	Subject string
	Text    string
	HTML    string

	Body        []byte
	ContentType string

	// Headers are extra headers. Those that a channel sets by itself, and those
	// that carry the protocol, are refused.
	Headers map[string]string
}

// LogValue implements slog.LogValuer: a logged message names itself and shows
// neither address nor contents.
func (m Message) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("id", m.ID),
		slog.String("key", string(m.Key)),
		slog.String("tenant", m.Tenant),
		slog.String("event_id", m.EventID),
		slog.String("event_type", m.EventType),
	)
}

// Receipt is what a call tells beside its error.
type Receipt struct {
	// Code is the provider's positive answer, such as "smtp_250" or "http_200".
	// It is empty beside an error.
	Code string
	// Provider is the host that was called. It is set beside an error too, once
	// it is known.
	Provider string
}

// Sender makes one call of a provider. It returns nil only after the provider
// said that it took the message; every other end is an error for [Classify].
// It may be called by several goroutines at once.
//
// A sender that keeps connections is an io.Closer as well.
type Sender interface {
	Send(ctx context.Context, m Message) (Receipt, error)
}

// SenderFunc makes a Sender of a function.
type SenderFunc func(ctx context.Context, m Message) (Receipt, error)

// Send implements Sender.
func (f SenderFunc) Send(ctx context.Context, m Message) (Receipt, error) { return f(ctx, m) }
