package store

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"go.etcd.io/bbolt"

	"tidings/streams/event"
)

// Counts are the numbers of what the ledger holds.
type Counts struct {
	Outcomes map[event.Outcome]int `json:"outcomes"` // ended events; every outcome is there
	Open     map[event.Phase]int   `json:"open"`     // events that have not ended; every such phase is there
	// Tests are the tests of operators, ended or not: they count nowhere above.
	Tests      int `json:"tests"`
	Duplicates int `json:"duplicates"`
	Letters    int `json:"dead_letters"`
}

// Events returns the number of rows.
func (c Counts) Events() int {
	n := c.Tests
	for _, k := range c.Outcomes {
		n += k
	}
	for _, k := range c.Open {
		n += k
	}
	return n
}

// Counts returns the numbers of what the ledger holds. It reads counters, not rows.
func (s *Store) Counts() (Counts, error) {
	c := Counts{Outcomes: map[event.Outcome]int{}, Open: map[event.Phase]int{}}
	err := s.view(func(tx *bbolt.Tx) error {
		b := tx.Bucket(bucketCounts)
		for _, o := range event.Outcomes() {
			c.Outcomes[o] = countIn(b.Get([]byte(countOutcome + string(o))))
		}
		for _, p := range []event.Phase{event.PhaseOpen, event.PhaseClaimed, event.PhaseWaiting} {
			c.Open[p] = countIn(b.Get([]byte(countPhase + string(p))))
		}
		c.Tests = countIn(b.Get([]byte(countTests)))
		c.Duplicates = countIn(b.Get([]byte(countDuplicates)))
		c.Letters = countIn(b.Get([]byte(countLetters)))
		return nil
	})
	return c, err
}

// Names in bucketCounts, beside outcomes and phases.
const (
	countDuplicates = "duplicates"
	countLetters    = "letters"
	countTests      = "tests"
	countOutcome    = "outcome:"
	countPhase      = "phase:"
	countCause      = "cause:" // see groupOf
)

// count adds by to the counters of a row: its outcome, or its phase while it is
// open. Tests are counted apart.
func (t *Tx) count(r *Row, by int) {
	switch {
	case r == nil:
		return
	case r.Test:
		t.counts[countTests] += by
		return
	case r.Ended():
		t.counts[countOutcome+string(r.Outcome)] += by
	default:
		t.counts[countPhase+string(r.Phase)] += by
	}
	t.hours[hourKey(r.ReceivedAt, r.Outcome, r.Tenant)] += by
}

// addTo changes the counters in b. Those of nothing are not kept.
func addTo(b *bbolt.Bucket, changes map[string]int) error {
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		by := changes[name]
		if by == 0 {
			continue
		}
		var err error
		if n := countIn(b.Get([]byte(name))) + by; n == 0 {
			err = b.Delete([]byte(name))
		} else {
			err = b.Put([]byte(name), binary.BigEndian.AppendUint64(nil, uint64(n)))
		}
		if err != nil {
			return fmt.Errorf("count %q: %w", name, err)
		}
	}
	return nil
}

func countIn(value []byte) int {
	if len(value) != 8 {
		return 0
	}
	return int(binary.BigEndian.Uint64(value))
}
