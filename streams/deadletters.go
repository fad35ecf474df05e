package streams

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tidings/streams/event"
)

// DeadLetters is the stream of what an operator must look at.
type DeadLetters struct{ stream }

// Put stores a letter unless one of the same or a later generation is there
// already, and returns the sequence of the one that is there afterwards. created
// says that it is this call's. It is safe to repeat. An attempt whose fate is
// unknown is repeated until ctx is done; then the error wraps [ErrUnknown].
// Other errors: [ErrFull], a *[TooLargeError], [ErrUnavailable].
func (d *DeadLetters) Put(ctx context.Context, l event.Letter) (sequence uint64, created bool, err error) {
	p, err := d.put(l)
	if err != nil {
		return 0, false, err
	}
	err = repeat(ctx, d.pauses(), func(bool) error { return p.attempt(ctx) })
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
	if err := repeat(ctx, d.pauses(), func(bool) error { return p.replace(ctx, at) }); err != nil {
		return 0, fmt.Errorf("replace letter %s: %w", l.Key, err)
	}
	return p.sequence, nil
}

func (d *DeadLetters) put(l event.Letter) (*put, error) {
	subject, err := LetterSubject(l.Tenant, l.Key)
	if err != nil {
		return nil, fmt.Errorf("put letter: %w", err)
	}
	data, err := encodeJSON(l)
	if err != nil {
		return nil, fmt.Errorf("put letter %s: %w", l.Key, err)
	}
	nonce := event.NewNonce()
	return &put{
		DeadLetters: d, generation: l.Generation, nonce: nonce,
		msg: &nats.Msg{Subject: subject, Data: data, Header: letterHeaders(l, nonce)},
	}, nil
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

// put is one letter on its way.
type put struct {
	*DeadLetters
	msg        *nats.Msg
	generation int
	nonce      string
	sequence   uint64
	created    bool
}

// attempt looks at what is there and appends on top of it. Both are repeated
// when somebody else was faster.
func (p *put) attempt(ctx context.Context) error {
	last, err := p.last(ctx, p.msg.Subject)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	if err == nil && generationOf(last) >= p.generation {
		p.sequence, p.created = last.Sequence, last.Header.Get(HeaderNonce) == p.nonce
		return nil
	}
	return p.publish(ctx, last.Sequence)
}

// replace appends on top of the letter at a sequence, which may have happened
// already by a try before whose answer was lost.
func (p *put) replace(ctx context.Context, at uint64) error {
	last, err := p.last(ctx, p.msg.Subject)
	switch {
	case err != nil && !errors.Is(err, ErrNotFound):
		return err
	case err == nil && last.Header.Get(HeaderNonce) == p.nonce:
		p.sequence = last.Sequence
		return nil
	case err != nil || last.Sequence != at:
		return fmt.Errorf("the letter at %d: %w", at, ErrChanged)
	}
	return p.publish(ctx, at)
}

// publish appends on top of the letter at a sequence, or of none at 0.
func (p *put) publish(ctx context.Context, after uint64) error {
	p.msg.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(after, 10))
	ctx, cancel := withAckWait(ctx, p.nc)
	defer cancel()
	ack, err := p.js.PublishMsg(ctx, p.msg)
	if err != nil {
		return publishError(err)
	}
	p.sequence, p.created = ack.Sequence, true
	return nil
}

func generationOf(e Entry) int {
	n, _ := strconv.Atoi(e.Header.Get(HeaderGeneration))
	return n
}

// Get returns the letter under a key and its sequence, [ErrNotFound], or
// [ErrForeign] if what is there is no letter.
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
	return l, e.Sequence, nil
}

// Remove deletes the letter at a sequence for good: its generation has ended
// or an operator discarded it. It returns [ErrNotFound] if there is none.
func (d *DeadLetters) Remove(ctx context.Context, sequence uint64) error {
	ctx, cancel := withAckWait(ctx, d.nc)
	defer cancel()
	err := d.handle.DeleteMsg(ctx, sequence)
	if err == nil {
		return nil
	}
	// The client does not pass on which error it was.
	if _, absent := d.Entry(ctx, sequence); errors.Is(absent, ErrNotFound) {
		return fmt.Errorf("remove letter at %d: %w", sequence, ErrNotFound)
	}
	return fmt.Errorf("remove letter at %d: %w: %w", sequence, ErrUnavailable, err)
}
