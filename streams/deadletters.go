package streams

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"tidings/streams/event"
)

// DeadLetters is the stream of what an operator must look at.
type DeadLetters struct {
	stream
	oversize *Oversize
}

// Put stores a letter unless one of the same or a later generation is there
// already, and returns the sequence of the one that is there afterwards. created
// says that it is this call's. It is safe to repeat. What is too large for one
// message of it, payload or headers, is stored as an object before.
//
// An attempt whose fate is unknown is repeated until ctx is done; then the error
// wraps [ErrUnknown]. Other errors: [ErrFull], [ErrUnavailable].
func (d *DeadLetters) Put(ctx context.Context, l event.Letter) (sequence uint64, created bool, err error) {
	p, err := d.put(l)
	if err != nil {
		return 0, false, err
	}
	err = d.repeat(ctx, func(bool) error { return p.attempt(ctx) })
	if err != nil {
		return 0, false, fmt.Errorf("put letter %s: %w", l.Key, err)
	}
	if p.created {
		d.tell(l)
	}
	return p.sequence, p.created, nil
}

// Replace stores a letter in the place of the one at a sequence, and returns its
// own. Of several that replace the same one, one wins; the others get
// [ErrChanged]. The other errors are those of Put.
func (d *DeadLetters) Replace(ctx context.Context, l event.Letter, at uint64) (sequence uint64, err error) {
	p, err := d.put(l)
	if err != nil {
		return 0, err
	}
	if err := d.repeat(ctx, func(bool) error { return p.replace(ctx, at) }); err != nil {
		return 0, fmt.Errorf("replace letter %s: %w", l.Key, err)
	}
	return p.sequence, nil
}

func (d *DeadLetters) put(l event.Letter) (*put, error) {
	subject, err := LetterSubject(l.Tenant, l.Key)
	if err != nil {
		return nil, fmt.Errorf("put letter: %w", err)
	}
	return &put{DeadLetters: d, letter: l, subject: subject, nonce: event.NewNonce()}, nil
}

// tell says once, for whoever watches the logs, that a letter needs an operator.
func (d *DeadLetters) tell(l event.Letter) {
	args := []any{"key", l.Key, "tenant", l.Tenant, "cause", l.Cause, "stage", l.Stage, "generation", l.Generation}
	if l.Event != nil {
		args = append(args, "type", l.Event.Type, "id", l.Event.ID)
	}
	detail, _, _ := strings.Cut(l.Detail, "\n") // of a panic, without the stack
	d.log.Warn("dead letter", append(args, "detail", detail)...)
}

// Get returns the letter under a key and its sequence, [ErrNotFound], or
// [ErrForeign] if what is there is no letter. It is whole, also where it was too large for one message, but for a payload larger
// than [MaxData]: that is left where PayloadObject says, see
// [DeadLetters.Payload]. So is what is damaged.
func (d *DeadLetters) Get(ctx context.Context, tenant string, key event.Key) (event.Letter, uint64, error) {
	subject, err := LetterSubject(tenant, key)
	if err != nil {
		return event.Letter{}, 0, fmt.Errorf("get letter: %w", err)
	}
	e, err := d.last(ctx, subject)
	if err != nil {
		return event.Letter{}, 0, err
	}
	var l event.Letter
	if err := json.Unmarshal(e.Data, &l); err != nil {
		return event.Letter{}, 0, fmt.Errorf("decode letter %s at %d: %w: %w", key, e.Sequence, ErrForeign, err)
	}
	if l, err = d.whole(ctx, l); err != nil {
		return event.Letter{}, 0, fmt.Errorf("get letter %s: %w", key, err)
	}
	return l, e.Sequence, nil
}

// Remove deletes the letter at a sequence for good, and the objects that belong
// to it: its generation has ended or an operator discarded it. It returns
// [ErrNotFound] if there is none. Objects that are left after another error are
// swept.
func (d *DeadLetters) Remove(ctx context.Context, sequence uint64) error {
	e, err := d.Entry(ctx, sequence)
	if err != nil {
		return fmt.Errorf("remove letter at %d: %w", sequence, err)
	}
	// Objects are looked up while the letter is there: one that is found later
	// may be that of another such letter, which is about to be written.
	objects, err := d.objects(ctx, e)
	if err == nil {
		err = d.purge(ctx, e.Subject, sequence+1) // and what is left of those before it
	}
	if err != nil {
		return fmt.Errorf("remove letter at %d: %w", sequence, err)
	}
	for _, o := range objects {
		if err := d.oversize.drop(ctx, o); err != nil {
			return fmt.Errorf("remove the object of the letter at %d: %w", sequence, err)
		}
	}
	return nil
}

// objects returns the objects that a letter names, as far as they are there.
func (d *DeadLetters) objects(ctx context.Context, letter Entry) ([]object, error) {
	var objects []object
	for _, name := range letter.Header.Values(HeaderObject) {
		o, err := d.oversize.find(ctx, name)
		switch {
		case err == nil:
			objects = append(objects, o)
		case !errors.Is(err, ErrNotFound):
			return nil, err
		}
	}
	return objects, nil
}
