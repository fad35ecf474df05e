package streams

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tidings/streams/event"
)

// put is one letter on its way.
type put struct {
	*DeadLetters
	letter   event.Letter
	subject  string
	nonce    string
	msg      *nats.Msg // nil until it is needed, since objects are stored for it
	sequence uint64
	created  bool
}

// attempt looks at what is there and appends on top of it. Both are repeated
// when somebody else was faster.
func (p *put) attempt(ctx context.Context) error {
	last, err := p.last(ctx, p.subject)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	if err == nil && generationOf(last) >= p.letter.Generation {
		p.sequence, p.created = last.Sequence, p.wrote(last)
		p.alone(ctx)
		return nil
	}
	if last.Sequence == 0 {
		if err := p.roomForNew(ctx); err != nil {
			return err
		}
	}
	return p.publish(ctx, last)
}

// spareForLetters is the most that is left for what becomes of letters that are
// there; else it is a twentieth of the stream.
const spareForLetters = 64 << 20

// roomForNew is [ErrFull] where what is left is for letters that are there: an operator's
// name on one, an edit, the letter of the next generation. In a full stream nothing takes the
// place of a letter, so that nobody could make room.
func (p *put) roomForNew(ctx context.Context) error {
	info, err := p.Info(ctx)
	if err != nil {
		return err
	}
	if limit := info.MaxBytes; limit > 0 && info.Bytes > uint64(limit-min(limit/20, spareForLetters)) {
		return p.reserved()
	}
	return nil
}

// replace appends on top of the letter at a sequence, which may have happened
// already by a try before whose answer was lost.
func (p *put) replace(ctx context.Context, at uint64) error {
	last, err := p.last(ctx, p.subject)
	switch {
	case err != nil && !errors.Is(err, ErrNotFound):
		return err
	case err == nil && p.wrote(last):
		p.sequence = last.Sequence
		p.alone(ctx)
		return nil
	case err != nil || last.Sequence != at:
		return fmt.Errorf("the letter at %d: %w", at, ErrChanged)
	}
	return p.publish(ctx, last)
}

// wrote reports whether an entry is of a try before, whose answer was lost.
func (p *put) wrote(e Entry) bool { return e.Header.Get(HeaderNonce) == p.nonce }

// alone removes the letters before the one that is there now. Those that it cannot
// remove count for nothing, and go with the next.
func (p *put) alone(ctx context.Context) { _ = p.purge(ctx, p.subject, p.sequence) }

// publish appends on top of a letter, or of none. The letter before goes, and so do
// the objects that only it names.
func (p *put) publish(ctx context.Context, last Entry) (err error) {
	if p.msg == nil {
		p.msg, err = p.fit(ctx, p.letter, p.subject, p.nonce)
	}
	if err != nil {
		return err
	}
	before, err := p.objects(ctx, last)
	if err != nil {
		return err
	}
	if p.sequence, err = p.append(ctx, last.Sequence); err != nil {
		return err
	}
	p.created = true
	if last.Sequence > 0 {
		p.alone(ctx)
	}
	for _, o := range before {
		if !slices.Contains(p.msg.Header.Values(HeaderObject), o.info.Name) {
			_ = p.oversize.drop(ctx, o) // else it is swept
		}
	}
	return nil
}

// append appends on top of the letter at a sequence, or of none at 0.
func (p *put) append(ctx context.Context, after uint64) (uint64, error) {
	p.msg.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(after, 10))
	ctx, cancel := withAckWait(ctx, p.nc)
	defer cancel()
	ack, err := p.js.PublishMsg(ctx, p.msg)
	if err != nil {
		return 0, publishError(err)
	}
	return ack.Sequence, nil
}

func generationOf(e Entry) int {
	n, _ := strconv.Atoi(e.Header.Get(HeaderGeneration))
	return n
}
