package streams

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tidings/streams/event"
)

const replayPrefix = "plans."

// replaySubject is where the entries of a replay plan are.
func replaySubject(id string) (string, error) { return keySubject(replayPrefix, event.Key(id)) }

// AppendReplay stores the next entry of a replay plan, expecting that its last one
// is at sequence after (0: there is none), and returns its own. Of several that
// expect the same one wins; the others get [ErrChanged]. Other errors are those of
// Append.
func (o *Outcomes) AppendReplay(ctx context.Context, r event.Replay, after uint64) (sequence uint64, err error) {
	subject, err := replaySubject(r.Replay)
	if err != nil {
		return 0, fmt.Errorf("append to replay: %w", err)
	}
	data, err := encodeJSON(r)
	if err != nil {
		return 0, fmt.Errorf("append to replay %s: %w", r.Replay, err)
	}
	h := nats.Header{}
	setHeader(h, HeaderKind, string(r.Kind))
	setHeader(h, HeaderRecordID, r.ID)
	h.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(after, 10))
	msg := &nats.Msg{Subject: subject, Header: h, Data: data}
	err = o.repeat(ctx, func(bool) error {
		e := newEntry(msg, subject)
		e.after, e.conditional = after, true
		err := o.commits.append(ctx, e)
		if sequence = e.sequence; errors.Is(err, errConflict) {
			sequence, err = o.landedReplay(ctx, subject, r.ID, after)
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("append to replay %s: %w", r.Replay, err)
	}
	return sequence, nil
}

// landedReplay finds out whether a conflict is with the very same entry, from an
// attempt whose answer was lost.
func (o *Outcomes) landedReplay(ctx context.Context, subject, id string, after uint64) (uint64, error) {
	next, err := o.next(ctx, subject, after)
	switch {
	case errors.Is(err, ErrNotFound):
		return 0, fmt.Errorf("%w: another append to the plan is in process", ErrUnavailable)
	case err != nil:
		return 0, err
	case getHeader(next.Header, HeaderRecordID) == id:
		return next.Sequence, nil
	}
	return 0, fmt.Errorf("the replay: %w", ErrChanged)
}

// Replay returns the entries of a replay plan in order, and the sequence of the
// last one, or [ErrNotFound].
func (o *Outcomes) Replay(ctx context.Context, id string) (entries []event.Replay, last uint64, err error) {
	subject, err := replaySubject(id)
	if err != nil {
		return nil, 0, fmt.Errorf("replay %q: %w", id, ErrNotFound)
	}
	for {
		e, err := o.next(ctx, subject, last)
		switch {
		case errors.Is(err, ErrNotFound) && len(entries) > 0:
			return entries, last, nil
		case err != nil:
			return nil, 0, fmt.Errorf("replay %s: %w", id, err)
		}
		var r event.Replay
		if err := json.Unmarshal(e.Data, &r); err != nil {
			return nil, 0, fmt.Errorf("replay %s: entry %d: %w: %w", id, e.Sequence, ErrForeign, err)
		}
		entries, last = append(entries, r), e.Sequence
	}
}

// Replays returns the ids of the replay plans that the log remembers, in the order
// of their names.
func (o *Outcomes) Replays(ctx context.Context) ([]string, error) {
	ctx, cancel := withAckWait(ctx, o.nc)
	defer cancel()
	info, err := o.handle.Info(ctx, jetstream.WithSubjectFilter(replayPrefix+"*"))
	if err != nil {
		return nil, fmt.Errorf("replays: %w: %w", ErrUnavailable, err)
	}
	var ids []string
	for _, subject := range slices.Sorted(maps.Keys(info.State.Subjects)) {
		ids = append(ids, strings.TrimPrefix(subject, replayPrefix))
	}
	return ids, nil
}
