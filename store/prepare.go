package store

import (
	"fmt"

	"tidings/streams/event"
)

// Prepared is what a record brings into the ledger and does not depend on what is
// there: it can be made before the transaction, and beside another one.
type Prepared struct {
	entry      []byte // of the audit
	row        Row    // without its duplicates
	messages   string // encoded
	recipients []string
}

// Prepare prepares a record of OUTCOMES, of which parts may be there encoded.
func Prepare(p Place, r event.Record, parts event.Parts) (*Prepared, error) {
	if !r.Event.Key.Valid() {
		return nil, fmt.Errorf("record %s at %d: %q is not an event key", r.ID, p.Sequence, r.Event.Key)
	}
	var err error
	if parts.Facts == "" {
		if parts.Facts, err = encodeJSON(r.Facts); err != nil {
			return nil, fmt.Errorf("record %s at %d: %w", r.ID, p.Sequence, err)
		}
	}
	if parts.Messages == "" && len(r.State.Messages) > 0 {
		if parts.Messages, err = encodeJSON(r.State.Messages); err != nil {
			return nil, fmt.Errorf("record %s at %d: %w", r.ID, p.Sequence, err)
		}
	}
	entry, err := appendRecordEntry(make([]byte, 0, 256+len(parts.Facts)), recordEntry(p, r), parts.Facts)
	if err != nil {
		return nil, fmt.Errorf("encode record %s at %d: %w", r.ID, p.Sequence, err)
	}
	return &Prepared{
		entry: entry, row: newRow(p.Sequence, r, 0), messages: parts.Messages, recipients: recipientsOf(r.State.Messages),
	}, nil
}
