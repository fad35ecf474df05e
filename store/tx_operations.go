package store

import (
	"fmt"

	"tidings/streams/event"
)

// Operation applies what an operator did about a delivery: an entry of the audit,
// found by the key of the letter and by that of the event that it has become. The
// letter is over, also if it is listed only later. The same operation appended
// twice counts once, in the place of the later entry.
func (t *Tx) Operation(p Place, op event.Operation) error {
	if !op.Letter.Key.Valid() || op.ID == "" {
		return fmt.Errorf("operation %q at %d: %q is not a key of a letter, or it has no id", op.ID, p.Sequence, op.Letter.Key)
	}
	b, k := t.tx.Bucket(bucketDuplicates), duplicateKey(op.Letter.Key, op.ID)
	var before seenAt
	found, err := getJSON(b, k, &before)
	if err != nil || found && before.Sequence >= p.Sequence {
		return err
	}
	if found {
		if err := t.forgetOperation(op, before.Sequence); err != nil {
			return err
		}
	}
	if err := putJSON(b, k, seenAt{Sequence: p.Sequence, Letter: op.Letter.Sequence}); err != nil {
		return err
	}
	if err := t.audit(operationEntry(p, op)); err != nil {
		return err
	}
	if op.Event != "" {
		if err := t.tx.Bucket(bucketHistory).Put(historyKey(op.Event, p.Sequence), nil); err != nil {
			return err
		}
	}
	return t.endLetter(op.Letter.Key, op.Letter.Sequence)
}

func (t *Tx) forgetOperation(op event.Operation, sequence uint64) error {
	if op.Event != "" {
		if err := t.tx.Bucket(bucketHistory).Delete(historyKey(op.Event, sequence)); err != nil {
			return err
		}
	}
	return t.forget(op.Letter.Key, sequence)
}

// endLetter marks the letter of a key as over if it is the one at a sequence.
func (t *Tx) endLetter(key event.Key, sequence uint64) error {
	l, err := t.letter(key)
	if err != nil || l == nil || l.Sequence != sequence {
		return err
	}
	l.Over = true
	return putJSON(t.tx.Bucket(bucketLetters), []byte(key), l)
}

// ended reports whether an operation has ended the letter at a sequence.
func (t *Tx) ended(key event.Key, sequence uint64) (bool, error) {
	prefix, found := []byte(key), false
	err := scan(t.tx.Bucket(bucketDuplicates).Cursor(), prefix, prefix, func(_, v []byte) (bool, error) {
		var at seenAt
		if err := decode(v, &at); err != nil {
			return false, fmt.Errorf("decode operation on %s: %w", key, err)
		}
		found = at.Letter == sequence
		return !found, nil
	})
	return found, err
}
