package store

import (
	"encoding/json"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"

	"tidings/streams/event"
)

// Tx is a transaction that folds entries into the ledger. It belongs to the
// function that [Store.Update] calls, and to its goroutine.
type Tx struct {
	tx     *bbolt.Tx
	store  *Store
	rows   map[event.Key]*change
	moves  moves
	counts map[string]int // by how much they change
	hours  map[string]int // the same
	oldest uint64         // sequence in the audit; 0: not known
	row    []byte         // room for the JSON of one
}

// Update runs fn in one transaction: everything it applies is written together
// or, if fn or the disk returns an error, not at all.
func (s *Store) Update(fn func(*Tx) error) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.broken.Load() {
		return fmt.Errorf("write ledger %s: %w: %s", s.path, ErrDamaged, rebuild)
	}
	db := s.db.Load()
	err := guarded(s.path, func() error {
		return db.Update(func(btx *bbolt.Tx) error {
			db.AllocSize = allocSize(btx.Size())
			tx := &Tx{tx: btx, store: s, rows: map[event.Key]*change{}, counts: map[string]int{}, hours: map[string]int{}}
			if err := fn(tx); err != nil {
				return err
			}
			return tx.flush()
		})
	})
	if errors.Is(err, ErrDamaged) {
		s.broken.Store(true)
	}
	if err != nil {
		return fmt.Errorf("write ledger: %w", err)
	}
	return nil
}

// forgetAfter is how many keys may have been moved before the memory is given back
// through which their pages were read. With each page the system maps some
// neighbours, so that by and by all of a large file would count as memory that a
// process that only writes makes use of.
const forgetAfter = 1000

// moved notes that a key was moved.
func (t *Tx) moved() {
	if t.store.moved++; t.store.moved == forgetAfter {
		unmap(t.tx)
		t.store.moved = 0
	}
}

// Record applies a record of OUTCOMES: an entry of the audit, and the event's
// row and messages unless they are of a later record.
func (t *Tx) Record(p Place, r event.Record) error {
	prepared, err := Prepare(p, r, event.Parts{})
	if err != nil {
		return err
	}
	return t.Prepared(prepared)
}

// Prepared is [Tx.Record] of a record that was prepared.
func (t *Tx) Prepared(p *Prepared) error {
	sequence := p.row.RecordSequence
	if err := t.putEntry(sequence, p.entry); err != nil {
		return err
	}
	c, err := t.change(p.row.Key)
	if err != nil {
		return err
	}
	row := p.row
	switch {
	case c.after == nil:
		if row.Duplicates, err = t.duplicatesOf(row.Key); err != nil {
			return err
		}
	case c.after.RecordSequence > sequence:
		c.record(sequence, nil, "", nil)
		return nil
	default:
		row.Duplicates = c.after.Duplicates
	}
	c.record(sequence, &row, p.messages, p.recipients)
	return nil
}

// Duplicate applies a duplicate of OUTCOMES: an entry of the audit, and one
// more in the event's row, if there is one. The same duplicate appended twice
// counts once, in the place of the later entry.
func (t *Tx) Duplicate(p Place, d event.Duplicate) error {
	key := d.Event.Key
	if !key.Valid() || d.ID == "" {
		return fmt.Errorf("duplicate %q at %d: %q is not an event key, or it has no id", d.ID, p.Sequence, key)
	}
	count, newer, err := t.seen(p, d)
	if err != nil || !newer {
		return err
	}
	if err := t.audit(duplicateEntry(p, d)); err != nil {
		return err
	}
	return t.countDuplicates(key, count)
}

// seenAt is the value of bucketDuplicates.
type seenAt struct {
	Sequence uint64 `json:"sequence"`
	Count    int    `json:"count"`
	Letter   uint64 `json:"letter,omitempty"` // of an operation: the letter that it ended
}

// seen notes the place of a duplicate, and takes the entry that it repeats out
// of the audit. It returns by how much the event's duplicates grow, and whether
// the entry is new.
func (t *Tx) seen(p Place, d event.Duplicate) (grow int, newer bool, err error) {
	b, k := t.tx.Bucket(bucketDuplicates), duplicateKey(d.Event.Key, d.ID)
	var before seenAt
	found, err := getJSON(b, k, &before)
	if err != nil || found && before.Sequence >= p.Sequence {
		return 0, false, err
	}
	if found {
		if err := t.forget(d.Event.Key, before.Sequence); err != nil {
			return 0, false, err
		}
	}
	now := seenAt{Sequence: p.Sequence, Count: max(1, d.Count)}
	return now.Count - before.Count, true, putJSON(b, k, now)
}

// Unknown keeps an entry of OUTCOMES that this version does not understand, to
// be shown. key is the event that it belongs to, or empty.
func (t *Tx) Unknown(p Place, key event.Key, kind event.Kind, u Unknown) error {
	if !key.Valid() {
		key = ""
	}
	return t.audit(Entry{Sequence: p.Sequence, StoredAt: p.Time.UTC(), Key: key, Kind: kind, Unknown: &u})
}

// Row returns the row of an event as it stands in this transaction, nil if
// there is none.
func (t *Tx) Row(key event.Key) (*Row, error) {
	c, err := t.change(key)
	if err != nil {
		return nil, err
	}
	return c.after, nil
}

// audit writes an entry that is not a record's. Written again, it is the same.
func (t *Tx) audit(e Entry) error {
	data, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode entry %d: %w", e.Sequence, err)
	}
	if err := t.putEntry(e.Sequence, data); err != nil || e.Key == "" {
		return err
	}
	return t.tx.Bucket(bucketHistory).Put(historyKey(e.Key, e.Sequence), nil)
}

func (t *Tx) putEntry(sequence uint64, entry []byte) error {
	if t.oldest > sequence {
		t.oldest = sequence
	}
	b := t.tx.Bucket(bucketAudit)
	b.FillPercent = fillAppended
	if err := b.Put(sequenceKey(sequence), entry); err != nil {
		return fmt.Errorf("put entry %d: %w", sequence, err)
	}
	return nil
}

// forget takes an entry out of the audit.
func (t *Tx) forget(key event.Key, sequence uint64) error {
	if t.oldest == sequence {
		t.oldest = 0
	}
	if err := t.tx.Bucket(bucketAudit).Delete(sequenceKey(sequence)); err != nil {
		return err
	}
	if key == "" {
		return nil
	}
	return t.tx.Bucket(bucketHistory).Delete(historyKey(key, sequence))
}

// duplicatesOf counts the duplicates of an event that came before its row.
func (t *Tx) duplicatesOf(key event.Key) (int, error) {
	n := 0
	prefix := []byte(key)
	err := scan(t.tx.Bucket(bucketDuplicates).Cursor(), prefix, prefix, func(_, v []byte) (bool, error) {
		var at seenAt
		if err := decode(v, &at); err != nil {
			return false, fmt.Errorf("decode duplicate of %s: %w", key, err)
		}
		n += at.Count
		return true, nil
	})
	return n, err
}

func (t *Tx) countDuplicates(key event.Key, by int) error {
	t.counts[countDuplicates] += by
	c, err := t.change(key)
	if err != nil || c.after == nil || by == 0 {
		return err
	}
	row := *c.after
	row.Duplicates += by
	c.after, c.changed = &row, true
	return nil
}
