package bridge

import (
	"errors"
	"fmt"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// maxLosses is how many connections in a row may end over a message that cannot
// be read, without an acknowledgement between, before it is a crash-loop.
const maxLosses = 3

// errCalm ends a session of window 1 that found nothing wrong any more.
var errCalm = errors.New("messages can be read again")

// CrashLoopError says that each connection ends over the next message of the
// queue, because the client library cannot read its headers.
type CrashLoopError struct {
	Queue string
	Err   error // how the last connection ended
}

// Error implements error.
func (e *CrashLoopError) Error() string {
	return fmt.Sprintf("crash-loop: the next message of queue %q cannot be read and ends every connection. "+
		"Messages are taken one at a time now, so that a quorum queue with a delivery limit dead-letters this one alone. "+
		"From a classic queue, or one without a limit, take it out. "+
		"Headers may nest 32 deep, have 8192 names in a table, no values of type L, and be no larger than the broker's frame_max", e.Queue)
}

// Unwrap returns how the last connection ended.
func (e *CrashLoopError) Unwrap() error { return e.Err }

// crashLoop is what the ends of sessions say about messages that cannot be
// read. The zero value is that of a healthy queue.
type crashLoop struct {
	losses   int  // of connections over such a message, since the last acknowledgement
	isolated bool // deliveries are taken one at a time
}

// ended returns what is known after a session has ended with err. acked says
// that it acknowledged something. The first loss begins the isolation, since
// whatever is in the window at a loss gathers a delivery count: with a full
// window and some acknowledgements before each loss, healthy messages would
// reach the limit with the culprit. Only errCalm ends it, since there may be
// another such message behind the first.
func (l crashLoop) ended(acked bool, err error) crashLoop {
	if errors.Is(err, errCalm) {
		return crashLoop{}
	}
	if acked {
		l.losses = 0
	}
	if errors.Is(err, errUnreadable) {
		l.losses++
		l.isolated = true
	}
	return l
}

// looping reports that nothing gets past the message.
func (l crashLoop) looping() bool { return l.losses >= maxLosses }

// pause is how long to wait for the next session where normal is the rule, and
// least the least time in a crash-loop.
func (l crashLoop) pause(normal, least time.Duration) time.Duration {
	if l.looping() {
		return max(normal, least)
	}
	return normal
}

// window is how many deliveries to take at a time where normal is the rule.
func (l crashLoop) window(normal int) int {
	if l.isolated {
		return 1
	}
	return normal
}

// unreadable recognises the end of a connection over a message that the client
// library cannot read.
func unreadable(err error) error {
	broker, ok := errors.AsType[*amqp.Error](err)
	if !ok {
		return err
	}
	for _, reason := range []string{amqp.ErrSyntax.Reason, amqp.ErrFrameTooLarge.Reason} {
		if strings.Contains(broker.Reason, reason) {
			return errUnreadable
		}
	}
	return err
}

// calmDown ends the session because it need not be isolated any more.
func (ss *session) calmDown() {
	select {
	case ss.calm <- struct{}{}:
	default: // somebody else said so
	}
}
