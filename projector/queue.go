package projector

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// Bounds of a queue.
const (
	queueMax   = 1000
	queueBytes = 4 << 20
)

// queue is what is decoded and waits for its transaction. It has room for a batch, or
// a good part of one that is large, so that the next is decoded while one is written,
// and is bounded in bytes too.
type queue struct {
	items chan item
	room  *semaphore.Weighted
}

func newQueue(o Options) *queue {
	return &queue{items: make(chan item, min(o.BatchMax, queueMax)), room: semaphore.NewWeighted(queueBytes)}
}

func weight(i item) int64 { return min(int64(len(i.Data)), queueBytes) }

// put adds an item, as soon as there is room. If there is, it does so also when ctx is
// done: what was seen is folded.
func (q *queue) put(ctx context.Context, i item) error {
	if w := weight(i); !q.room.TryAcquire(w) {
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
func (q *queue) took(i item) { q.room.Release(weight(i)) }
