package store

import (
	"bytes"

	"go.etcd.io/bbolt"
)

// Bounds on the work of one page. Only conditions that rarely meet come near
// them, and texts.
const (
	maxSteps = 10_000 // index keys looked at
	maxReads = 5_000  // values read
)

// span is the range of one index prefix, read from its end.
type span struct {
	cursor *bbolt.Cursor
	prefix []byte
}

// below returns the last suffix in the span that is less than bound, nil if
// there is none.
func (s span) below(bound []byte) []byte {
	k, _ := s.cursor.Seek(append(bytes.Clone(s.prefix), bound...))
	if k == nil {
		k, _ = s.cursor.Last()
	} else {
		k, _ = s.cursor.Prev()
	}
	if !bytes.HasPrefix(k, s.prefix) {
		return nil
	}
	return k[len(s.prefix):]
}

// join visits, newest first, the suffixes that all spans have in common, from
// below bound down to floor. It stops when visit returns false, which leaves
// that suffix for the next time, or when its steps are used up. It returns the
// bound at which to go on; nil means that there is nothing more. Each span
// leads in turn: whatever the others have beyond its suffix is jumped over.
func join(spans []span, bound, floor []byte, steps int, visit func(suffix []byte) (bool, error)) ([]byte, error) {
	agreed := 0 // so many spans in a row have the last suffix found
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
