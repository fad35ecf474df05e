package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"tidings/dispatcher/channel"
)

// stuckAfter is how long a sender may take to notice that its time is over. It
// fits in the margin between a call and the end of its lease.
const stuckAfter = time.Second

var errStuck = errors.New("the sender goes on although its time is over")

// send makes one call with a slot that was acquired, and gives the slot back when
// the call has ended. A sender that does not end with its context is left alone:
// its message may be sent, and its slot stays taken for as long as it goes on.
func (p *provider) send(ctx context.Context, m channel.Message) (channel.Receipt, error) {
	type answer struct {
		receipt channel.Receipt
		err     error
	}
	done := make(chan answer, 1)
	go func() {
		defer p.release()
		receipt, err := safeSend(ctx, p.Sender, m)
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
	p.stuck.Add(1)
	go func() { <-done; p.stuck.Add(-1) }()
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
