package bridge

import (
	"cmp"
	"runtime"
	"slices"
	"sync"
)

// acks puts together what is to be acknowledged on one channel, so that one
// acknowledgement stands for many: the broker looks for each in its list of
// what is outstanding, and each is a write of its own.
//
// Nothing waits for a timer or for a delivery that takes longer: what has ended
// while acknowledgements were written is acknowledged next.
type acks struct {
	mu    sync.Mutex // guards what follows
	busy  bool       // somebody is acknowledging, and will see to the queue
	queue []handled
	// outstanding are the tags taken and not queued or acknowledged yet, in order.
	outstanding []uint64
}

// took notes a delivery. It is called in the order of the channel.
func (a *acks) took(tag uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.outstanding = append(a.outstanding, tag)
}

// add queues h, and reports whether the caller must call next until there is
// nothing; else somebody else does.
func (a *acks) add(h handled) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if i, ok := slices.BinarySearch(a.outstanding, h.delivery.DeliveryTag); ok {
		a.outstanding = slices.Delete(a.outstanding, i, i+1)
	}
	a.queue = append(a.queue, h)
	first := !a.busy
	a.busy = true
	return first
}

// next returns what is queued. One acknowledgement of the last of together is
// enough for all of it, since nothing before that is outstanding; what is alone
// needs one each.
func (a *acks) next() (together, alone []handled) {
	runtime.Gosched() // what can end now ends first
	a.mu.Lock()
	defer a.mu.Unlock()
	batch := a.queue
	a.queue, a.busy = nil, len(batch) > 0
	slices.SortFunc(batch, func(x, y handled) int { return cmp.Compare(x.delivery.DeliveryTag, y.delivery.DeliveryTag) })
	n := len(batch)
	if len(a.outstanding) > 0 {
		n, _ = slices.BinarySearchFunc(batch, a.outstanding[0], func(h handled, tag uint64) int {
			return cmp.Compare(h.delivery.DeliveryTag, tag)
		})
	}
	return batch[:n], batch[n:]
}
