package store

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"time"

	"go.etcd.io/bbolt"

	"tidings/streams/event"
)

// CauseCount is what the dead letters of one cause amount to.
type CauseCount struct {
	Cause   event.Cause `json:"cause"`
	Letters int         `json:"dead_letters"`
	Oldest  time.Time   `json:"oldest"` // when it was written
	Newest  time.Time   `json:"newest"`
}

// Causes returns the dead letters grouped by cause, most first. An empty tenant
// means all. It reads counters, not letters.
func (s *Store) Causes(tenant string) ([]CauseCount, error) {
	counts := []CauseCount{}
	err := s.view(func(tx *bbolt.Tx) error {
		byCause, err := lettersPerCause(tx, tenant)
		if err != nil {
			return err
		}
		for _, cause := range slices.Sorted(maps.Keys(byCause)) {
			prefix := lettersByCause.prefix(string(cause))
			if tenant != "" {
				prefix = lettersByGroup.prefix(groupOf(cause, tenant))
			}
			c := CauseCount{Cause: cause, Letters: byCause[cause]}
			c.Oldest, c.Newest = ends(tx, prefix)
			counts = append(counts, c)
		}
		return nil
	})
	slices.SortStableFunc(counts, func(a, b CauseCount) int { return b.Letters - a.Letters })
	return counts, err
}

func lettersPerCause(tx *bbolt.Tx, tenant string) (map[event.Cause]int, error) {
	counts, prefix := map[event.Cause]int{}, []byte(countCause)
	err := scan(tx.Bucket(bucketCounts).Cursor(), prefix, prefix, func(k, v []byte) (bool, error) {
		cause, of, _ := strings.Cut(string(k[len(prefix):]), "\x00")
		if fits(tenant, of) {
			counts[event.Cause(cause)] += countIn(v)
		}
		return true, nil
	})
	return counts, err
}

// ends returns the times of the first and the last key of an index range that is
// not empty.
func ends(tx *bbolt.Tx, prefix []byte) (first, last time.Time) {
	c := tx.Bucket(bucketIndex).Cursor()
	if k, _ := c.Seek(prefix); bytes.HasPrefix(k, prefix) {
		first = timeIn(k[len(prefix):])
	}
	if suffix := (span{cursor: c, prefix: prefix}).below([]byte{0xff}); suffix != nil {
		last = timeIn(suffix)
	}
	return first, last
}
