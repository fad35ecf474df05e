package streams

import "hash/maphash"

// seenGeneration is how many ids one generation of seen holds, in 5 to 10 MB.
const seenGeneration = 512 << 10

// seen remembers which ids this process has lately sent to EVENTS. A duplicate
// inside a batch refuses the whole batch without being named, so what was sent
// before goes alone, and a duplicate alone costs the server no sync.
//
// It knows ids by a hash, and forgets the older half when it is full. An id that
// shares the hash of another, or that was forgotten, costs time, not correctness.
// Only the committer's goroutine uses it.
type seen struct {
	limit     int
	seed      maphash.Seed
	now, past map[uint64]struct{}
}

func newSeen(limit int) *seen {
	return &seen{limit: limit, seed: maphash.MakeSeed(), now: map[uint64]struct{}{}}
}

// mark reports whether the entry's key was marked before, and marks it.
func (s *seen) mark(e *entry) bool {
	id := maphash.String(s.seed, e.key)
	if _, ok := s.now[id]; ok {
		return true
	}
	_, known := s.past[id]
	if len(s.now) >= s.limit {
		s.now, s.past = map[uint64]struct{}{}, s.now
	}
	s.now[id] = struct{}{}
	return known
}
