package store

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"

	"go.etcd.io/bbolt"
)

// Digest returns SHA-256, in hexadecimal, over all rows, messages, audit
// entries and dead letters. Two files that were folded from the same entries by
// the same version have the same digest. It reads the whole file.
func (s *Store) Digest() (string, error) {
	h := sha256.New()
	err := s.view(func(tx *bbolt.Tx) error {
		section := ""
		return contents(tx, func(name string, key, value []byte) error {
			if name != section {
				section = name
				writeField(h, []byte(name))
			}
			writeField(h, key)
			writeField(h, value)
			return nil
		})
	})
	return hex.EncodeToString(h.Sum(nil)), err
}

// The sections of what a file holds.
const (
	sectionRows     = "rows"     // by place: JSON of a Row
	sectionMessages = "messages" // by place: JSON of a list of event.Message, not of none
	sectionAudit    = "audit"    // by sequence: JSON of an Entry
	sectionLetters  = "letters"  // by key: JSON of a Letter
)

// contents calls fn for all that was folded in, one section after the other, each in
// the order of its keys: the same for the same entries. What is derived from it, or
// differs with the oldest entry that was ever there, is left out.
func contents(tx *bbolt.Tx, fn func(section string, key, value []byte) error) error {
	if err := eachStored(tx, func(place []byte, s stored) error { return fn(sectionRows, place, s.row) }); err != nil {
		return err
	}
	if err := eachStored(tx, func(place []byte, s stored) error {
		if len(s.messages) == 0 {
			return nil
		}
		return fn(sectionMessages, place, s.messages)
	}); err != nil {
		return err
	}
	if err := tx.Bucket(bucketAudit).ForEach(func(k, v []byte) error { return fn(sectionAudit, k, v) }); err != nil {
		return err
	}
	return tx.Bucket(bucketLetters).ForEach(func(k, v []byte) error { return fn(sectionLetters, k, v) })
}

func eachStored(tx *bbolt.Tx, fn func(place []byte, s stored) error) error {
	return tx.Bucket(bucketLedger).ForEach(func(k, v []byte) error {
		s, err := splitStored(v)
		if err != nil {
			return err
		}
		return fn(k, s)
	})
}

// writeField writes a field with its length, so that no two lists of fields
// give the same bytes.
func writeField(h hash.Hash, field []byte) {
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(field)))
	h.Write(n[:])
	h.Write(field)
}
