package dispatcher

import (
	"context"
	"sync"

	"tidings/streams/event"
)

// inHand is the set of keys that this process is at work on. One key is worked
// on by one step at a time, so a step never finds a claim of its own process
// that is still being worked on.
type inHand struct {
	mu   sync.Mutex
	keys map[event.Key]chan struct{} // closed when the key is put down
}

// take waits until nobody has the key and takes it. The returned function puts
// it down. It fails only when ctx ends.
func (h *inHand) take(ctx context.Context, key event.Key) (putDown func(), err error) {
	for {
		busy, mine := h.tryTake(key)
		if mine != nil {
			return mine, nil
		}
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// tryTake returns either the channel that tells when the key is put down, or
// the function that puts it down.
func (h *inHand) tryTake(key event.Key) (busy <-chan struct{}, putDown func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if done, taken := h.keys[key]; taken {
		return done, nil
	}
	if h.keys == nil {
		h.keys = map[event.Key]chan struct{}{}
	}
	done := make(chan struct{})
	h.keys[key] = done
	return nil, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.keys, key)
		close(done)
	}
}

func (h *inHand) len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.keys)
}
