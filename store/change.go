package store

import (
	"bytes"
	"fmt"
	"slices"

	"go.etcd.io/bbolt"

	"tidings/streams/event"
)

// change is what a transaction does to one event. Rows are written once per
// transaction, however many records of the event it holds.
type change struct {
	key           event.Key
	before, after *Row
	stored        stored   // before
	messages      string   // after, encoded
	recipients    []string // after; only if recorded
	records       []uint64 // after: their sequences
	recorded      bool     // by a record, not only by duplicates
	changed       bool
}

// change returns what this transaction does to an event; at first nothing.
func (t *Tx) change(key event.Key) (*change, error) {
	if c, ok := t.rows[key]; ok {
		return c, nil
	}
	c := &change{key: key}
	stored, found, err := find(t.tx, key)
	if err != nil {
		return nil, err
	}
	if found {
		row := Row{}
		if err := decode(stored.row, &row); err != nil {
			return nil, fmt.Errorf("decode row of %s: %w", key, err)
		}
		c.before, c.after, c.stored = &row, &row, stored
		c.messages, c.records = string(stored.messages), stored.sequences()
	}
	t.rows[key] = c
	return c, nil
}

// record makes row what the event is after a record, unless that is nil.
func (c *change) record(sequence uint64, row *Row, messages string, recipients []string) {
	if at, found := slices.BinarySearch(c.records, sequence); !found {
		c.records = slices.Insert(c.records, at, sequence)
	}
	c.changed = true
	if row != nil {
		c.after, c.messages, c.recipients, c.recorded = row, messages, recipients, true
	}
}

func (c *change) remove() {
	c.after, c.messages, c.recipients, c.records = nil, "", nil, nil
	c.recorded, c.changed = false, true
}

// hadRecipients returns those before, as far as there may be others now.
func (c *change) hadRecipients() ([]string, error) {
	if c.before == nil || !c.recorded && c.after != nil || len(c.stored.messages) == 0 {
		return nil, nil
	}
	var messages []event.Message
	if err := decode(c.stored.messages, &messages); err != nil {
		return nil, fmt.Errorf("decode messages of %s: %w", c.key, err)
	}
	return recipientsOf(messages), nil
}

// flush writes the changed rows, and whatever follows from them.
func (t *Tx) flush() error {
	oldest := t.Oldest()
	for _, c := range t.rows {
		if !c.changed {
			continue
		}
		if err := t.write(c, oldest); err != nil {
			return err
		}
		t.count(c.before, -1)
		t.count(c.after, +1)
	}
	for _, w := range []struct {
		bucket []byte
		moves  []move
		fill   float64
	}{
		{bucketLedger, t.moves.ledger, fillAppended},
		{bucketKeys, t.moves.keys, bbolt.DefaultFillPercent},
		{bucketIndex, t.moves.index, fillAppended},
		{bucketLookup, t.moves.lookup, bbolt.DefaultFillPercent},
	} {
		b := t.tx.Bucket(w.bucket)
		b.FillPercent = w.fill
		if err := t.moveAll(b, w.moves); err != nil {
			return fmt.Errorf("change %s: %w", w.bucket, err)
		}
	}
	if err := addTo(t.tx.Bucket(bucketHours), t.hours); err != nil {
		return err
	}
	return addTo(t.tx.Bucket(bucketCounts), t.counts)
}

// write notes what changes in the file with a row.
func (t *Tx) write(c *change, oldest uint64) error {
	had, err := c.hadRecipients()
	if err != nil {
		return err
	}
	t.moves.index = append(t.moves.index, movesOf(indexKeys(c.before), indexKeys(c.after))...)
	t.moves.lookup = append(t.moves.lookup, movesOf(lookupKeys(c.before, had), lookupKeys(c.after, c.recipients))...)
	var was, is []byte
	if c.before != nil {
		was = placeOf(c.before.ReceivedAt, c.key)
	}
	if c.after != nil {
		is = placeOf(c.after.ReceivedAt, c.key)
		if t.row, err = appendRow(t.row[:0], c.after); err != nil {
			return fmt.Errorf("encode row of %s: %w", c.key, err)
		}
		value := appendStored(nil, t.row, c.records, oldest, c.messages)
		t.moves.ledger = append(t.moves.ledger, move{key: is, value: value})
	}
	if bytes.Equal(was, is) {
		return nil
	}
	if was != nil {
		t.moves.ledger = append(t.moves.ledger, move{key: was, leave: true})
	}
	if is == nil {
		t.moves.keys = append(t.moves.keys, move{key: []byte(c.key), leave: true})
		return nil
	}
	t.moves.keys = append(t.moves.keys, move{key: []byte(c.key), value: is[:timeSize]})
	return nil
}

// fillAppended is how full pages of buckets are left that grow at the end of a few
// ranges.
const fillAppended = 0.95

// move is one key that enters a bucket, or gets another value, or leaves it.
type move struct {
	key, value []byte
	leave      bool
}

// moves are those of a transaction.
type moves struct{ ledger, keys, index, lookup []move }

func movesOf(before, after [][]byte) []move {
	moves := make([]move, 0, len(after))
	in := func(keys [][]byte, k []byte) bool {
		return slices.ContainsFunc(keys, func(other []byte) bool { return bytes.Equal(k, other) })
	}
	for _, k := range before {
		if !in(after, k) {
			moves = append(moves, move{key: k, leave: true})
		}
	}
	for _, k := range after {
		if !in(before, k) {
			moves = append(moves, move{key: k})
		}
	}
	return moves
}

// moveAll makes moves in the order of the keys: neighbours share pages.
func (t *Tx) moveAll(b *bbolt.Bucket, moves []move) error {
	slices.SortFunc(moves, func(a, b move) int { return bytes.Compare(a.key, b.key) })
	for _, m := range moves {
		var err error
		if m.leave {
			err = b.Delete(m.key)
		} else {
			err = b.Put(m.key, m.value)
		}
		if err != nil {
			return err
		}
		t.moved()
	}
	return nil
}
