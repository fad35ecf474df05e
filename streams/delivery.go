package streams

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tidings/streams/event"
)

// Delivery is one message of EVENTS or RETRIES in hand. Until its handler
// returns, the server is told that it is being worked on. What the handler
// does not [Delivery.Ack] comes again once AckWait is over.
type Delivery struct {
	msg        jetstream.Msg
	meta       jetstream.MsgMetadata
	from       *stream
	maxDeliver int // as a handler sees it; 0: none is the last
	bound      int // deliveries, of which half may be put back

	// What the headers say, which is asked for more than once.
	wakeup Wakeup
	ref    event.Ref
	refErr error
}

func newDelivery(msg jetstream.Msg, meta jetstream.MsgMetadata, from *stream) *Delivery {
	d := &Delivery{msg: msg, meta: meta, from: from}
	if !d.FromEvents() {
		d.wakeup = decodeWakeup(msg.Headers())
		d.refErr = errNoRef
		return d
	}
	key, tenant := decodeKey(msg.Headers(), d.Sequence())
	d.wakeup = Wakeup{Tenant: tenant, Key: key, Sequence: d.Sequence()}
	d.ref, d.refErr = decodeRef(msg.Headers(), d.Sequence(), meta.Timestamp)
	return d
}

var errNoRef = errors.New("a wake-up does not hold the event")

// FromEvents reports whether the message is the stored copy of an event, not a
// wake-up from RETRIES.
func (d *Delivery) FromEvents() bool { return d.from.name == EventsStream }

// Wakeup returns which event to look at. It is read from the headers alone. A
// message that Tidings did not write has no valid key, and [Delivery.Ref] says why.
func (d *Delivery) Wakeup() Wakeup { return d.wakeup }

// Ref returns what is known of the event without decoding its payload, which
// may be what kills the process. It returns an error for a message that Tidings
// did not write, and for wake-ups, which know only a key.
func (d *Delivery) Ref() (event.Ref, error) { return d.ref, d.refErr }

// Event returns the whole event. Errors are those of Ref.
func (d *Delivery) Event() (StoredEvent, error) {
	if d.refErr != nil {
		return StoredEvent{}, d.refErr
	}
	return storedEvent(d.ref, d.msg.Headers(), d.msg.Data()), nil
}

// Subject returns the subject under which the message is stored.
func (d *Delivery) Subject() string { return d.msg.Subject() }

// Data returns the body of the message as it is.
func (d *Delivery) Data() []byte { return d.msg.Data() }

// Sequence returns the sequence of the message in its own stream.
func (d *Delivery) Sequence() uint64 { return d.meta.Sequence.Stream }

// NumDelivered returns how often the server believes it has delivered the
// message, this time included. It forgets when it crashes.
func (d *Delivery) NumDelivered() int { return int(d.meta.NumDelivered) }

// LastDelivery reports that the message was delivered as often as it may be: it
// is to be ended, not tried. It is delivered again only if that fails.
func (d *Delivery) LastDelivery() bool {
	return d.maxDeliver > 0 && d.NumDelivered() >= d.maxDeliver
}

// PutBack says that nothing was done about the message: it comes again at once,
// here or elsewhere. It is for the stop; if it is lost, AckWait does the same.
//
// The server counts that as a delivery. So that no number of stops uses up those
// that a message has, one that was delivered half as often as it may be is ended,
// and a wake-up that was delivered to nobody yet takes its place.
func (d *Delivery) PutBack() {
	if 2*d.NumDelivered() >= d.bound && d.renew() == nil {
		return
	}
	_ = d.msg.Nak()
}

// renewWithin bounds the time for it: the process is being stopped.
const renewWithin = 2 * time.Second

func (d *Delivery) renew() error {
	ctx, cancel := context.WithTimeout(context.Background(), renewWithin)
	defer cancel()
	w, subject := d.Wakeup(), d.Subject()
	if d.FromEvents() {
		var err error
		if subject, err = WakeupSubject(w.Tenant, w.Key); err != nil {
			return err // it is no event of ours
		}
	}
	if _, err := d.from.js.PublishMsg(ctx, &nats.Msg{Subject: subject, Header: wakeupHeaders(w)}); err != nil {
		return err
	}
	return d.Ack(ctx)
}

// Ack ends the message and waits until the server says so; a wake-up is then
// deleted. After an error the message comes again, or Ack may be repeated.
func (d *Delivery) Ack(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, ackWait)
	defer cancel()
	if err := d.msg.DoubleAck(ctx); err != nil && !errors.Is(err, jetstream.ErrMsgAlreadyAckd) {
		return fmt.Errorf("ack message %d of %s: %w: %w", d.Sequence(), d.from.name, ErrUnavailable, err)
	}
	if d.FromEvents() {
		return nil
	}
	// It is acked: if it stays, it only takes room until it has aged out.
	if err := d.from.handle.DeleteMsg(ctx, d.Sequence()); err != nil {
		d.from.log.Debug("delete wake-up", "sequence", d.Sequence(), "error", err)
	}
	return nil
}
