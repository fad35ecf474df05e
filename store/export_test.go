package store

import (
	"fmt"

	"go.etcd.io/bbolt"

	"tidings/streams/event"
)

// CheckIndex compares index and counters with what rows, duplicates and letters say.
func (s *Store) CheckIndex() error {
	index, counts := map[string]bool{}, map[string]int{}
	return s.view(func(tx *bbolt.Tx) error {
		t := &Tx{tx: tx, counts: counts}
		if err := each(tx, bucketLedger, func(r Row) {
			for _, k := range indexKeys(&r) {
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
			counts[countLetters]++
		}); err != nil {
			return err
		}
		if err := each(tx, bucketDuplicates, func(at seenAt) { counts[countDuplicates] += at.Count }); err != nil {
			return err
		}
		return compare(tx, index, counts)
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

func compare(tx *bbolt.Tx, index map[string]bool, counts map[string]int) error {
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
	return tx.Bucket(bucketCounts).ForEach(func(k, v []byte) error {
		if countIn(v) != counts[string(k)] {
			return fmt.Errorf("counter %s is %d, should be %d", k, countIn(v), counts[string(k)])
		}
		return nil
	})
}

// SetSteps bounds the work of one page.
func (s *Store) SetSteps(n int) { s.steps = n }

// PutSchema makes the file one of another schema.
func (s *Store) PutSchema(version int) error {
	return s.db.Update(func(tx *bbolt.Tx) error { return putJSON(tx.Bucket(bucketMeta), []byte("schema"), version) })
}

// KeptDuplicates returns how many are kept of an event without a row.
func (s *Store) KeptDuplicates(key event.Key) (n int, err error) {
	err = s.view(func(tx *bbolt.Tx) error {
		n, err = (&Tx{tx: tx}).duplicatesOf(key)
		return err
	})
	return n, err
}
