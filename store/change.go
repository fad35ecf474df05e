package store

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"tidings/streams/event"
)

// change is what a transaction does to one event. Rows are written once per
// transaction, however many records of the event it holds.
type change struct {
	before, after *Row
	// messages are those after the last record; read only if recorded.
	messages []event.Message
	recorded bool
}

// change returns what this transaction does to an event; at first nothing.
func (t *Tx) change(key event.Key) (*change, error) {
	if c, ok := t.rows[key]; ok {
		return c, nil
	}
	c := &change{}
	row := Row{}
	found, err := getJSON(t.tx.Bucket(bucketLedger), []byte(key), &row)
	if err != nil {
		return nil, err
	}
	if found {
		c.before, c.after = &row, &row
	}
	t.rows[key] = c
	return c, nil
}

// flush writes the changed rows, in the order of their keys, and the counts.
func (t *Tx) flush() error {
	var moves []indexMove
	for _, key := range slices.Sorted(maps.Keys(t.rows)) {
		c := t.rows[key]
		if c.before == c.after {
			continue
		}
		had, err := t.recipients(key, c)
		if err != nil {
			return err
		}
		if err := t.write(key, c); err != nil {
			return err
		}
		moves = append(moves, movesOf(indexKeys(c.before, had), indexKeys(c.after, recipientsOf(c.messages)))...)
		t.count(c.before, -1)
		t.count(c.after, +1)
	}
	if err := t.move(moves); err != nil {
		return err
	}
	if err := addTo(t.tx.Bucket(bucketHours), t.hours); err != nil {
		return err
	}
	return addTo(t.tx.Bucket(bucketCounts), t.counts)
}

// recipients returns those that an event had before, as far as it may have others
// now.
func (t *Tx) recipients(key event.Key, c *change) ([]string, error) {
	if c.before == nil || c.before.Messages.Created == 0 || !c.recorded && c.after != nil {
		return nil, nil
	}
	var messages []event.Message
	_, err := getJSON(t.tx.Bucket(bucketMessages), []byte(key), &messages)
	return recipientsOf(messages), err
}

func (t *Tx) write(key event.Key, c *change) error {
	ledger, messages := t.tx.Bucket(bucketLedger), t.tx.Bucket(bucketMessages)
	switch {
	case c.after == nil:
		if err := ledger.Delete([]byte(key)); err != nil {
			return err
		}
		return messages.Delete([]byte(key))
	case !c.recorded:
	case len(c.messages) > 0:
		if err := putJSON(messages, []byte(key), c.messages); err != nil {
			return err
		}
	case c.before != nil && c.before.Messages.Created > 0:
		if err := messages.Delete([]byte(key)); err != nil {
			return err
		}
	}
	return putJSON(ledger, []byte(key), c.after)
}

// indexMove is one key that enters or leaves the index.
type indexMove struct {
	key   string
	enter bool
}

func movesOf(before, after []string) []indexMove {
	var moves []indexMove
	for _, k := range before {
		if !slices.Contains(after, k) {
			moves = append(moves, indexMove{key: k})
		}
	}
	for _, k := range after {
		if !slices.Contains(before, k) {
			moves = append(moves, indexMove{key: k, enter: true})
		}
	}
	return moves
}

// move changes the index, in the order of the keys: neighbours share pages.
func (t *Tx) move(moves []indexMove) error {
	slices.SortFunc(moves, func(a, b indexMove) int { return strings.Compare(a.key, b.key) })
	index := t.tx.Bucket(bucketIndex)
	for _, m := range moves {
		var err error
		if m.enter {
			err = index.Put([]byte(m.key), nil)
		} else {
			err = index.Delete([]byte(m.key))
		}
		if err != nil {
			return fmt.Errorf("change index: %w", err)
		}
	}
	return nil
}
