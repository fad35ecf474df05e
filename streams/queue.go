package streams

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
)

// queue holds the entries that nobody has taken yet, in order.
type queue struct {
	wake chan struct{} // holds one token while there may be work

	mu      sync.Mutex // guards what follows
	entries []*entry
	closed  bool
}

func newQueue() *queue { return &queue{wake: make(chan struct{}, 1)} }

// append implements appender for whoever serves the queue.
func (q *queue) append(ctx context.Context, e *entry) error {
	if !q.enqueue(e) {
		return ErrClosed
	}
	select {
	case <-e.done:
		return e.err
	case <-ctx.Done():
	}
	if e.claim() {
		return fmt.Errorf("%w: nothing was sent: %w", ErrUnavailable, context.Cause(ctx))
	}
	select {
	case <-e.done:
		return e.err
	default:
		return fmt.Errorf("%w: %w", ErrUnknown, context.Cause(ctx))
	}
}

func (q *queue) enqueue(e *entry) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.entries = append(q.entries, e)
	select {
	case q.wake <- struct{}{}:
	default:
	}
	return true
}

// serve calls do when there may be something in the queue, until ctx is done, and
// once more when nothing more can come in.
//
// Whoever can append now does so first: many entries then go in one write, and
// are answered in one. Nothing waits for a timer.
func (q *queue) serve(ctx context.Context, do func()) {
	for {
		select {
		case <-ctx.Done():
			q.close()
			do()
			return
		case <-q.wake:
			runtime.Gosched()
			do()
		}
	}
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
}

// takeAll removes all from the queue.
func (q *queue) takeAll() []*entry {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.entries
	q.entries = nil
	return slices.DeleteFunc(all, func(e *entry) bool { return !e.claim() }) // whose caller gave up
}

// takeBatch removes from the queue what goes into the next commit, in order. What
// does not fit, or has a key that is already in it, stays for the one after.
func (q *queue) takeBatch() []*entry {
	q.mu.Lock()
	defer q.mu.Unlock()
	var batch, rest []*entry
	keys, bytes := make(map[string]bool, min(len(q.entries), maxBatch)), 0
	for _, e := range q.entries {
		full := len(batch) == maxBatch || len(batch) > 0 && bytes+e.size > maxBatchBytes
		if full || keys[e.key] {
			keys[e.key] = true // the ones behind it must not overtake it
			rest = append(rest, e)
			continue
		}
		if !e.claim() {
			continue // its caller gave up
		}
		keys[e.key] = true
		batch, bytes = append(batch, e), bytes+e.size
	}
	q.entries = rest
	return batch
}
