package projector

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// queue is what is decoded and waits for its transaction. It has room for a whole
// batch, so that the next is decoded while one is written, and is bounded in bytes
// too.
type queue struct {
	items chan item
	room  *semaphore.Weighted
	bytes int64
}

func newQueue(o Options) *queue {
	return &queue{
		items: make(chan item, o.BatchMax), room: semaphore.NewWeighted(int64(o.batchBytes())), bytes: int64(o.batchBytes()),
	}
}

func (q *queue) weight(i item) int64 { return min(int64(len(i.Data)), q.bytes) }

// put adds an item, as soon as there is room. If there is, it does so also when ctx is
// done: what was seen is folded.
func (q *queue) put(ctx context.Context, i item) error {
	if w := q.weight(i); !q.room.TryAcquire(w) {
		if err := q.room.Acquire(ctx, w); err != nil {
			return err
		}
	}
	select {
	case q.items <- i:
		return nil
	default:
	}
	select {
	case q.items <- i:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// took makes room for what comes after an item that was received.
func (q *queue) took(i item) { q.room.Release(q.weight(i)) }
