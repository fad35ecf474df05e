package streams

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/nats-io/nats.go"
)

// appender stores entries in one stream. There are two: [committer] groups
// them and [pipeline] does not.
type appender interface {
	// append returns once e is stored or certainly refused, or when ctx is
	// done, in which case its fate may be unknown. Errors are those of
	// publishError, and ErrClosed.
	append(ctx context.Context, e *entry) error
	run(ctx context.Context) error
}

// entry is one message on its way into a stream. It is used for one append;
// its message may be used again for the next, once append has returned
// without ctx being done.
type entry struct {
	msg *nats.Msg
	// key is what a batch may hold only once: the subject where the append is
	// conditional, else an id.
	key string
	// after is the expected last sequence of the subject, if conditional.
	after       uint64
	conditional bool
	single      bool // never in a batch
	parts       int  // of the batch that it commits; 0: none
	size        int  // bytes, about

	// Written by whoever commits the entry, before done is closed.
	sequence  uint64
	duplicate bool
	err       error
	done      chan struct{}

	claimed atomic.Bool // by whoever takes it from the queue, or by a caller that gives up
}

func newEntry(msg *nats.Msg, key string) *entry {
	return newSizedEntry(msg, key, headerSize(msg.Header))
}

// newSizedEntry is for who knows the size of the headers.
func newSizedEntry(msg *nats.Msg, key string, headers int) *entry {
	size := len(msg.Data) + headers + len(msg.Subject)
	return &entry{msg: msg, key: key, size: size, done: make(chan struct{})}
}

// claim reports whether nobody else has claimed e.
func (e *entry) claim() bool { return e.claimed.CompareAndSwap(false, true) }

func (e *entry) finish(sequence uint64, duplicate bool, err error) {
	e.sequence, e.duplicate, e.err = sequence, duplicate, err
	close(e.done)
}

// pipeline sends what is queued without waiting for answers.
type pipeline struct {
	*queue
	publisher *publisher
}

func newPipeline(p *publisher) *pipeline { return &pipeline{queue: newQueue(), publisher: p} }

// run sends until ctx is done, then what is queued, and returns when all of it
// is finished.
func (p *pipeline) run(ctx context.Context) error {
	return p.publisher.run(func() { p.serve(ctx, p.sendQueued) })
}

func (p *pipeline) sendQueued() {
	for _, e := range p.takeAll() {
		p.publisher.send(e)
	}
}

// mayBeStored reports whether err leaves open that the entry is stored.
func mayBeStored(err error) bool { return errors.Is(err, ErrUnknown) }
