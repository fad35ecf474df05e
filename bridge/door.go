package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"tidings/streams"
	"tidings/streams/event"
)

// Events is where events are stored. [streams.Events] is one.
type Events interface {
	// Publish stores an event, or recognises it as stored already.
	Publish(context.Context, streams.Incoming) (streams.Accepted, error)
	// Fits returns the *[streams.TooLargeError] that Publish would end with, if it can
	// be seen beforehand.
	Fits(streams.Incoming) error
	// Get returns the stored copy with that sequence.
	Get(context.Context, uint64) (streams.StoredEvent, error)
}

// Letters is where dead letters are stored. [streams.DeadLetters] is one.
type Letters interface {
	Put(context.Context, event.Letter) (uint64, bool, error)
}

// Audit is where redeliveries are noted, and what became of an event is found.
// [streams.Outcomes] is one.
type Audit interface {
	AppendDuplicate(context.Context, event.Duplicate) error
	// Last returns the last record of an event, or an error that is streams.ErrNotFound.
	Last(ctx context.Context, tenant string, key event.Key) (streams.StoredRecord, error)
}

// Missing says what becomes of an event without an id.
type Missing string

// What becomes of an event without an id.
const (
	MissingDerive     Missing = "derive"     // it gets one from its content, the default
	MissingQuarantine Missing = "quarantine" // it becomes a dead letter
)

// DoorOptions say what the door lets in. Events, Letters and Audit are
// required; the zero value of the rest works.
type DoorOptions struct {
	Events  Events
	Letters Letters
	Audit   Audit

	// Identity must be that of Events.
	Identity  event.Identity
	MissingID Missing
	// MaxAhead is how far ahead of its receipt an event may claim to occur, 1 h if zero.
	MaxAhead time.Duration
	// Now is time.Now if nil.
	Now func() time.Time
}

// Door is the one way in: whatever brings events, AMQP or HTTP, hands them to
// [Door.Accept], and the same rules hold. It may be used by several goroutines.
type Door struct{ opts DoorOptions }

// NewDoor returns a door.
func NewDoor(opts DoorOptions) *Door {
	if opts.MissingID == "" {
		opts.MissingID = MissingDerive
	}
	if opts.MaxAhead == 0 {
		opts.MaxAhead = time.Hour
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Door{opts: opts}
}

// Arrival is what stands at the door.
type Arrival struct {
	Envelope event.Envelope
	// Err is why Envelope is no event, or not all of one.
	Err error
	// Delivery and Body are what came, as it came. Body is kept as it is.
	Delivery event.Delivery
	Body     []byte
	// Nonce tells this arrival from all others. Whoever hands the same arrival
	// in again, because the first time ended in an error, gives the same nonce.
	Nonce string
	// Again says that it may have been here before.
	Again bool
	// Where it came from, in words, such as "amqp queue orders".
	Where string
	Stage event.Stage
	// Test says that an operator dispatches it as a test: nothing else may come in
	// under [event.TestSource].
	Test bool
	// from is what Delivery has its properties from when a dead letter is made of
	// it: an event needs none. Nil: it has them.
	from *amqp.Delivery
}

// Receipt says what became of an arrival that was let in.
type Receipt struct {
	// Key and Sequence name the event in EVENTS, or the letter in DEADLETTERS.
	Key      event.Key
	Sequence uint64
	// Duplicate says that the event was there before.
	Duplicate bool
	// Quarantined is why it became a dead letter; empty for an event.
	Quarantined event.Cause
}

// refusal is why something cannot come in as an event.
type refusal struct {
	cause  event.Cause
	detail string
}

func (r *refusal) Error() string { return r.detail }

// Accept stores what came: as an event, as a repeat of one, or, if it cannot be
// an event, as a dead letter. When it returns nil, the arrival is safe and may
// be acknowledged. On an error nothing is to be acknowledged. An error is never
// about the arrival: the log could not take it now, and it may be handed in
// again with the same nonce.
func (d *Door) Accept(ctx context.Context, a Arrival) (Receipt, error) { return d.accept(ctx, &a) }

// accept gives a what it lacks: it may be handed in again.
func (d *Door) accept(ctx context.Context, a *Arrival) (Receipt, error) {
	receipt, letter, err := d.admit(ctx, a)
	if letter != nil {
		return d.put(ctx, *letter)
	}
	return receipt, err
}

// admit stores an arrival that is an event, or returns the letter for one that is none.
func (d *Door) admit(ctx context.Context, a *Arrival) (Receipt, *event.Letter, error) {
	if a.Nonce == "" {
		a.Nonce = event.NewNonce()
	}
	if r := d.check(a); r != nil {
		return Receipt{}, d.letter(a, r), nil
	}
	accepted, err := d.opts.Events.Publish(ctx, streams.Incoming{
		Envelope: a.Envelope, Nonce: a.Nonce, Headers: a.Delivery.Headers, Again: a.Again,
	})
	if r := tooLarge(err); r != nil {
		return Receipt{}, d.letter(a, r), nil
	}
	if err != nil {
		return Receipt{}, nil, fmt.Errorf("store the event: %w", err)
	}
	if accepted.Duplicate {
		return d.known(ctx, a, accepted)
	}
	return Receipt{Key: accepted.Key, Sequence: accepted.Sequence}, nil, nil
}

// check identifies the event, and says why it cannot come in, if so.
func (d *Door) check(a *Arrival) *refusal {
	if a.Err != nil {
		if r, ok := errors.AsType[*refusal](a.Err); ok {
			return r
		}
		return &refusal{event.CauseUndecodable, a.Err.Error()}
	}
	if a.Envelope.IsTest() && !a.Test {
		return &refusal{event.CauseReservedSource, fmt.Sprintf(
			"the source %q is reserved for the tests of operators: name another", event.TestSource)}
	}
	if a.Envelope.ID == "" && d.opts.MissingID == MissingQuarantine {
		return &refusal{event.CauseMissingID, "it has no id, and events without one are refused here"}
	}
	a.Envelope.Identify()
	if ahead := a.Envelope.OccurredAt.Sub(d.opts.Now()); ahead > d.opts.MaxAhead {
		return &refusal{event.CauseFuture, fmt.Sprintf(
			"it claims to occur at %s, more than %s from now", a.Envelope.OccurredAt.Format(time.RFC3339), d.opts.MaxAhead)}
	}
	return nil
}

func tooLarge(err error) *refusal {
	large, ok := errors.AsType[*streams.TooLargeError](err)
	switch {
	case !ok:
		return nil
	case large.What == "headers":
		return &refusal{event.CauseHeadersTooLarge, large.Error()}
	default:
		return &refusal{event.CauseOversize, large.Error()}
	}
}

// known deals with an event whose identity is in EVENTS already.
func (d *Door) known(ctx context.Context, a *Arrival, accepted streams.Accepted) (Receipt, *event.Letter, error) {
	receipt := Receipt{Key: accepted.Key, Sequence: accepted.Sequence, Duplicate: true}
	stored, err := d.first(ctx, a.Envelope, accepted)
	switch {
	case err != nil:
		return Receipt{}, nil, fmt.Errorf("compare with the stored event: %w", err)
	case stored.Nonce == a.Nonce:
		receipt.Duplicate = false // our own, whose acknowledgement was lost
		return receipt, nil, nil
	case stored.Ref.Digest != event.Digest(a.Envelope.Data):
		return Receipt{}, d.conflict(a, stored), nil
	}
	err = d.opts.Audit.AppendDuplicate(ctx, event.NewDuplicate(stored.Ref, a.Stage,
		streams.EventsStream, accepted.Sequence, a.Nonce, a.Where, d.opts.Now()))
	if err != nil {
		return Receipt{}, nil, fmt.Errorf("note the duplicate: %w", err)
	}
	return receipt, nil, nil
}

// first returns the event that was there before. Where its copy is gone, it has
// ended, and its history says what it was. Without either, it was what came now;
// so was its body where the history does not know that, as after a recovery.
func (d *Door) first(ctx context.Context, e event.Envelope, accepted streams.Accepted) (streams.StoredEvent, error) {
	stored, err := d.opts.Events.Get(ctx, accepted.Sequence)
	if !errors.Is(err, streams.ErrNotFound) {
		return stored, err
	}
	last, err := d.opts.Audit.Last(ctx, e.Tenant, accepted.Key)
	if errors.Is(err, streams.ErrNotFound) {
		return streams.StoredEvent{Ref: d.ref(e, accepted)}, nil
	}
	ref := last.Record.Event
	ref.Digest = cmp.Or(ref.Digest, event.Digest(e.Data))
	return streams.StoredEvent{Ref: ref}, err
}

func (d *Door) ref(e event.Envelope, accepted streams.Accepted) event.Ref {
	return event.Ref{
		Key: accepted.Key, Tenant: e.Tenant, Source: e.Source, ID: e.ID, IDSource: e.IDSource, Type: e.Type,
		CorrelationID: e.CorrelationID, OccurredAt: e.OccurredAt, ReceivedAt: d.opts.Now(),
		Sequence: accepted.Sequence, Digest: event.Digest(e.Data), Traceparent: e.Traceparent,
		AMQPMessageID: e.Extensions[event.ExtensionMessageID],
	}
}
