package api

import (
	"context"
	"net/http"

	"golang.org/x/sync/semaphore"
)

// How many bodies of the largest size may be in hand at a time, and what part of
// that size is so small that it does not count: who sends slowly must not hold up
// small events.
const (
	largestInHand = 4
	smallPart     = 128
)

// room bounds the bytes of the bodies in hand. Each takes several times its size
// in memory until it is stored.
type room struct {
	bytes   *semaphore.Weighted
	largest int64 // of a body
}

func newRoom(largest int64) room {
	return room{bytes: semaphore.NewWeighted(largestInHand * largest), largest: largest}
}

// enter waits until there is room for the body of a request, within acceptTimeout.
// leave gives the room back.
func (r room) enter(req *http.Request) (leave func(), err error) {
	size := req.ContentLength
	if size < 0 || size > r.largest { // it does not say, or is refused as soon as it is larger
		size = r.largest
	}
	if size <= r.largest/smallPart {
		return func() {}, nil
	}
	ctx, cancel := context.WithTimeout(req.Context(), acceptTimeout)
	defer cancel()
	if err := r.bytes.Acquire(ctx, size); err != nil {
		return nil, err
	}
	return func() { r.bytes.Release(size) }, nil
}
