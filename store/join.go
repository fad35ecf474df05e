package store

import (
	"bytes"

	"go.etcd.io/bbolt"
)

// Bounds on the work of one page. Only conditions that rarely meet come near
// them, and texts.
const (
	maxSteps = 10_000 // index keys looked at
	maxReads = 4_000  // values read
	// misfit is what counts as values read where one was decoded and does not fit.
	misfit = 5
)

// span is a set of places, read from its end.
type span interface {
	// below returns the last place that is less than bound, nil if there is none.
	// Bounds only get less.
	below(bound []byte) []byte
}

// keyRange is the places behind one prefix.
type keyRange struct {
	cursor *bbolt.Cursor
	prefix []byte
	at     []byte // where the cursor is
}

func (r *keyRange) below(bound []byte) []byte {
	var k []byte
	if r.at != nil && bytes.Equal(r.at, bound) {
		k, _ = r.cursor.Prev()
	} else if k, _ = r.cursor.Seek(append(bytes.Clone(r.prefix), bound...)); k == nil {
		k, _ = r.cursor.Last()
	} else {
		k, _ = r.cursor.Prev()
	}
	if r.at = nil; !bytes.HasPrefix(k, r.prefix) || len(k) == 0 {
		return nil
	}
	r.at = k[len(r.prefix):]
	return r.at
}

// keyRanges is the places of several ranges.
type keyRanges []openRange

type openRange struct {
	keyRange
	read bool
	last []byte // what below returned last
}

func (u keyRanges) below(bound []byte) []byte {
	var last []byte
	for i := range u {
		r := &u[i]
		if !r.read || r.last != nil && bytes.Compare(r.last, bound) >= 0 {
			r.last, r.read = r.below(bound), true
		}
		if bytes.Compare(r.last, last) > 0 {
			last = r.last
		}
	}
	return last
}

// join visits, newest first, the places that all spans have in common, from
// below bound down to floor. It stops when visit returns false, which leaves
// that place for the next time, or when its steps are used up. It returns the
// bound at which to go on; nil means that there is nothing more. Each span
// leads in turn: whatever the others have beyond its place is jumped over.
func join(spans []span, bound, floor []byte, steps int, visit func(place []byte) (bool, error)) ([]byte, error) {
	agreed := 0 // so many spans in a row have the last place found
	for step := range steps {
		found := spans[step%len(spans)].below(bound)
		if found == nil || bytes.Compare(found, floor) < 0 {
			return nil, nil
		}
		found = bytes.Clone(found)
		if at := next(found); agreed == 0 || !bytes.Equal(at, bound) {
			bound, agreed = at, 0
		}
		if agreed++; agreed < len(spans) {
			continue
		}
		more, err := visit(found)
		if err != nil || !more {
			return bound, err
		}
		bound, agreed = found, 0
	}
	return bound, nil
}

// next returns the least key that is greater than k.
func next(k []byte) []byte { return append(bytes.Clone(k), 0) }
