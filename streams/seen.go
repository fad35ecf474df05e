package streams

// seenGeneration is how many ids one generation of seen holds, about 5 MB.
const seenGeneration = 64 << 10

// seen remembers which ids this process has lately sent to EVENTS. A duplicate
// inside a batch refuses the whole batch without being named, so what was sent
// before goes alone, and a duplicate alone costs the server no sync.
//
// It forgets the older half when full: an id it has forgotten costs time, not
// correctness. Only the committer's goroutine uses it.
type seen struct {
	limit     int
	now, past map[string]struct{}
}

func newSeen(limit int) *seen {
	return &seen{limit: limit, now: map[string]struct{}{}}
}

// mark reports whether the entry's key was marked before, and marks it.
func (s *seen) mark(e *entry) bool {
	if _, ok := s.now[e.key]; ok {
		return true
	}
	_, known := s.past[e.key]
	if len(s.now) >= s.limit {
		s.now, s.past = map[string]struct{}{}, s.now
	}
	s.now[e.key] = struct{}{}
	return known
}
