package streams

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tidings/streams/event"
)

// Outcomes is the stream of what was decided and done about each event. An
// event's history is one subject.
type Outcomes struct {
	stream
	commits appender
	room    room
	tally   *tally // of duplicates
}

// Position is where an entry is stored.
type Position struct {
	Sequence uint64
	Time     time.Time // the stream's; zero if only the answer to an append is known
}

// StoredRecord is a record as it is stored.
type StoredRecord struct {
	Record event.Record
	Position
}

// Append stores the next record of an event's history, expecting that the last
// one is at sequence after (0: there is none). Of several that expect the same,
// one wins; the others get a *[ConflictError].
//
// An append whose fate is unknown is repeated, with the same record, until it
// is stored, conflicts or ctx is done; then the error wraps [ErrUnknown]. A
// conflict with the very same record is success. Absence is never concluded
// from a read.
//
// It returns [ErrFull] for a first record that takes an event in hand or sets it
// aside, and for a requeue, once 90 % of the stream are used, so that the rest is for results, and for everything when it is full; [ErrClosed]
// after Run has ended; a *[TooLargeError]; [ErrForeign] if what is in its place
// is no record; and [ErrUnavailable] if the log could
// not be reached at all until ctx was done.
func (o *Outcomes) Append(ctx context.Context, r event.Record, after uint64) (Position, error) {
	if startsWork(r) && !o.room.left(ctx, &o.stream) {
		return Position{}, fmt.Errorf("append record of event %s: %w", r.Event.Key, o.reserved())
	}
	msg, err := recordMessage(r, after)
	if err != nil {
		return Position{}, fmt.Errorf("append record: %w", err)
	}
	p, err := o.appendUntil(ctx, msg, r, after)
	if err != nil {
		return Position{}, fmt.Errorf("append record of event %s: %w", r.Event.Key, err)
	}
	return p, nil
}

// startsWork reports whether results follow from a record that need room too.
func startsWork(r event.Record) bool {
	return (r.Kind == event.KindClaimed || r.Kind == event.KindWaiting) && r.State.Revision == 1 ||
		slices.ContainsFunc(r.Facts, func(f event.Fact) bool { _, ok := f.(event.Requeued); return ok })
}

func recordMessage(r event.Record, after uint64) (*nats.Msg, error) {
	subject, err := OutcomeSubject(r.Event.Tenant, r.Event.Key)
	if err != nil {
		return nil, err
	}
	data, err := event.EncodeRecord(r)
	if err != nil {
		return nil, err
	}
	h := recordHeaders(r)
	h.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(after, 10))
	return &nats.Msg{Subject: subject, Header: h, Data: data}, nil
}

func (o *Outcomes) appendUntil(ctx context.Context, msg *nats.Msg, r event.Record, after uint64) (Position, error) {
	var position Position
	err := o.repeat(ctx, func(maybeStored bool) error {
		e := newEntry(msg, msg.Subject)
		e.after, e.conditional = after, true
		err := o.commits.append(ctx, e)
		switch {
		case errors.Is(err, errConflict):
			position, err = o.resolve(ctx, msg.Subject, r, after, maybeStored)
		case err == nil: // else the answer may come yet
			position = Position{Sequence: e.sequence}
		}
		return err
	})
	return position, err
}

// resolve finds out what a conflict means. It asks the leader, because a stale
// answer could hide the record itself.
func (o *Outcomes) resolve(ctx context.Context, subject string, r event.Record, after uint64, maybeStored bool) (Position, error) {
	last, err := o.leaderLast(ctx, subject)
	switch {
	case err != nil && !errors.Is(err, ErrNotFound):
		return Position{}, err
	case last.Sequence == after:
		// A replicated stream refuses while another append to the subject is
		// in process, which may be an earlier try of this one.
		return Position{}, fmt.Errorf("%w: another append to the event is in process", ErrUnavailable)
	case last.Sequence == 0:
		return Position{}, &ConflictError{Key: r.Event.Key, After: after}
	case getHeader(last.Header, HeaderRecordID) == r.ID:
		return Position{Sequence: last.Sequence, Time: last.Time}, nil
	}
	conflict := &ConflictError{Key: r.Event.Key, After: after}
	if conflict.Last, err = storedRecord(last); err != nil {
		return Position{}, err
	}
	if maybeStored {
		conflict.Landed, err = o.landed(ctx, subject, r.ID, after)
	}
	if err != nil {
		return Position{}, err
	}
	return Position{}, conflict
}

// landed returns where a record of that id is, 0 if nowhere: it can only be
// the first of its subject after the sequence it expected to be the last.
func (o *Outcomes) landed(ctx context.Context, subject, id string, after uint64) (uint64, error) {
	next, err := o.next(ctx, subject, after)
	switch {
	case errors.Is(err, ErrNotFound):
		return 0, nil
	case err != nil:
		return 0, err
	case getHeader(next.Header, HeaderRecordID) == id:
		return next.Sequence, nil
	}
	return 0, nil
}

// Next returns the first record of an event after a sequence, [ErrNotFound]
// after its last one, or [ErrForeign] if what is there is no record. Asked again
// and again it walks a history, which on a replicated stream may lag behind.
func (o *Outcomes) Next(ctx context.Context, tenant string, key event.Key, after uint64) (StoredRecord, error) {
	subject, err := OutcomeSubject(tenant, key)
	if err != nil {
		return StoredRecord{}, fmt.Errorf("next record: %w", err)
	}
	e, err := o.next(ctx, subject, after)
	if err != nil {
		return StoredRecord{}, fmt.Errorf("next record of event %s after %d: %w", key, after, err)
	}
	return storedRecord(e)
}

// leaderLast returns the last entry of a subject as the leader has it, where
// a direct get might be answered by a replica that lags behind.
func (o *Outcomes) leaderLast(ctx context.Context, subject string) (Entry, error) {
	request, err := json.Marshal(map[string]string{"last_by_subj": subject})
	if err != nil {
		return Entry{}, err
	}
	ctx, cancel := withAckWait(ctx, o.nc)
	defer cancel()
	answer, err := o.nc.RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET."+o.name, request)
	if err != nil {
		return Entry{}, fmt.Errorf("last entry of %s: %w: %w", subject, ErrUnavailable, err)
	}
	return decodeGet(answer.Data)
}

func decodeGet(data []byte) (Entry, error) {
	var answer struct {
		Error   *jetstream.APIError `json:"error"`
		Message *struct {
			Subject  string    `json:"subject"`
			Sequence uint64    `json:"seq"`
			Header   []byte    `json:"hdrs"`
			Data     []byte    `json:"data"`
			Time     time.Time `json:"time"`
		} `json:"message"`
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return Entry{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	switch m := answer.Message; {
	case answer.Error != nil && answer.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return Entry{}, ErrNotFound
	case answer.Error != nil:
		return Entry{}, fmt.Errorf("%w: %w", ErrUnavailable, answer.Error)
	case m == nil:
		return Entry{}, fmt.Errorf("%w: empty answer", ErrUnavailable)
	default:
		h, err := decodeHeader(m.Header)
		if err != nil {
			return Entry{}, fmt.Errorf("headers of entry %d: %w: %w", m.Sequence, ErrForeign, err)
		}
		return Entry{Sequence: m.Sequence, Time: storedAt(h, m.Time), Subject: m.Subject, Header: h, Data: m.Data}, nil
	}
}

// decodeHeader allows for none, which the client does not.
func decodeHeader(raw []byte) (nats.Header, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	return nats.DecodeHeadersMsg(raw)
}

// Last returns an event's last record, [ErrNotFound], or [ErrForeign] if what is
// there is no record, or one of a kind that a later version wrote. On a replicated
// stream the answer may lag behind; an append on top of it then conflicts.
func (o *Outcomes) Last(ctx context.Context, tenant string, key event.Key) (StoredRecord, error) {
	subject, err := OutcomeSubject(tenant, key)
	if err != nil {
		return StoredRecord{}, fmt.Errorf("last record: %w", err)
	}
	e, err := o.last(ctx, subject)
	if err != nil {
		return StoredRecord{}, err
	}
	return storedRecord(e)
}

func storedRecord(e Entry) (StoredRecord, error) {
	r, err := event.DecodeRecord(e.Data)
	if err == nil && !r.Kind.OfRecord() {
		// What it says about the event, and what follows, a later version knows.
		err = fmt.Errorf("record %s is of the kind %q, which this version does not know", r.ID, r.Kind)
	}
	if err != nil {
		return StoredRecord{}, fmt.Errorf("entry %d of %s: %w: %w", e.Sequence, OutcomesStream, ErrForeign, err)
	}
	return StoredRecord{Record: r, Position: Position{Sequence: e.Sequence, Time: e.Time}}, nil
}
