package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"tidings/dispatcher/channel"
)

// slot waits until a call may be made, at most until it would not fit in the lease
// any more. The slot is given back by send, or by release.
func (o *seat) slot(ctx context.Context, until time.Time) bool {
	if !o.slots.TryAcquire(1) {
		ctx, cancel := context.WithDeadline(ctx, until)
		defer cancel()
		if o.slots.Acquire(ctx, 1) != nil {
			return false
		}
	}
	o.calls.Add(1)
	if ctx.Err() != nil || !o.token(ctx, until) || !o.breaker.lets(o.trial) {
		o.release()
		return false
	}
	return true
}

// token waits for one, but not past the given time.
func (o *outlet) token(ctx context.Context, until time.Time) bool {
	if o.tokens == nil {
		return true
	}
	now := o.now()
	r := o.tokens.ReserveN(now, 1)
	wait := r.DelayFrom(now)
	if wait <= 0 {
		return true
	}
	o.late.Add(1)
	if left := time.Until(until); wait > left {
		r.CancelAt(now)
		_ = sleep(ctx, left) // not to ask again at once
		return false
	}
	return sleep(ctx, wait) == nil
}

func (o *outlet) release() {
	o.calls.Add(-1)
	o.slots.Release(1)
}

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

const codePanic = "panic"

// panicError is a panic of a sender.
type panicError struct{ reason, stack string }

func (e *panicError) Error() string { return "the sender panicked: " + e.reason }

// safeSend turns a panic of a sender into an unknown fate: it may have sent.
func safeSend(ctx context.Context, s channel.Sender, m channel.Message) (receipt channel.Receipt, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = channel.Unknown(codePanic, &panicError{reason: fmt.Sprint(r), stack: string(debug.Stack())})
		}
	}()
	return s.Send(ctx, m)
}
