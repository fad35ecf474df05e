package store

import (
	"bytes"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"tidings/streams/event"
)

// Overdue returns events that somebody should have moved on by now, longest
// overdue first: waiting ones that were due before now, and open or claimed
// ones whose last record is older than age. It is a hint to look at them, not a
// decision: the log may already know better.
func (s *Store) Overdue(now time.Time, age time.Duration, limit int) ([]Row, error) {
	rows := []Row{}
	err := s.view(func(tx *bbolt.Tx) error {
		for phase, before := range map[event.Phase]time.Time{
			event.PhaseWaiting: now, event.PhaseOpen: now.Add(-age), event.PhaseClaimed: now.Add(-age),
		} {
			held, err := heldBefore(tx, phase, before, limit)
			if err != nil {
				return err
			}
			rows = append(rows, held...)
		}
		return nil
	})
	overdue := func(r Row) time.Time {
		if r.Phase == event.PhaseWaiting {
			return r.Due
		}
		return r.ChangedAt.Add(age)
	}
	slices.SortFunc(rows, func(a, b Row) int { return overdue(a).Compare(overdue(b)) })
	return rows[:min(len(rows), max(0, limit))], err
}

// heldBefore returns the events of a phase that are held since before a time,
// longest first.
func heldBefore(tx *bbolt.Tx, phase event.Phase, before time.Time, limit int) ([]Row, error) {
	var rows []Row
	prefix, end := byHold.prefix(string(phase)), orderOf(before)
	err := scan(tx.Bucket(bucketIndex).Cursor(), prefix, prefix, func(k, _ []byte) (bool, error) {
		place := k[len(prefix):]
		if len(rows) >= limit || bytes.Compare(place[:timeSize], end) >= 0 {
			return false, nil
		}
		r, _, err := rowOf(tx, keyIn(place))
		rows = append(rows, r)
		return true, err
	})
	return rows, err
}
