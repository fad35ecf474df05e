package store

import (
	"encoding/binary"
	"encoding/json"
	"fmt"

	"tidings/streams/event"
)

// Replay keeps an entry of a replay plan, to be shown. It is no event's.
func (t *Tx) Replay(p Place, r event.Replay) error {
	return t.audit(Entry{Sequence: p.Sequence, StoredAt: p.Time.UTC(), Kind: event.KindReplay, ID: r.ID, At: r.At, Replay: &r})
}

// Skip keeps an operator's word that an entry is skipped, to be shown with the event
// that the entry is about, if it says so.
func (t *Tx) Skip(p Place, s event.Skip) error {
	return t.audit(Entry{Sequence: p.Sequence, StoredAt: p.Time.UTC(), Key: s.Event, Kind: event.KindSkip, ID: s.ID, At: s.At, Skip: &s})
}

// UnknownAfter reports whether there is an entry of an event after a sequence that
// is kept and was not folded, see [Tx.Unknown].
func (t *Tx) UnknownAfter(key event.Key, sequence uint64) (found bool, err error) {
	audit := t.tx.Bucket(bucketAudit)
	err = scan(t.tx.Bucket(bucketHistory).Cursor(), historyKey(key, sequence+1), []byte(key), func(k, _ []byte) (bool, error) {
		at := binary.BigEndian.Uint64(k[len(key):])
		var e struct {
			Unknown *json.RawMessage `json:"unknown"`
		}
		if err := decode(audit.Get(sequenceKey(at)), &e); err != nil {
			return false, fmt.Errorf("decode entry %d: %w", at, err)
		}
		found = e.Unknown != nil
		return !found, nil
	})
	return found, err
}
