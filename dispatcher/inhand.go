package dispatcher

import (
	"context"
	"slices"
	"sync"

	"tidings/streams/event"
)

// inHand is the set of keys that this process is at work on. One key is worked
// on by one step at a time, so a step never finds a claim of its own process
// that is still being worked on. Steps get a key in the order in which they
// asked for it.
type inHand struct {
	mu    sync.Mutex
	waits map[event.Key][]chan struct{} // of each key in hand: whose turn comes next
}

// take waits until nobody has the key and takes it. The returned function puts
// it down. It fails only when ctx ends.
func (h *inHand) take(ctx context.Context, key event.Key) (putDown func(), err error) {
	turn := h.queue(key)
	select {
	case <-turn:
		return func() { h.next(key) }, nil
	default:
	}
	select {
	case <-turn:
		return func() { h.next(key) }, nil
	case <-ctx.Done():
		h.leave(key, turn)
		return nil, context.Cause(ctx)
	}
}

// queue returns the channel that is closed when the key is the caller's.
func (h *inHand) queue(key event.Key) chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	turn := make(chan struct{})
	waits, taken := h.waits[key]
	if taken {
		h.waits[key] = append(waits, turn)
		return turn
	}
	if h.waits == nil {
		h.waits = map[event.Key][]chan struct{}{}
	}
	h.waits[key] = nil
	close(turn)
	return turn
}

// next hands the key to whoever asked for it first, or puts it down.
func (h *inHand) next(key event.Key) {
	h.mu.Lock()
	defer h.mu.Unlock()
	waits := h.waits[key]
	if len(waits) == 0 {
		delete(h.waits, key)
		return
	}
	close(waits[0])
	h.waits[key] = waits[1:]
}

// leave gives up waiting. The turn may have come in the same moment: it is
// passed on.
func (h *inHand) leave(key event.Key, turn chan struct{}) {
	h.mu.Lock()
	i := slices.Index(h.waits[key], turn)
	if i >= 0 {
		h.waits[key] = slices.Delete(h.waits[key], i, i+1)
	}
	h.mu.Unlock()
	if i < 0 {
		h.next(key)
	}
}

func (h *inHand) len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.waits)
}
