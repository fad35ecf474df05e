package streams

import (
	"context"
	"errors"
	"fmt"
	"sync"
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
	size        int  // bytes, about

	// Written by whoever commits the entry, before done is closed.
	sequence  uint64
	duplicate bool
	err       error
	done      chan struct{}

	claimed atomic.Bool // by the committer, or by a caller that gives up
}

func newEntry(msg *nats.Msg, key string) *entry {
	return newSizedEntry(msg, key, headerSize(msg.Header))
}

// newSizedEntry is for who knows the size of the headers.
func newSizedEntry(msg *nats.Msg, key string, headers int) *entry {
	size := len(msg.Data) + headers + len(msg.Subject)
	return &entry{msg: msg, key: key, size: size, done: make(chan struct{})}
}

func (e *entry) finish(sequence uint64, duplicate bool, err error) {
	e.sequence, e.duplicate, e.err = sequence, duplicate, err
	close(e.done)
}

// pipeline publishes every entry at once, from its caller's goroutine. Many
// callers share one connection, so one write carries many entries.
type pipeline struct {
	publisher *publisher
	started   chan struct{} // closed by run
	mu        sync.RWMutex  // held for reading while an append is under way
	closed    bool          // guarded by mu
}

func newPipeline(p *publisher) *pipeline {
	return &pipeline{publisher: p, started: make(chan struct{})}
}

func (p *pipeline) append(ctx context.Context, e *entry) error {
	select {
	case <-p.started:
	case <-ctx.Done():
		return notStarted(ctx)
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.closed {
		return ErrClosed
	}
	p.publisher.send(e)
	select {
	case <-e.done:
		return e.err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrUnknown, context.Cause(ctx))
	}
}

// run opens the pipeline until ctx is done, and waits for the appends under way.
func (p *pipeline) run(ctx context.Context) error {
	return p.publisher.run(func() {
		close(p.started)
		<-ctx.Done()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.closed = true
	})
}

func notStarted(ctx context.Context) error {
	return fmt.Errorf("%w: nothing was sent: %w", ErrUnavailable, context.Cause(ctx))
}

// mayBeStored reports whether err leaves open that the entry is stored.
func mayBeStored(err error) bool { return errors.Is(err, ErrUnknown) }
