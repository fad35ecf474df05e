package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"tidings/streams/event"
)

// A dimension is one thing that rows or letters are found by. The keys of the
// index are
//
//	dimension (1 byte) | hash of the value (7) | place (30)
//
// and have no values. Hashing makes the prefix of any foreign string 8 bytes
// without separators; that the value is the one that was asked for is seen in the
// row. Within every prefix the order is that of the ledger, by time and key, so that
// conditions are joined by walking their ranges side by side.
type dimension byte

// The dimensions of rows, ordered by when EVENTS stored the event. They have few
// values, so that keys are added at the end of a few ranges.
const (
	byTenant  dimension = 't'
	byType    dimension = 'y'
	bySource  dimension = 's'
	byOutcome dimension = 'o' // of ended events
	byPhase   dimension = 'p' // see indexed
)

// The dimensions of rows whose values are as many as rows. They are in
// bucketLookup, where a part stands before each key: pages that are written are
// those of the last parts, and not any of all. See lookupKeys.
const (
	byEventID     dimension = 'i'
	byCorrelation dimension = 'c' // of events that have such an id
	byRecipient   dimension = 'r' // the hashes of all recipients of its messages
)

// What the steward looks for. The value is the phase; the time is when a
// waiting event is due, and when an open or claimed one last changed.
const byHold dimension = 'h'

// The dimensions of dead letters, ordered by when they were written.
const (
	lettersByTime   dimension = 'A' // all letters; no value
	lettersByTenant dimension = 'T'
	lettersByCause  dimension = 'C'
	lettersByGroup  dimension = 'G' // see groupOf
)

const (
	prefixSize = 1 + 7
	timeSize   = 8
	keySize    = 22
	placeSize  = timeSize + keySize
	partSize   = 4
	// partEvents is how many events of EVENTS share a part of the lookups: few
	// enough that a transaction finds neighbours, and so many that there are few
	// parts to look into.
	partEvents = 1 << 16
)

// placeOf is where a row or a letter is in the order of time.
func placeOf(at time.Time, key event.Key) []byte {
	return append(appendOrder(make([]byte, 0, placeSize), at), key...)
}

// keyIn returns the event key at the end of a place.
func keyIn(place []byte) event.Key { return event.Key(place[timeSize:]) }

// orderOf encodes a time so that bytes sort as times do. What is before 1678 or
// after 2261 is taken for these ends.
func orderOf(t time.Time) []byte { return appendOrder(nil, t) }

func appendOrder(b []byte, t time.Time) []byte {
	n := t.UnixNano()
	switch y := t.UTC().Year(); {
	case y < 1678:
		n = math.MinInt64
	case y > 2261:
		n = math.MaxInt64
	}
	return binary.BigEndian.AppendUint64(b, uint64(n)^1<<63)
}

// indexed reports whether rows of that value are in the index: settled ones are
// not, since nearly all rows are.
func (d dimension) indexed(value string) bool {
	return d != byPhase || value != string(event.PhaseSettled)
}

// prefix is the beginning of the index keys of one value.
func (d dimension) prefix(value string) []byte { return d.appendPrefix(nil, value) }

func (d dimension) appendPrefix(b []byte, value string) []byte {
	sum := sha256.Sum256([]byte(value))
	return append(append(b, byte(d)), sum[:prefixSize-1]...)
}

func (d dimension) key(value string, at time.Time, key event.Key) []byte {
	b := d.appendPrefix(make([]byte, 0, prefixSize+placeSize), value)
	return append(appendOrder(b, at), key...)
}

// indexKeys returns the keys of a row in bucketIndex, none for nil.
func indexKeys(r *Row) [][]byte {
	if r == nil {
		return nil
	}
	at := r.ReceivedAt
	keys := [][]byte{byTenant.key(r.Tenant, at, r.Key), byType.key(r.Type, at, r.Key), bySource.key(r.Source, at, r.Key)}
	if r.Outcome != "" {
		keys = append(keys, byOutcome.key(string(r.Outcome), at, r.Key))
	}
	if byPhase.indexed(string(r.Phase)) {
		keys = append(keys, byPhase.key(string(r.Phase), at, r.Key))
	}
	if !r.Ended() {
		keys = append(keys, byHold.key(string(r.Phase), r.heldSince(), r.Key))
	}
	return keys
}

// heldSince is when an open event last changed, and when a waiting one is due.
func (r Row) heldSince() time.Time {
	if r.Phase == event.PhaseWaiting {
		return r.Due
	}
	return r.ChangedAt
}

// lookupKeys returns the keys in bucketLookup of a row whose messages go to these
// recipients, none for nil.
func lookupKeys(r *Row, recipients []string) [][]byte {
	if r == nil {
		return nil
	}
	keys := make([][]byte, 0, 2+len(recipients))
	add := func(d dimension, value string) {
		b := append(make([]byte, 0, partSize+prefixSize+placeSize), partOf(r.Sequence)...)
		keys = append(keys, append(appendOrder(d.appendPrefix(b, value), r.ReceivedAt), r.Key...))
	}
	add(byEventID, r.EventID)
	if r.CorrelationID != "" {
		add(byCorrelation, r.CorrelationID)
	}
	for _, hash := range recipients {
		add(byRecipient, hash)
	}
	return keys
}

// partOf returns the part of the lookups that an event is in, by its sequence in
// EVENTS.
func partOf(sequence uint64) []byte {
	return binary.BigEndian.AppendUint32(nil, uint32(min(sequence/partEvents, math.MaxUint32)))
}

// parts returns the parts that there are.
func parts(tx *bbolt.Tx) (list [][]byte) {
	c := tx.Bucket(bucketLookup).Cursor()
	for k, _ := c.Last(); k != nil; k, _ = c.Prev() {
		list = append(list, k[:partSize])
		c.Seek(k[:partSize])
	}
	return list
}

// recipientsOf returns the recipients of messages, each once.
func recipientsOf(messages []event.Message) []string {
	var hashes []string
	for _, m := range messages {
		hashes = append(hashes, m.Recipient.Hash)
	}
	slices.Sort(hashes)
	return slices.Compact(hashes)
}

// letterIndexKeys returns the index keys of a letter, none for nil.
func letterIndexKeys(l *Letter) [][]byte {
	if l == nil {
		return nil
	}
	return [][]byte{
		lettersByTime.key(anything, l.At, l.Key), lettersByTenant.key(l.Tenant, l.At, l.Key),
		lettersByCause.key(string(l.Cause), l.At, l.Key), lettersByGroup.key(groupOf(l.Cause, l.Tenant), l.At, l.Key),
	}
}

// groupOf is what the letters of one cause and tenant have in common. Causes are
// names, without a zero byte.
func groupOf(cause event.Cause, tenant string) string { return string(cause) + "\x00" + tenant }

func sequenceKey(sequence uint64) []byte {
	return binary.BigEndian.AppendUint64(nil, sequence)
}

func historyKey(key event.Key, sequence uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte(key), sequence)
}

func duplicateKey(key event.Key, id string) []byte { return append([]byte(key), id...) }

// scan calls fn for the keys from a position on that begin with prefix, in
// order, until fn returns false.
func scan(c *bbolt.Cursor, from, prefix []byte, fn func(k, v []byte) (bool, error)) error {
	for k, v := c.Seek(from); k != nil && bytes.HasPrefix(k, prefix); k, v = c.Next() {
		more, err := fn(k, v)
		if err != nil || !more {
			return err
		}
	}
	return nil
}
