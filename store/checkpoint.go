package store

import (
	"fmt"
	"time"

	"go.etcd.io/bbolt"
)

// Checkpoint says how far a stream is folded in, and by what to recognise the
// stream again.
type Checkpoint struct {
	Stream      string    `json:"stream"`
	Created     time.Time `json:"created"`     // when the stream was made
	Sequence    uint64    `json:"seq"`         // of the last entry folded in
	Fingerprint string    `json:"fingerprint"` // of that entry
	Schema      int       `json:"schema"`      // of what it was folded into; set by the store
}

// Checkpoint moves the checkpoint of c.Stream.
func (t *Tx) Checkpoint(c Checkpoint) error {
	c.Schema = Schema
	return putJSON(t.tx.Bucket(bucketCheckpoint), []byte(c.Stream), c)
}

// Checkpoint returns the checkpoint of a stream, the zero Checkpoint if nothing
// of it is folded in.
func (s *Store) Checkpoint(stream string) (Checkpoint, error) {
	var c Checkpoint
	err := s.view(func(tx *bbolt.Tx) error {
		if _, err := getJSON(tx.Bucket(bucketCheckpoint), []byte(stream), &c); err != nil {
			return fmt.Errorf("checkpoint of %s: %w", stream, err)
		}
		return nil
	})
	return c, err
}
