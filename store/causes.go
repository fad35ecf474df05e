package store

import (
	"errors"
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
			if c.Oldest, c.Newest, err = ends(tx, prefix); err != nil {
				return err
			}
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

// ends returns the times of the first and the last letter of a range of the index.
func ends(tx *bbolt.Tx, prefix []byte) (oldest, newest time.Time, err error) {
	c := tx.Bucket(bucketIndex).Cursor()
	first, _ := c.Seek(prefix)
	last := (&keyRange{cursor: c, prefix: prefix}).below([]byte{0xff})
	if last == nil {
		return oldest, newest, nil
	}
	var o, n Letter
	_, err = getJSON(tx.Bucket(bucketLetters), []byte(keyIn(first[len(prefix):])), &o)
	_, err2 := getJSON(tx.Bucket(bucketLetters), []byte(keyIn(last)), &n)
	return o.At, n.At, errors.Join(err, err2)
}
