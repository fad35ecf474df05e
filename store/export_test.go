package store

import (
	"errors"
	"fmt"
	"maps"

	"go.etcd.io/bbolt"

	"tidings/streams/event"
)

// CheckIndex compares index and counters with what rows, duplicates and letters say.
func (s *Store) CheckIndex() error {
	index := map[string]bool{}
	return s.view(func(tx *bbolt.Tx) error {
		t := &Tx{tx: tx, counts: map[string]int{}, hours: map[string]int{}}
		if err := each(tx, bucketLedger, func(r Row) {
			var messages []event.Message
			_, _ = getJSON(tx.Bucket(bucketMessages), []byte(r.Key), &messages)
			for _, k := range indexKeys(&r, recipientsOf(messages)) {
				index[k] = true
			}
			t.count(&r, 1)
		}); err != nil {
			return err
		}
		if err := each(tx, bucketLetters, func(l Letter) {
			for _, k := range letterIndexKeys(&l) {
				index[k] = true
			}
			t.countLetter(&l, 1)
		}); err != nil {
			return err
		}
		if err := each(tx, bucketDuplicates, func(at seenAt) { t.counts[countDuplicates] += at.Count }); err != nil {
			return err
		}
		return errors.Join(
			compareIndex(tx, index), compareCounts(tx, bucketCounts, t.counts), compareCounts(tx, bucketHours, t.hours),
		)
	})
}

func each[T any](tx *bbolt.Tx, bucket []byte, fn func(T)) error {
	return tx.Bucket(bucket).ForEach(func(k, _ []byte) error {
		var v T
		if _, err := getJSON(tx.Bucket(bucket), k, &v); err != nil {
			return err
		}
		fn(v)
		return nil
	})
}

func compareIndex(tx *bbolt.Tx, index map[string]bool) error {
	n := 0
	if err := tx.Bucket(bucketIndex).ForEach(func(k, _ []byte) error {
		if n++; !index[string(k)] {
			return fmt.Errorf("index key %c of %s should not be there", k[0], keyIn(k[prefixSize:]))
		}
		return nil
	}); err != nil {
		return err
	}
	if n != len(index) {
		return fmt.Errorf("index has %d keys, should have %d", n, len(index))
	}
	return nil
}

func compareCounts(tx *bbolt.Tx, bucket []byte, want map[string]int) error {
	maps.DeleteFunc(want, func(_ string, n int) bool { return n == 0 })
	have := map[string]int{}
	err := tx.Bucket(bucket).ForEach(func(k, v []byte) error {
		have[string(k)] = countIn(v)
		return nil
	})
	if err == nil && !maps.Equal(want, have) {
		err = fmt.Errorf("%s are %v, should be %v", bucket, have, want)
	}
	return err
}

// SetSteps bounds the work of one page.
func (s *Store) SetSteps(n int) { s.steps = n }

// SetReads bounds the values that one page reads.
func (s *Store) SetReads(n int) { s.reads = n }

// PutSchema makes the file one of another schema.
func (s *Store) PutSchema(version int) error {
	return s.db.Load().Update(func(tx *bbolt.Tx) error { return putJSON(tx.Bucket(bucketMeta), []byte("schema"), version) })
}

// KeptDuplicates returns how many are kept of an event without a row.
func (s *Store) KeptDuplicates(key event.Key) (n int, err error) {
	err = s.view(func(tx *bbolt.Tx) error {
		n, err = (&Tx{tx: tx}).duplicatesOf(key)
		return err
	})
	return n, err
}
