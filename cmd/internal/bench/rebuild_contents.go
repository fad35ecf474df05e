package bench

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"sync/atomic"

	"tidings/store"
	"tidings/streams/event"
)

// contents are what a ledger must have when all lines are folded in.
type contents struct {
	Records    int                   `json:"records"` // lines, duplicates included
	Outcomes   map[event.Outcome]int `json:"outcomes"`
	Open       map[event.Phase]int   `json:"open"`
	Duplicates int                   `json:"duplicates"`
	Letters    int                   `json:"letters"`

	phase map[int]event.Phase // of events that have not ended
}

func newContents() *contents {
	return &contents{
		Outcomes: map[event.Outcome]int{}, Open: map[event.Phase]int{}, phase: map[int]event.Phase{},
	}
}

// events returns how many rows there are.
func (c *contents) events() int {
	n := 0
	for _, k := range c.Outcomes {
		n += k
	}
	for _, k := range c.Open {
		n += k
	}
	return n
}

// of passes lines on, and counts them.
func (c *contents) of(lines iter.Seq[line]) iter.Seq[line] {
	return func(yield func(line) bool) {
		for l := range lines {
			c.add(l)
			if !yield(l) {
				return
			}
		}
	}
}

func (c *contents) add(l line) {
	c.Records++
	if l.letter != nil {
		c.Letters++
	}
	if l.duplicate != nil {
		c.Duplicates++
		return
	}
	if before, open := c.phase[l.event]; open {
		c.Open[before]--
		delete(c.phase, l.event)
	}
	if s := l.record.State; s.Ended() {
		c.Outcomes[s.Outcome]++
	} else {
		c.phase[l.event] = s.Phase
		c.Open[s.Phase]++
	}
}

// check says what a ledger has that is not in the contents, or has not. It counts the
// entries that it has looked at.
func (c *contents) check(s *store.Store, checked *atomic.Int64) error {
	have, err := s.Counts()
	if err != nil {
		return err
	}
	entries, err := auditLength(s, checked)
	if err != nil {
		return err
	}
	var errs []error
	for what, n := range map[string][2]int{
		"entries in the audit": {entries, c.Records}, "duplicates": {have.Duplicates, c.Duplicates},
		"dead letters": {have.Letters, c.Letters}, "events": {have.Events(), c.events()},
	} {
		if n[0] != n[1] {
			errs = append(errs, fmt.Errorf("it has %d %s, and should have %d", n[0], what, n[1]))
		}
	}
	if !sameCounts(have.Outcomes, c.Outcomes) || !sameCounts(have.Open, c.Open) {
		errs = append(errs, fmt.Errorf("its events are %v and %v, and should be %v and %v", have.Outcomes, have.Open, c.Outcomes, c.Open))
	}
	if len(errs) > 0 {
		return fmt.Errorf("the ledger is not what the stream says: %w", errors.Join(errs...))
	}
	return nil
}

// sameCounts compares two lists of numbers, in which none is zero.
func sameCounts[K comparable](a, b map[K]int) bool {
	a, b = maps.Clone(a), maps.Clone(b)
	none := func(_ K, n int) bool { return n == 0 }
	maps.DeleteFunc(a, none)
	maps.DeleteFunc(b, none)
	return maps.Equal(a, b)
}

// auditLength counts the entries of the audit, of which none may be missing.
func auditLength(s *store.Store, checked *atomic.Int64) (int, error) {
	n := 0
	for {
		page, err := s.Audit(uint64(n), store.MaxLimit)
		if err != nil {
			return 0, err
		}
		for _, e := range page {
			if n++; e.Sequence != uint64(n) {
				return 0, fmt.Errorf("the entry after %d in the audit is %d", n-1, e.Sequence)
			}
		}
		if len(page) == 0 {
			return n, nil
		}
		checked.Store(int64(n))
	}
}
