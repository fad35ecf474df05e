package store

import (
	"encoding/binary"
	"fmt"
	"slices"

	"go.etcd.io/bbolt"

	"tidings/streams/event"
)

// stored is the value of bucketLedger: the row and the messages as JSON, and the
// sequences of the event's records, ascending, each as the distance from the one
// before. The lengths of row and records stand before them.
type stored struct{ row, records, messages []byte }

var errStored = fmt.Errorf("%w: a row has another form than it should have: %s", ErrDamaged, rebuild)

func splitStored(value []byte) (s stored, err error) {
	if s.row, value, err = cut(value); err != nil {
		return s, err
	}
	s.records, s.messages, err = cut(value)
	return s, err
}

// cut cuts off the part whose length stands before it.
func cut(value []byte) (part, rest []byte, err error) {
	length, n := binary.Uvarint(value)
	if n <= 0 || length > uint64(len(value)-n) {
		return nil, nil, errStored
	}
	value = value[n:]
	return value[:length:length], value[length:], nil
}

// appendStored appends the value for a row. Records that are older than the oldest
// entry are left out.
func appendStored(value, row []byte, records []uint64, oldest uint64, messages string) []byte {
	value = slices.Grow(value, len(row)+len(messages)+16+4*len(records))
	value = append(binary.AppendUvarint(value, uint64(len(row))), row...)
	var room [64]byte
	distances, before := room[:0], uint64(0)
	for _, sequence := range records {
		if sequence >= oldest {
			distances, before = binary.AppendUvarint(distances, sequence-before), sequence
		}
	}
	value = append(binary.AppendUvarint(value, uint64(len(distances))), distances...)
	return append(value, messages...)
}

// sequences returns those of the records. Some may be of entries that were trimmed.
func (s stored) sequences() []uint64 {
	var list []uint64
	for rest, last := s.records, uint64(0); len(rest) > 0; {
		distance, n := binary.Uvarint(rest)
		if n <= 0 {
			break
		}
		last, rest = last+distance, rest[n:]
		list = append(list, last)
	}
	return list
}

// rowOf returns the row of an event, if there is one.
func rowOf(tx *bbolt.Tx, key event.Key) (r Row, found bool, err error) {
	s, found, err := find(tx, key)
	if err == nil && found {
		if err = decode(s.row, &r); err != nil {
			err = fmt.Errorf("decode row of %s: %w", key, err)
		}
	}
	return r, found, err
}

// find returns what is stored of an event.
func find(tx *bbolt.Tx, key event.Key) (s stored, found bool, err error) {
	at := tx.Bucket(bucketKeys).Get([]byte(key))
	if at == nil {
		return s, false, nil
	}
	value := tx.Bucket(bucketLedger).Get(append(append(make([]byte, 0, placeSize), at...), key...))
	if value == nil {
		return s, false, fmt.Errorf("row of %s: %w", key, errStored)
	}
	s, err = splitStored(value)
	return s, err == nil, err
}
