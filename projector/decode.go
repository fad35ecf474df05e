package projector

import (
	"encoding/json"
	"fmt"
	"strings"

	"tidings/store"
	"tidings/streams"
	"tidings/streams/event"
)

// item is a decoded entry on its way into the store.
type item struct {
	streams.Entry
	// apply writes the item. It returns what is suspicious about it, if
	// anything is.
	apply func(*store.Tx) (problem string, err error)
}

func newItem(e streams.Entry, apply func(*store.Tx) (string, error)) item {
	e.Header = nil // nothing more is read from it
	return item{Entry: e, apply: apply}
}

// decodeOutcome reads an entry of OUTCOMES. It never fails: what it does not
// understand is kept as it is.
func decodeOutcome(e streams.Entry) item {
	kind := event.Kind(e.Header.Get(streams.HeaderKind))
	place := store.Place{Sequence: e.Sequence, Time: e.Time}
	switch kind {
	case event.KindDuplicate:
		var d event.Duplicate
		if err := json.Unmarshal(e.Data, &d); err != nil || !event.Key(d.ID).Valid() || !d.Event.Key.Valid() {
			return unknown(e, kind, "this is not a duplicate, although its header says so")
		}
		return newItem(e, func(tx *store.Tx) (string, error) { return "", tx.Duplicate(place, d) })
	case event.KindReplay: // no event's: kept to be shown
		return newItem(e, func(tx *store.Tx) (string, error) {
			return "", tx.Unknown(place, "", kind, store.Unknown{Subject: e.Subject, Problem: "an entry of a replay plan", Data: e.Data})
		})
	case event.KindOperation:
		var op event.Operation
		if err := json.Unmarshal(e.Data, &op); err != nil || op.ID == "" || !op.Letter.Key.Valid() || op.Event != "" && !op.Event.Valid() {
			return unknown(e, kind, "this is not an operation, although its header says so")
		}
		return newItem(e, func(tx *store.Tx) (string, error) { return "", tx.Operation(place, op) })
	case event.KindOpened, event.KindClaimed, event.KindWaiting, event.KindSettled, event.KindDead, event.KindLate:
		r, parts, err := event.DecodeParts(e.Data)
		if err != nil {
			return unknown(e, kind, err.Error())
		}
		return newItem(e, func(tx *store.Tx) (string, error) { return applyRecord(tx, place, r, parts) })
	}
	return unknown(e, kind, "")
}

// unknown keeps an entry as it is. It is suspicious if there is a problem with
// it beyond being of a kind that this version does not know.
func unknown(e streams.Entry, kind event.Kind, problem string) item {
	kept := store.Unknown{Subject: e.Subject, Problem: problem, Data: e.Data}
	if problem == "" {
		kept.Problem = fmt.Sprintf("this version does not know the kind %q", kind)
	}
	return newItem(e, func(tx *store.Tx) (string, error) {
		place := store.Place{Sequence: e.Sequence, Time: e.Time}
		return problem, tx.Unknown(place, keyOf(e), kind, kept)
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

func applyRecord(tx *store.Tx, place store.Place, r event.Record, parts event.Parts) (problem string, err error) {
	before, err := tx.Row(r.Event.Key)
	if err != nil {
		return "", err
	}
	oldest := tx.Oldest()
	complete := oldest == 1 || oldest == 0 && place.Sequence == 1
	return discontinuity(before, place.Sequence, r, complete), tx.RecordParts(place, r, parts)
}

// discontinuity says how the record does not follow the one before it, if so.
// complete says that all entries since the first are in the store.
func discontinuity(before *store.Row, sequence uint64, r event.Record, complete bool) string {
	revision := 0
	switch {
	case before == nil && !complete: // older records may have aged out
		return ""
	case before == nil:
	case before.RecordSequence >= sequence: // seen before
		return ""
	default:
		revision = before.Revision
	}
	if r.State.Revision == revision+1 {
		return ""
	}
	return fmt.Sprintf("record %s of event %s has revision %d, the one before it has %d", r.ID, r.Event.Key, r.State.Revision, revision)
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
		return newItem(e, func(*store.Tx) (string, error) { return problem, nil })
	}
	return newItem(e, func(tx *store.Tx) (string, error) { return problem, tx.Letter(line) })
}

func unreadable(e streams.Entry, detail string) store.Letter {
	return store.Letter{
		Key: keyOf(e), Tenant: e.Header.Get(streams.HeaderTenant), Kind: event.LetterKind(e.Header.Get(streams.HeaderKind)),
		Cause: event.Cause(e.Header.Get(streams.HeaderCause)), Stage: event.Stage(e.Header.Get(streams.HeaderStage)),
		Detail: detail, At: e.Time, Size: int64(len(e.Data)), Sequence: e.Sequence,
	}
}
