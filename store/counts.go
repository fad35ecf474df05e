package store

import (
	"go.etcd.io/bbolt"

	"tidings/streams/event"
)

// Counts are the numbers of what the ledger holds.
type Counts struct {
	Outcomes   map[event.Outcome]int `json:"outcomes"` // ended events; every outcome is there
	Open       map[event.Phase]int   `json:"open"`     // events that have not ended; every such phase is there
	Duplicates int                   `json:"duplicates"`
	Letters    int                   `json:"dead_letters"`
}

// Events returns the number of rows.
func (c Counts) Events() int {
	n := 0
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
		c.Duplicates = countIn(b.Get([]byte(countDuplicates)))
		c.Letters = countIn(b.Get([]byte(countLetters)))
		return nil
	})
	return c, err
}
