package projector

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"tidings/store"
	"tidings/streams"
	"tidings/streams/event"
)

// item is a decoded entry on its way into the store.
type item struct {
	streams.Entry
	tenant string    // as its header says, encoded
	key    event.Key // that it says it is about, if any
	kind   event.Kind
	// apply writes the item, where that is how the stream stands. It returns what is
	// suspicious about it, if anything is, and an [unfoldable] if it cannot be folded.
	apply func(tx *store.Tx, info streams.StreamInfo) (problem string, err error)
}

func newItem(e streams.Entry, apply func(*store.Tx, streams.StreamInfo) (string, error)) item {
	i := item{
		Entry: e, apply: apply, key: keyOf(e),
		tenant: e.Header.Get(streams.HeaderTenant), kind: event.Kind(e.Header.Get(streams.HeaderKind)),
	}
	i.Header = nil // nothing more is read from it
	return i
}

// skipped returns the item that keeps the entry as it is, by an operator's word. What
// is kept follows from that and the entry alone, whenever it is folded.
func (i item) skipped(g streams.Gap) item {
	kept := store.Unknown{Subject: i.Subject, Problem: "this cannot be folded, and is skipped by the word of " + g.Accepted, Data: i.Data}
	i.apply = func(tx *store.Tx, _ streams.StreamInfo) (string, error) {
		return "", tx.Unknown(store.Place{Sequence: i.Sequence, Time: i.Time}, i.key, i.kind, kept)
	}
	return i
}

// decodeOutcome reads an entry of OUTCOMES. It never fails: what a later version
// wrote is kept as it is, and what cannot be read says so when it is applied.
func decodeOutcome(e streams.Entry) item {
	kind := event.Kind(e.Header.Get(streams.HeaderKind))
	place := store.Place{Sequence: e.Sequence, Time: e.Time}
	switch kind {
	case event.KindDuplicate:
		var d event.Duplicate
		if err := json.Unmarshal(e.Data, &d); err != nil || !event.Key(d.ID).Valid() || !d.Event.Key.Valid() {
			return refused(e, "this is not a duplicate, although its header says so")
		}
		return newItem(e, func(tx *store.Tx, _ streams.StreamInfo) (string, error) { return "", tx.Duplicate(place, d) })
	case event.KindReplay: // no event's: kept to be shown
		var r event.Replay
		if err := json.Unmarshal(e.Data, &r); err != nil || r.ID == "" {
			return refused(e, "this is not of a replay plan, although its header says so")
		}
		return newItem(e, func(tx *store.Tx, _ streams.StreamInfo) (string, error) { return "", tx.Replay(place, r) })
	case event.KindSkip:
		var skip event.Skip
		if err := json.Unmarshal(e.Data, &skip); err != nil || skip.ID == "" || skip.Event != "" && !skip.Event.Valid() {
			return refused(e, "this is not an operator's word to skip an entry, although its header says so")
		}
		return newItem(e, func(tx *store.Tx, _ streams.StreamInfo) (string, error) { return "", tx.Skip(place, skip) })
	case event.KindOperation:
		var op event.Operation
		if err := json.Unmarshal(e.Data, &op); err != nil || op.ID == "" || !op.Letter.Key.Valid() || op.Event != "" && !op.Event.Valid() {
			return refused(e, "this is not an operation, although its header says so")
		}
		return newItem(e, func(tx *store.Tx, _ streams.StreamInfo) (string, error) { return "", tx.Operation(place, op) })
	case event.KindOpened, event.KindClaimed, event.KindWaiting, event.KindSettled, event.KindDead, event.KindLate:
		return decodeRecord(e, kind, place)
	}
	return unknown(e, kind)
}

func decodeRecord(e streams.Entry, kind event.Kind, place store.Place) item {
	r, parts, err := event.DecodeParts(e.Data)
	switch {
	case err != nil:
		return refused(e, err.Error())
	case !strings.HasSuffix(e.Subject, "."+string(r.Event.Key)):
		return refused(e, fmt.Sprintf("record %s of event %s is under the subject %s", r.ID, r.Event.Key, e.Subject))
	case r.Kind != kind:
		return refused(e, fmt.Sprintf("record %s is of the kind %q, and its header says %q", r.ID, r.Kind, kind))
	}
	prepared, err := store.Prepare(place, r, parts)
	if err != nil {
		return refused(e, err.Error())
	}
	restored := slices.ContainsFunc(r.Facts, func(f event.Fact) bool { _, ok := f.(event.Restored); return ok })
	link := link{key: r.Event.Key, id: r.ID, revision: r.State.Revision, sequence: e.Sequence, restored: restored}
	return newItem(e, func(tx *store.Tx, info streams.StreamInfo) (string, error) {
		if err := link.follows(tx, info); err != nil {
			return "", err
		}
		return "", tx.Prepared(prepared)
	})
}

// unfoldable is why an entry cannot be folded, although it is of a kind that this
// version knows.
type unfoldable struct{ problem string }

// Error implements error.
func (u *unfoldable) Error() string { return u.problem }

// refused is an entry that cannot be folded.
func refused(e streams.Entry, problem string) item {
	return newItem(e, func(*store.Tx, streams.StreamInfo) (string, error) { return "", &unfoldable{problem} })
}

// unknown keeps an entry of a later version as it is.
func unknown(e streams.Entry, kind event.Kind) item {
	kept := store.Unknown{Subject: e.Subject, Problem: fmt.Sprintf("this version does not know the kind %q", kind), Data: e.Data}
	key := keyOf(e)
	return newItem(e, func(tx *store.Tx, _ streams.StreamInfo) (string, error) {
		return "", tx.Unknown(store.Place{Sequence: e.Sequence, Time: e.Time}, key, kind, kept)
	})
}

// keyOf returns the key that an entry says it is about, empty if none.
func keyOf(e streams.Entry) event.Key {
	for _, text := range []string{e.Header.Get(streams.HeaderKey), e.Subject[strings.LastIndexByte(e.Subject, '.')+1:]} {
		if key := event.Key(text); key.Valid() {
			return key
		}
	}
	return ""
}

// link is by what a record is known to follow the one before it.
type link struct {
	key      event.Key
	id       string // of the record
	revision int
	sequence uint64
	restored bool // it says itself that others are lost
}

// follows returns what is wrong if the record does not follow the one before it.
func (l link) follows(tx *store.Tx, info streams.StreamInfo) error {
	row, err := tx.Row(l.key)
	if err != nil {
		return err
	}
	var before store.Row
	if row != nil {
		before = *row
	}
	if before.RecordSequence >= l.sequence || l.revision == before.Revision+1 {
		return nil
	}
	known, err := l.explained(tx, info, before)
	if err != nil || known {
		return err
	}
	return &unfoldable{fmt.Sprintf("record %s of event %s has revision %d, the one before it has %d", l.id, l.key, l.revision, before.Revision)}
}

// explained reports whether it is known why records are missing between two: they may
// have aged out, the second says so itself, an operator passed over some, or they are
// there and a later version wrote them.
func (l link) explained(tx *store.Tx, info streams.StreamInfo, before store.Row) (bool, error) {
	switch {
	case l.revision <= before.Revision:
		return false, nil
	case info.First > before.RecordSequence+1, l.restored:
		return true, nil
	case slices.ContainsFunc(info.Gaps, func(g streams.Gap) bool {
		return !g.Skipped && g.To > before.RecordSequence && g.From < l.sequence
	}):
		return true, nil
	}
	return tx.UnknownAfter(l.key, before.RecordSequence)
}

// decodeLetter reads an entry of DEADLETTERS. The payload is not kept. A letter
// that cannot be read is listed all the same.
func decodeLetter(e streams.Entry) item {
	var l event.Letter
	line := store.Letter{}
	problem := ""
	if err := json.Unmarshal(e.Data, &l); err != nil {
		problem = fmt.Sprintf("this letter cannot be read: %v", err)
		line = unreadable(e, problem)
	} else {
		line = store.NewLetter(e.Sequence, l)
	}
	if !line.Key.Valid() {
		problem = fmt.Sprintf("a letter under subject %s has no key and is not listed", e.Subject)
		return newItem(e, func(*store.Tx, streams.StreamInfo) (string, error) { return problem, nil })
	}
	return newItem(e, func(tx *store.Tx, _ streams.StreamInfo) (string, error) { return problem, tx.Letter(line) })
}

func unreadable(e streams.Entry, detail string) store.Letter {
	return store.Letter{
		Key: keyOf(e), Tenant: e.Header.Get(streams.HeaderTenant), Kind: event.LetterKind(e.Header.Get(streams.HeaderKind)),
		Cause: event.Cause(e.Header.Get(streams.HeaderCause)), Stage: event.Stage(e.Header.Get(streams.HeaderStage)),
		Detail: detail, At: e.Time, Size: int64(len(e.Data)), Sequence: e.Sequence,
	}
}
