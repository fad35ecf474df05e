package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"tidings/streams/event"
)

// A dimension is one thing that rows or letters are found by. The keys of the
// index are
//
//	dimension (1 byte) | hash of the value (16) | time (12) | event key (22)
//
// and have no values. Hashing makes the prefix of any foreign string 17 bytes
// without separators. Within every prefix the order is the same, by time and
// key, so that conditions are joined by walking their ranges side by side.
type dimension byte

// The dimensions of rows, ordered by when EVENTS stored the event.
const (
	byTime        dimension = 'a' // all rows; no value
	byTenant      dimension = 't'
	byType        dimension = 'y'
	byOutcome     dimension = 'o' // of ended events
	byPhase       dimension = 'p' // see indexed
	byEventID     dimension = 'i'
	bySource      dimension = 's'
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
	prefixSize = 1 + 16
	timeSize   = 12
	suffixSize = timeSize + 22
)

// indexed reports whether rows of that value are in the index: settled ones are
// not, since nearly all rows are.
func (d dimension) indexed(value string) bool {
	return d != byPhase || value != string(event.PhaseSettled)
}

// prefix is the beginning of the index keys of one value.
func (d dimension) prefix(value string) []byte {
	return d.appendPrefix(nil, value)
}

func (d dimension) appendPrefix(b []byte, value string) []byte {
	sum := sha256.Sum256([]byte(value))
	return append(append(b, byte(d)), sum[:prefixSize-1]...)
}

func (d dimension) key(value string, at time.Time, key event.Key) string {
	var room [prefixSize + suffixSize]byte
	return string(append(appendOrder(d.appendPrefix(room[:0], value), at), key...))
}

// orderOf encodes a time so that bytes sort as times do, the zero time included.
func orderOf(t time.Time) []byte { return appendOrder(nil, t) }

func appendOrder(b []byte, t time.Time) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(t.Unix())^1<<63)
	return binary.BigEndian.AppendUint32(b, uint32(t.Nanosecond()))
}

// timeIn returns the time at the beginning of a suffix.
func timeIn(suffix []byte) time.Time {
	return time.Unix(int64(binary.BigEndian.Uint64(suffix)^1<<63), int64(binary.BigEndian.Uint32(suffix[8:]))).UTC()
}

// keyIn returns the event key at the end of an index key or suffix.
func keyIn(suffix []byte) event.Key { return event.Key(suffix[timeSize:]) }

// indexKeys returns the index keys of a row whose messages go to these
// recipients, none for nil.
func indexKeys(r *Row, recipients []string) []string {
	if r == nil {
		return nil
	}
	at := r.ReceivedAt
	keys := []string{
		byTime.key("", at, r.Key), byTenant.key(r.Tenant, at, r.Key),
		byType.key(r.Type, at, r.Key), byEventID.key(r.EventID, at, r.Key), bySource.key(r.Source, at, r.Key),
	}
	if r.CorrelationID != "" {
		keys = append(keys, byCorrelation.key(r.CorrelationID, at, r.Key))
	}
	for _, hash := range recipients {
		keys = append(keys, byRecipient.key(hash, at, r.Key))
	}
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

// letterIndexKeys returns the index keys of a letter, none for nil.
func letterIndexKeys(l *Letter) []string {
	if l == nil {
		return nil
	}
	return []string{
		lettersByTime.key("", l.At, l.Key), lettersByTenant.key(l.Tenant, l.At, l.Key),
		lettersByCause.key(string(l.Cause), l.At, l.Key), lettersByGroup.key(groupOf(l.Cause, l.Tenant), l.At, l.Key),
	}
}

// groupOf is what the letters of one cause and tenant have in common. Causes are
// names, without a zero byte.
func groupOf(cause event.Cause, tenant string) string { return string(cause) + "\x00" + tenant }

// recipientsOf returns the recipients of messages, each once.
func recipientsOf(messages []event.Message) []string {
	var hashes []string
	for _, m := range messages {
		hashes = append(hashes, m.Recipient.Hash)
	}
	slices.Sort(hashes)
	return slices.Compact(hashes)
}

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
