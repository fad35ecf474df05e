package store

import (
	"bytes"
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
		var bucket []byte
		for c := range contents(tx, bucketLedger, contentMessages, bucketAudit, bucketLetters) {
			if !bytes.Equal(c.bucket, bucket) {
				bucket = c.bucket
				writeField(h, bucket)
			}
			writeField(h, c.key)
			writeField(h, c.value)
		}
		return nil
	})
	return hex.EncodeToString(h.Sum(nil)), err
}

// writeField writes a field with its length, so that no two lists of fields
// give the same bytes.
func writeField(h hash.Hash, field []byte) {
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(field)))
	h.Write(n[:])
	h.Write(field)
}
