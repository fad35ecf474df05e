package bridge

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// ackDelay is how long an acknowledgement may wait for others.
const ackDelay = 5 * time.Millisecond

// acks puts together what is to be acknowledged on one channel, so that one
// acknowledgement stands for many: each is a write of its own here, and in a
// quorum queue an entry of the log that its replicas have to agree on.
//
// What has ended waits until many have and nothing before them is outstanding,
// or nothing is outstanding at all. What waits behind a delivery that takes
// longer does so for at most twice ackDelay, and not if it is half the window.
type acks struct {
	many int    // how many are worth an acknowledgement; twice as many are worth one each
	wait func() // has late called after ackDelay; it is called with mu held

	mu          sync.Mutex // guards what follows
	busy        bool       // somebody is acknowledging, and will call next
	waiting     bool       // late will be called
	due         bool       // late was called
	ended       []*held    // in order of their tags
	outstanding []*held    // taken and not ended yet, in order of their tags
}

// took notes a delivery. It is called in the order of the channel.
func (a *acks) took(h *held) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.outstanding = append(a.outstanding, h)
}

// refuse answers for all that is outstanding.
func (a *acks) refuse() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, h := range a.outstanding {
		h.refuse()
	}
}

// add notes that h has ended, and reports whether the caller must call next until
// there is nothing.
func (a *acks) add(h *held) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if i, ok := search(a.outstanding, h.DeliveryTag); ok {
		a.outstanding = slices.Delete(a.outstanding, i, i+1)
	}
	i, _ := search(a.ended, h.DeliveryTag)
	a.ended = slices.Insert(a.ended, i, h)
	return a.begin()
}

// late reports whether the caller must call next until there is nothing, because
// something waits for too long.
func (a *acks) late() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting, a.due = false, true
	return a.begin()
}

// begin is called with mu held, like all that follows but next.
func (a *acks) begin() bool {
	switch {
	case a.busy:
		return false
	case a.worth() > 0 || a.due || a.clogged():
		a.busy = true
		return true
	}
	a.sleep()
	return false
}

// worth returns how many one acknowledgement is for, 0 if it should wait.
func (a *acks) worth() int {
	if len(a.outstanding) == 0 {
		return len(a.ended)
	}
	n, _ := search(a.ended, a.outstanding[0].DeliveryTag)
	if n < a.many && !a.due {
		return 0
	}
	return n
}

// clogged reports whether so much of the window waits for a delivery that takes
// longer that there is little left for others.
func (a *acks) clogged() bool { return len(a.ended) >= max(2*a.many, 2) }

// sleep has late called if there is a reason to.
func (a *acks) sleep() {
	if len(a.ended) > 0 && !a.waiting {
		a.waiting = true
		a.wait()
	}
}

// next returns what to acknowledge now. One acknowledgement of the last of
// together is enough for all of it, since nothing before that is outstanding;
// what is alone needs one each.
func (a *acks) next() (together, alone []*held) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n, clogged := a.worth(), a.clogged()
	together = slices.Clone(a.ended[:n])
	rest := a.ended[:0]
	for _, h := range a.ended[n:] {
		if a.due && h.waited || clogged {
			alone = append(alone, h)
			continue
		}
		h.waited = h.waited || a.due
		rest = append(rest, h)
	}
	clear(a.ended[len(rest):])
	a.ended, a.due = rest, false
	if len(together)+len(alone) == 0 {
		a.busy = false
		a.sleep()
	}
	return together, alone
}

// search returns where a tag is, or would be, in deliveries in order of their tags.
func search(of []*held, tag uint64) (int, bool) {
	return slices.BinarySearchFunc(of, tag, func(h *held, tag uint64) int { return cmp.Compare(h.DeliveryTag, tag) })
}
