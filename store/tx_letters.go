package store

import (
	"fmt"

	"tidings/streams/event"
)

// Letter puts a dead letter into the list. A newer letter of the same key takes
// the place of the older one; an older one changes nothing.
func (t *Tx) Letter(l Letter) error {
	if !l.Key.Valid() {
		return fmt.Errorf("dead letter at %d: %q is not a key", l.Sequence, l.Key)
	}
	before, err := t.letter(l.Key)
	if err != nil || before != nil && before.Sequence >= l.Sequence {
		return err
	}
	if l.Over, err = t.ended(l.Key, l.Sequence); err != nil {
		return err
	}
	if err := putJSON(t.tx.Bucket(bucketLetters), []byte(l.Key), l); err != nil {
		return err
	}
	return t.moveLetter(before, &l)
}

// DropLetter takes the letter of key out of the list if it is the one at
// sequence: the stream no longer has it.
func (t *Tx) DropLetter(key event.Key, sequence uint64) error {
	before, err := t.letter(key)
	if err != nil || before == nil || before.Sequence != sequence {
		return err
	}
	if err := t.tx.Bucket(bucketLetters).Delete([]byte(key)); err != nil {
		return err
	}
	return t.moveLetter(before, nil)
}

func (t *Tx) letter(key event.Key) (*Letter, error) {
	var l Letter
	found, err := getJSON(t.tx.Bucket(bucketLetters), []byte(key), &l)
	if err != nil || !found {
		return nil, err
	}
	return &l, nil
}

func (t *Tx) moveLetter(before, after *Letter) error {
	t.countLetter(before, -1)
	t.countLetter(after, +1)
	return t.moveAll(t.tx.Bucket(bucketIndex), movesOf(letterIndexKeys(before), letterIndexKeys(after)))
}

func (t *Tx) countLetter(l *Letter, by int) {
	if l == nil {
		return
	}
	t.counts[countLetters] += by
	t.counts[countCause+groupOf(l.Cause, l.Tenant)] += by
}
