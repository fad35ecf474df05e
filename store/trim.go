package store

import (
	"encoding/binary"
	"fmt"

	"tidings/streams/event"
)

// Trim forgets what OUTCOMES no longer has: the entries below its first
// sequence, at most limit of them, and the rows whose last record is among
// them. It reports whether more is left to forget. After it the file is what
// folding the rest of the stream gives.
func (t *Tx) Trim(first uint64, limit int) (more bool, err error) {
	old, more, err := t.below(first, limit)
	if err != nil {
		return false, err
	}
	for _, e := range old {
		if err := t.trim(e); err != nil {
			return false, fmt.Errorf("forget entry %d: %w", e.Sequence, err)
		}
	}
	return more, nil
}

// Oldest returns the sequence of the oldest entry in the audit, 0 if there is none.
func (t *Tx) Oldest() uint64 {
	if t.oldest == 0 {
		if k, _ := t.tx.Bucket(bucketAudit).Cursor().First(); k != nil {
			t.oldest = binary.BigEndian.Uint64(k)
		}
	}
	return t.oldest
}

// trimmed is the part of an Entry that Trim needs.
type trimmed struct {
	Sequence   uint64           `json:"sequence"`
	Key        event.Key        `json:"key"`
	ID         string           `json:"id"`
	Redelivery *Redelivery      `json:"redelivery"`
	Operation  *event.Operation `json:"operation"`
}

func (t *Tx) below(first uint64, limit int) (old []trimmed, more bool, err error) {
	err = scan(t.tx.Bucket(bucketAudit).Cursor(), nil, nil, func(k, v []byte) (bool, error) {
		if binary.BigEndian.Uint64(k) >= first {
			return false, nil
		}
		if len(old) == limit {
			more = true
			return false, nil
		}
		var e trimmed
		if err := decode(v, &e); err != nil {
			return false, fmt.Errorf("decode entry: %w", err)
		}
		old = append(old, e)
		return true, nil
	})
	return old, more, err
}

func (t *Tx) trim(e trimmed) error {
	if e.Operation != nil {
		if err := t.forgetOperation(*e.Operation, e.Sequence); err != nil {
			return err
		}
		return t.tx.Bucket(bucketDuplicates).Delete(duplicateKey(e.Key, e.ID))
	}
	if err := t.forget(e.Key, e.Sequence); err != nil || e.Key == "" {
		return err
	}
	if e.Redelivery != nil {
		if err := t.tx.Bucket(bucketDuplicates).Delete(duplicateKey(e.Key, e.ID)); err != nil {
			return err
		}
		return t.countDuplicates(e.Key, -e.Redelivery.Count)
	}
	c, err := t.change(e.Key)
	if err != nil || c.after == nil || c.after.RecordSequence != e.Sequence {
		return err
	}
	c.remove()
	return nil
}
