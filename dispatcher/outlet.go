package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"tidings/dispatcher/channel"
)

// outlet is a channel with its bulkhead: at most so many calls at a time.
type outlet struct {
	Channel
	slots    chan struct{} // one for each call under way
	admitted chan struct{} // one for each event that holds a claim and may need it
	stuck    atomic.Int32  // calls that go on although their time is over
}

func newOutlet(c Channel) *outlet {
	c.Policy = c.Policy.withDefaults()
	n := c.Policy.Concurrency
	return &outlet{Channel: c, slots: make(chan struct{}, n), admitted: make(chan struct{}, n)}
}

// acquire waits for a free slot, at most until a call would not fit in the
// lease any more.
func (o *outlet) acquire(ctx context.Context, until time.Time) bool {
	select {
	case o.slots <- struct{}{}:
		return true
	default:
	}
	late := time.NewTimer(time.Until(until))
	defer late.Stop()
	select {
	case o.slots <- struct{}{}:
		return true
	case <-late.C:
		return false
	case <-ctx.Done():
		return false
	}
}

func (o *outlet) release() { <-o.slots }

// stuckAfter is how long a sender may take to notice that its time is over. It
// fits in the margin between a call and the end of its lease.
const stuckAfter = time.Second

var errStuck = errors.New("the sender goes on although its time is over")

// send makes one call with a slot that was acquired, and gives the slot back when
// the call has ended. A sender that does not end with its context is left alone:
// its message may be sent, and its slot stays taken for as long as it goes on.
func (o *outlet) send(ctx context.Context, m channel.Message) (channel.Receipt, error) {
	type answer struct {
		receipt channel.Receipt
		err     error
	}
	done := make(chan answer, 1)
	go func() {
		defer o.release()
		receipt, err := safeSend(ctx, o.Sender, m)
		done <- answer{receipt, err}
	}()
	select {
	case a := <-done:
		return a.receipt, a.err
	case <-ctx.Done():
	}
	select {
	case a := <-done:
		return a.receipt, a.err
	case <-time.After(stuckAfter):
	}
	o.stuck.Add(1)
	go func() { <-done; o.stuck.Add(-1) }()
	code, _ := channel.Fault(ctx.Err())
	return channel.Receipt{}, channel.Unknown(code, errStuck)
}

// safeSend turns a panic of a sender into an unknown fate: it may have sent.
func safeSend(ctx context.Context, s channel.Sender, m channel.Message) (receipt channel.Receipt, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = channel.Unknown("panic", fmt.Errorf("the sender panicked: %v", r))
		}
	}()
	return s.Send(ctx, m)
}
