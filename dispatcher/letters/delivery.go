package letters

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"tidings/streams"
	"tidings/streams/event"
)

// Change is what an operator changes about a dead letter.
type Change struct {
	// Data takes the place of the payload, or of the body of a delivery; nil: as it is.
	Data []byte
	// Set holds attributes of a delivery by name. Those of an event cannot be changed.
	Set map[string]string
}

// names returns what is changed, without the values.
func (c Change) names() []string {
	names := slices.Sorted(maps.Keys(c.Set))
	if c.Data != nil {
		names = append(names, "body")
	}
	return names
}

// Door is where deliveries come in. It reads those in dead letters as if they stood
// there again.
type Door interface {
	// Read returns the event that a delivery is with a change, and its key, if that
	// is known before it is stored, or a *[RefusedError].
	Read(l event.Letter, c Change) (event.Envelope, event.Key, error)
	// Admit takes it in, or returns a *[RefusedError] and keeps nothing. Repeated, it
	// is taken in once.
	Admit(ctx context.Context, l event.Letter, c Change) (Admitted, error)
}

// Admitted says what a delivery has become.
type Admitted struct {
	Key       event.Key
	Sequence  uint64 // in EVENTS
	Duplicate bool   // it was there before
}

// RefusedError says why a delivery cannot come in. Its letter stays.
type RefusedError struct {
	Cause  event.Cause
	Detail string // in words
}

// Error implements error.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("it is refused again (%s): %s", e.Cause, e.Detail)
}

// isDelivery reports whether a letter has no history.
func isDelivery(l event.Letter) bool { return l.Kind == event.LetterDelivery || l.State == nil }

// readmit has a delivery stand at the door again. What comes in is an event like any
// other: what was done is noted in the audit, and the letter is removed.
func (d *Desk) readmit(ctx context.Context, letter event.Letter, at uint64, w Word, c Change) (Requeued, error) {
	read, err := d.readable(ctx, letter, c)
	if err != nil {
		return Requeued{}, err
	}
	if begunBy(letter, w.Replay) {
		if done, err := d.goOn(ctx, letter, at, w); err != nil || done.Admitted {
			return done, err
		}
	}
	taken, at, err := d.take(ctx, letter, at, w, read)
	if err != nil {
		return Requeued{}, err
	}
	got, err := d.o.Door.Admit(ctx, letter, c)
	if err != nil {
		d.putBack(ctx, letter, at)
		return Requeued{}, err
	}
	op := d.operation(taken, at, event.OperationRequeued, w)
	op.Event, op.Sequence, op.Duplicate, op.Changed = got.Key, got.Sequence, got.Duplicate, c.names()
	sequence, err := d.finish(ctx, op)
	if err != nil {
		return Requeued{}, err
	}
	e := read.envelope
	ref := event.Ref{
		Key: got.Key, Tenant: e.Tenant, Source: e.Source, ID: e.ID, IDSource: e.IDSource, Type: e.Type,
		CorrelationID: e.CorrelationID, OccurredAt: e.OccurredAt, ReceivedAt: op.At, Sequence: got.Sequence, Digest: event.Digest(e.Data),
	}
	return Requeued{Event: ref, Sequence: sequence, Admitted: true, Duplicate: got.Duplicate}, nil
}

// reading is the event that a delivery would be.
type reading struct {
	envelope event.Envelope
	key      event.Key // empty where only its copy in EVENTS gives it one
	known    bool      // it is in the log already
}

// readable returns the event that a delivery would be, or a *[RefusedError].
func (d *Desk) readable(ctx context.Context, l event.Letter, c Change) (reading, error) {
	switch {
	case l.PayloadObject != nil && len(l.Data) == 0 && c.Data == nil:
		return reading{}, &RefusedError{event.CauseOversize, fmt.Sprintf("its body of %d bytes is too large for an event", l.PayloadObject.Size)}
	case l.LetterObject != nil && l.Delivery == nil:
		return reading{}, &RefusedError{l.Cause, "its headers are damaged"}
	}
	if d.o.Door == nil {
		return reading{}, &RefusedError{l.Cause, "deliveries are not taken in here"}
	}
	e, key, err := d.o.Door.Read(l, c)
	if err != nil || key == "" {
		return reading{envelope: e}, err
	}
	digest := event.Digest(e.Data)
	known, err := d.end(ctx, e.Tenant, key)
	switch {
	case err != nil:
		return reading{}, err
	case event.ConflictKey(key, digest) == l.Key, known.seq != 0 && known.ref.Digest != digest:
		return reading{}, &RefusedError{
			event.CauseIDConflict,
			fmt.Sprintf("the event %s has the same identity and another body: set an id of its own", key),
		}
	}
	return reading{envelope: e, key: key, known: known.seq != 0}, nil
}

// takenFor is how long nobody else does anything about a delivery that somebody has
// begun to do something about.
const takenFor = time.Minute

// take has one operator win a delivery, which has no history to decide that: its
// letter is put again with the name on it, on condition that it is the one that was
// looked at. as is what it is about to come in as, if it is. A name on it that is older
// than a minute was left behind by a crash.
func (d *Desk) take(ctx context.Context, l event.Letter, at uint64, w Word, as reading) (event.Letter, uint64, error) {
	now := d.o.Now().UTC()
	if l.Edit != nil && now.Sub(l.Edit.At) < takenFor && !begunBy(l, w.Replay) {
		return l, 0, &ConflictError{Key: l.Key, Standing: fmt.Sprintf(
			"%s has begun to do something about it at %s", l.Edit.Operator, l.Edit.At.Format(time.RFC3339))}
	}
	if err := d.finishLeft(ctx, l, at); err != nil {
		return l, 0, err
	}
	l.Edit = &event.LetterEdit{Operator: w.Operator, Reason: w.Reason, Replay: w.Replay, At: now, Tenant: as.envelope.Tenant, Event: as.key}
	at, err := d.replace(ctx, l, at)
	return l, at, err
}

// begunBy reports whether a replay plan has begun to do something about a delivery. It
// carries out one letter after the other in one process, so it was cut off.
func begunBy(l event.Letter, replay string) bool {
	return replay != "" && l.Edit != nil && l.Edit.Replay == replay
}

// goOn notes what a replay plan had done before it was cut off, if the delivery came in.
func (d *Desk) goOn(ctx context.Context, l event.Letter, at uint64, w Word) (Requeued, error) {
	op, came, err := d.left(ctx, l, at, w)
	if err != nil || !came {
		return Requeued{}, err
	}
	sequence, err := d.finish(ctx, op)
	return Requeued{Event: event.Ref{Tenant: l.Edit.Tenant, Key: op.Event, Sequence: op.Sequence}, Sequence: sequence, Admitted: true, Already: true}, err
}

// finishLeft notes what a process that died had done: the delivery came in as an event
// that has a history by now, and that was not in the audit. Whoever finds it gets a
// *[ConflictError]. Noted twice, it counts once.
func (d *Desk) finishLeft(ctx context.Context, l event.Letter, at uint64) error {
	if l.Edit == nil {
		return nil
	}
	op, came, err := d.left(ctx, l, at, Word{Operator: l.Edit.Operator, Reason: l.Edit.Reason, Replay: l.Edit.Replay})
	if err != nil || !came {
		return err
	}
	if _, err := d.finish(ctx, op); err != nil {
		return err
	}
	return &ConflictError{Key: l.Key, Standing: fmt.Sprintf(
		"%s had it taken in as event %s at %s, and that is noted now", l.Edit.Operator, l.Edit.Event, l.Edit.At.Format(time.RFC3339))}
}

// left returns the entry of what was done about a delivery by whose name is on it, and
// whether it was: the event that it was to become has a history.
func (d *Desk) left(ctx context.Context, l event.Letter, at uint64, w Word) (op event.Operation, came bool, err error) {
	if l.Edit.Event == "" {
		return op, false, nil
	}
	e, err := d.end(ctx, l.Edit.Tenant, l.Edit.Event)
	if err != nil || e.seq == 0 {
		return op, false, err
	}
	op = d.operation(l, at, event.OperationRequeued, w)
	op.Event, op.Sequence = l.Edit.Event, e.ref.Sequence
	return op, true, nil
}

// putBack has a letter as it was before something was begun about it that came to
// nothing. Where it cannot, time does.
func (d *Desk) putBack(ctx context.Context, l event.Letter, at uint64) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), clearWithin)
	defer cancel()
	if _, err := d.replace(ctx, l, at); err != nil {
		d.o.Logger.Warn("a dead letter says that something is done about it, although it came to nothing", "key", l.Key, "error", err)
	}
}

// operation is the audit entry of what is done about a letter with a name on it. Of one
// name it is the same entry, whoever writes it.
func (d *Desk) operation(l event.Letter, at uint64, action event.OperationAction, w Word) event.Operation {
	return event.Operation{
		ID: string(event.NewKey("operation", string(l.Key), l.Edit.At.Format(time.RFC3339Nano))), Schema: event.Schema, Kind: event.KindOperation, At: d.o.Now().UTC(), Tenant: l.Tenant,
		Action: action, Operator: w.Operator, Reason: w.Reason, Replay: w.Replay,
		Letter: event.OperationLetter{Key: l.Key, Sequence: at, Cause: l.Cause},
	}
}

// finish notes an operation, and removes the letter that it is about.
func (d *Desk) finish(ctx context.Context, op event.Operation) (uint64, error) {
	sequence, err := d.o.Outcomes.AppendOperation(ctx, op)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, clearWithin)
	defer cancel()
	if err := d.o.Letters.Remove(ctx, op.Letter.Sequence); err != nil {
		d.o.Logger.Warn("a dead letter is over, and not removed yet: the steward does it", "key", op.Letter.Key, "error", err)
	}
	return sequence, nil
}

// discardDelivery is discard of what has no history.
func (d *Desk) discardDelivery(ctx context.Context, l event.Letter, at uint64, w Word) (Discarded, error) {
	taken, at, err := d.take(ctx, l, at, w, reading{})
	if err != nil {
		return Discarded{}, err
	}
	sequence, err := d.finish(ctx, d.operation(taken, at, event.OperationDiscarded, w))
	if errors.Is(err, streams.ErrFull) { // nothing was done
		d.putBack(ctx, l, at)
	}
	if err != nil {
		return Discarded{}, err
	}
	return Discarded{Key: l.Key, Tenant: l.Tenant, Cause: l.Cause, Sequence: sequence}, nil
}

// previewDelivery says what readmit would do.
func (d *Desk) previewDelivery(ctx context.Context, l event.Letter, c Change) (Preview, error) {
	read, err := d.readable(ctx, l, c)
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		return Preview{Messages: []PreviewMessage{}, Problem: refused.Error()}, nil
	}
	if err != nil {
		return Preview{}, err
	}
	if read.known {
		return Preview{Messages: []PreviewMessage{}, Known: read.key}, nil
	}
	return d.foresee(ctx, event.Ref{Key: read.key, Tenant: read.envelope.Tenant}, read.envelope, event.State{}, event.State{})
}
