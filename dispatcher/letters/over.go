package letters

import "tidings/streams/event"

// Over reports whether a letter of that generation has nothing to say any more,
// by the last state of its event: an operator discarded it, a later generation
// has ended without one, or its own did, since the process that wrote the letter
// died before the record and another one went on. Until then it is kept, since it
// may hold the only copy of the payload.
func Over(generation int, s event.State) bool {
	return s.Phase == event.PhaseSettled && s.Generation >= generation
}
