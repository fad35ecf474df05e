package streams

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tidings/streams/event"
)

// Events is the stream of what producers published.
type Events struct {
	stream
	commits  appender
	identity event.Identity
	spare    int // headers that commits may add
	room     room
	short    shortage
}

// Incoming is an event at the door.
type Incoming struct {
	Envelope event.Envelope // without id or tenant: they are filled in, see [event.Envelope.Identify]
	// Nonce is new for every delivery. It tells our own repeat after a lost
	// answer, which is no duplicate, from somebody else's.
	Nonce string
	// Headers are the typed AMQP headers as JSON in ASCII, or nil.
	Headers json.RawMessage
	// Again says that the broker has delivered it before, so it is probably a
	// duplicate: it stays out of batches, which a duplicate would spoil.
	Again bool
}

// Accepted says where an event is stored.
type Accepted struct {
	Key      event.Key
	Sequence uint64
	// Duplicate: the id was already there; Sequence is that of the first copy.
	Duplicate bool
}

// StoredEvent is an event as it is stored.
type StoredEvent struct {
	Envelope event.Envelope
	Ref      event.Ref
	Nonce    string
	Headers  json.RawMessage // nil: none
}

// MaxData returns how many bytes of payload an event may have: 8 MiB, or less
// if the server takes only smaller messages. The dead letter of the event must
// fit into one message too, with the payload in base64 and half a MiB for the
// event's state and headers. 12 MiB of max_payload allow for 8 MiB.
func (e *Events) MaxData() int {
	return min(MaxData, int(e.nc.MaxPayload()-letterOverhead)*3/4)
}

const letterOverhead = 512 << 10

// leastMaxData is what any server takes that a log is opened on. Up to there
// the connection, which all that publish share, need not be asked.
const leastMaxData = (minMaxPayload - letterOverhead) * 3 / 4

// Publish stores an event and returns when it is durable. It is safe to repeat:
// inside the duplicate window the stream recognises the id, beyond it the
// event's history does. Errors: a *[TooLargeError]; [ErrFull], of the stream itself
// as a *[FullError]; [ErrClosed];
// everything else means that the log is unavailable, and where it wraps
// [ErrUnknown] the event may be stored nevertheless.
func (e *Events) Publish(ctx context.Context, in Incoming) (Accepted, error) {
	in.Envelope.Identify()
	ent, err := e.entry(&in)
	if err != nil {
		return Accepted{}, fmt.Errorf("publish event: %w", err)
	}
	if err := e.commits.append(ctx, ent); err != nil {
		return Accepted{}, fmt.Errorf("publish event: %w", unavailable(e.refusedBy(ctx, err, ent.size)))
	}
	if !ent.duplicate {
		e.short.over(ent.size)
	}
	key := keyOf(ent.key, in.Envelope.IDSource, ent.sequence)
	return Accepted{Key: key, Sequence: ent.sequence, Duplicate: ent.duplicate}, nil
}

// Fits returns a *[TooLargeError] if an event is larger than the stream takes, as far
// as that can be seen without the server.
func (e *Events) Fits(in Incoming) error {
	in.Envelope.Identify()
	_, err := e.entry(&in)
	if large, ok := errors.AsType[*TooLargeError](err); ok {
		return large
	}
	return nil
}

func (e *Events) entry(in *Incoming) (*entry, error) {
	if n := len(in.Envelope.Data); n > leastMaxData && n > e.MaxData() {
		return nil, &TooLargeError{What: "payload", Size: n, Limit: e.MaxData()}
	}
	h, id, err := eventHeaders(in, e.identity, e.spare)
	if err != nil {
		return nil, err
	}
	if h.size > MaxHeaders {
		return nil, &TooLargeError{What: "headers", Size: h.size, Limit: MaxHeaders}
	}
	subject := EventSubject(in.Envelope.Tenant, in.Envelope.Type)
	msg := &nats.Msg{Subject: subject, Header: h.Header, Data: in.Envelope.Data}
	ent := newSizedEntry(msg, id, h.size)
	ent.single = in.Again
	return ent, nil
}

// unavailable gives what is not back-pressure, size or closing one name.
func unavailable(err error) error {
	if errors.Is(err, errConflict) || errors.Is(err, errRefused) {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}

// Get returns the event stored at a sequence, [ErrNotFound], or [ErrForeign] if
// what is there is no event.
func (e *Events) Get(ctx context.Context, sequence uint64) (StoredEvent, error) {
	entry, err := e.Entry(ctx, sequence)
	if err != nil {
		return StoredEvent{}, err
	}
	return decodeEvent(entry.Header, entry.Data, entry.Sequence, entry.Time)
}

// Trim removes all events before a sequence for good. Only who knows that they
// have ended may call it.
func (e *Events) Trim(ctx context.Context, before uint64) error {
	if before <= 1 {
		return nil // the server would take 0 for all of it
	}
	ctx, cancel := withAckWait(ctx, e.nc)
	defer cancel()
	if err := e.handle.Purge(ctx, jetstream.WithPurgeSequence(before)); err != nil {
		return fmt.Errorf("trim events before %d: %w: %w", before, ErrUnavailable, err)
	}
	return nil
}
