package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"go.etcd.io/bbolt"

	"tidings/streams/event"
)

// CheckIndex compares index and counters with what rows, duplicates and letters say.
func (s *Store) CheckIndex() error {
	index, lookup, keys := map[string]bool{}, map[string]bool{}, map[string]bool{}
	return s.view(func(tx *bbolt.Tx) error {
		t := &Tx{tx: tx, counts: map[string]int{}, hours: map[string]int{}}
		if err := tx.Bucket(bucketLedger).ForEach(func(place, value []byte) error {
			s := mustSplit(value)
			var r Row
			var messages []event.Message
			err := json.Unmarshal(s.row, &r)
			if err == nil && len(s.messages) > 0 {
				err = json.Unmarshal(s.messages, &messages)
			}
			if err == nil {
				err = checkHistory(tx, r, s.sequences())
			}
			if !bytes.Equal(place, placeOf(r.ReceivedAt, r.Key)) {
				err = fmt.Errorf("row of %s is in another place", r.Key)
			}
			keys[string(r.Key)] = true
			for _, k := range indexKeys(&r) {
				index[string(k)] = true
			}
			for _, k := range lookupKeys(&r, recipientsOf(messages)) {
				lookup[string(k)] = true
			}
			t.count(&r, 1)
			return err
		}); err != nil {
			return err
		}
		if err := each(tx, bucketLetters, func(l Letter) {
			for _, k := range letterIndexKeys(&l) {
				index[string(k)] = true
			}
			t.countLetter(&l, 1)
		}); err != nil {
			return err
		}
		if err := each(tx, bucketDuplicates, func(at seenAt) { t.counts[countDuplicates] += at.Count }); err != nil {
			return err
		}
		return errors.Join(
			compareKeys(tx, bucketIndex, index), compareKeys(tx, bucketLookup, lookup), compareKeys(tx, bucketKeys, keys), compareCounts(tx, bucketCounts, t.counts), compareCounts(tx, bucketHours, t.hours),
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

// checkHistory compares the records that a row says it had with the audit.
func checkHistory(tx *bbolt.Tx, r Row, listed []uint64) error {
	var want []uint64
	err := each(tx, bucketAudit, func(e Entry) {
		if e.Key == r.Key && e.Revision > 0 {
			want = append(want, e.Sequence)
		}
	})
	// What was trimmed may still be listed, before the first that is there.
	if n := len(listed) - len(want); err == nil && (n < 0 || !slices.Equal(listed[n:], want)) {
		err = fmt.Errorf("records of %s are %v, should be %v", r.Key, listed, want)
	}
	return err
}

func compareKeys(tx *bbolt.Tx, bucket []byte, want map[string]bool) error {
	n := 0
	if err := tx.Bucket(bucket).ForEach(func(k, _ []byte) error {
		if n++; !want[string(k)] {
			return fmt.Errorf("%s has %q, which should not be there", bucket, k)
		}
		return nil
	}); err != nil {
		return err
	}
	if n != len(want) {
		return fmt.Errorf("%s has %d keys, should have %d", bucket, n, len(want))
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
