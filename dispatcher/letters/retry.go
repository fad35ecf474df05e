package letters

import (
	"context"
	"errors"
	"fmt"

	"tidings/streams"
	"tidings/streams/event"
)

// Message names one message of an event.
type Message struct {
	Tenant string
	Key    event.Key // of the event
	ID     string
}

// ErrMayRepeat means that a message may have been received already, so that it is
// tried again only if that is accepted.
var ErrMayRepeat = errors.New("it may have been received already")

// ErrNoMessage means that the event has no such message.
var ErrNoMessage = errors.New("the event has no such message")

// Retry tries one message again that failed or is uncertain, of an event that has
// ended: it opens the next generation of the event for that message alone, and needs
// a reason. The others stay as they ended.
//
// mayRepeat says that it is accepted that the recipient gets an uncertain message
// twice; otherwise the error is [ErrMayRepeat]. It is a *[ConflictError] where there
// is nothing to be tried again, or not now: the event has not ended, the message was
// delivered, its recipient is suppressed, or the configuration does not produce it
// any more; [ErrNoMessage]; [streams.ErrNotFound] where the event is beyond the
// horizon or its payload is gone; and as for [Desk.Requeue].
func (d *Desk) Retry(ctx context.Context, m Message, w Word, mayRepeat bool) (Requeued, error) {
	if err := w.checkReason(); err != nil {
		return Requeued{}, err
	}
	rec, seq, err := d.extend(ctx, m.Tenant, m.Key, func(e end) (event.Ref, []event.Fact, error) {
		fact := event.Requeued{Generation: e.state.Generation + 1, Operator: w.Operator, Reason: w.Reason, Messages: []string{m.ID}}
		return e.ref, []event.Fact{fact}, d.mayRetry(ctx, m, e, fact, mayRepeat)
	})
	if err != nil {
		return Requeued{}, fmt.Errorf("retry message %s of event %s: %w", m.ID, m.Key, err)
	}
	d.wake(ctx, rec.Event)
	return Requeued{Event: rec.Event, Generation: rec.State.Generation, Sequence: seq}, nil
}

// mayRetry says why a message cannot be tried again at the end of a history, if so.
func (d *Desk) mayRetry(ctx context.Context, m Message, e end, fact event.Requeued, mayRepeat bool) error {
	if e.seq == 0 {
		return fmt.Errorf("its history is beyond the horizon: %w", streams.ErrNotFound)
	}
	message := e.state.Message(m.ID)
	why := ""
	switch {
	case message == nil:
		return ErrNoMessage
	case message.State == event.MessageDelivered:
		why = "the message was delivered"
	case message.State == event.MessageSuppressed:
		why = "the message was suppressed: " + message.Reason
	case !e.state.Ended():
		why = "the event has not ended"
	case othersOpen(e.state, m.ID):
		why = "other messages were not tried to their end: requeue the event, which tries all of them"
	default:
		var err error
		if why, err = d.wouldNot(ctx, m.ID, e, fact); err != nil {
			return err
		}
	}
	switch {
	case why != "":
		return d.conflict(ctx, m.Tenant, m.Key, why)
	case message.State == event.MessageUncertain && !mayRepeat:
		return ErrMayRepeat
	}
	return nil
}

// othersOpen reports whether a generation for one message would try others too.
func othersOpen(s event.State, id string) bool {
	for _, i := range s.Open() {
		if s.Messages[i].ID != id {
			return true
		}
	}
	return false
}

// wouldNot says why a message would not be sent after the fact, or "".
func (d *Desk) wouldNot(ctx context.Context, id string, e end, fact event.Requeued) (string, error) {
	opened := e.state.Apply("", d.o.Now(), fact)
	stored, err := d.payloads().Of(ctx, e.ref, opened)
	if err != nil {
		return "", err
	}
	p, err := d.foresee(ctx, e.ref, stored.Envelope, e.state, opened)
	switch {
	case err != nil:
		return "", err
	case p.Problem != "":
		return p.Problem, nil
	}
	for _, m := range p.Messages {
		if m.ID == id && m.Would != WouldSend {
			return fmt.Sprintf("the message would not be sent (%s): %s", m.Would, m.Why), nil
		}
	}
	return "", nil
}
