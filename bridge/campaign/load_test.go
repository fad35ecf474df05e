package campaign_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// load publishes numbered events to a queue at a steady rate. One that RabbitMQ
// does not confirm, whatever the reason, is published again with the same id
// until it does. So what it counts is exact: the ids from 0 up to the count are
// in the queue, or were, and no other ever was.
type load struct {
	url, queue string
	pad        string // makes bodies larger

	confirmed atomic.Int64
	again     atomic.Int64 // publishings that repeat an id

	quiet sync.Mutex // held while something is not confirmed; guards what follows

	conn     *amqp.Connection
	ch       *amqp.Channel
	returned chan amqp.Return
}

// eventID is the id of a number.
func eventID(n int) string { return fmt.Sprintf("e-%06d", n) }

const (
	batches         = 20 // a second
	maxBatch        = 1000
	reconnects      = 50 * time.Millisecond
	confirmedWithin = 30 * time.Second
)

// run publishes rate events a second until ctx is done. When it returns, all
// that it published is confirmed.
func (l *load) run(ctx context.Context, rate int) {
	tick := time.NewTicker(time.Second / batches)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-tick.C:
			l.publish(max(rate/batches, 1))
		case <-ctx.Done():
		}
	}
}

// publish publishes n events more and returns when they are confirmed.
func (l *load) publish(n int) {
	l.quiet.Lock()
	defer l.quiet.Unlock()
	first := int(l.confirmed.Load())
	open := make([]int, n)
	for i := range open {
		open[i] = first + i
	}
	for {
		if open = l.try(open); len(open) == 0 {
			break
		}
		l.again.Add(int64(len(open)))
		time.Sleep(reconnects)
	}
	l.confirmed.Add(int64(n))
}

// quietly does something while all that was published is confirmed.
func (l *load) quietly(do func()) {
	l.quiet.Lock()
	defer l.quiet.Unlock()
	do()
}

// try publishes events once, and returns those that are not confirmed.
func (l *load) try(events []int) (open []int) {
	if err := l.connect(); err != nil {
		l.disconnect()
		return events
	}
	confirms := make([]*amqp.DeferredConfirmation, len(events))
	for i, n := range events {
		var err error
		confirms[i], err = l.ch.PublishWithDeferredConfirm("", l.queue, true, false, amqp.Publishing{
			MessageId: eventID(n), Type: "order.placed", ContentType: "application/json", DeliveryMode: amqp.Persistent,
			Body: fmt.Appendf(nil, `{"n":%d,"pad":%q}`, n, l.pad),
		})
		if err != nil {
			break // the connection is gone, and with it the confirmations before
		}
	}
	// Waiting ends when the channel does, but not for what was published while it
	// was ending: the library answers that never.
	ctx, cancel := context.WithTimeout(context.Background(), confirmedWithin)
	defer cancel()
	for i, c := range confirms {
		if c == nil {
			open = append(open, events[i])
		} else if ok, err := c.WaitContext(ctx); err != nil || !ok {
			open = append(open, events[i])
		}
	}
	if ctx.Err() != nil {
		l.disconnect() // a confirmation that comes now is nobody's
	}
	select {
	case <-l.returned: // some were in no queue, and are confirmed all the same
		return events
	default:
		return open
	}
}

func (l *load) connect() (err error) {
	if l.ch != nil && !l.ch.IsClosed() {
		return nil
	}
	l.disconnect()
	if l.conn, err = amqp.Dial(l.url); err != nil {
		return err
	}
	if l.ch, err = l.conn.Channel(); err != nil {
		return err
	}
	l.returned = l.ch.NotifyReturn(make(chan amqp.Return, maxBatch))
	return l.ch.Confirm(false)
}

func (l *load) close() { l.quietly(l.disconnect) }

func (l *load) disconnect() {
	if l.conn != nil {
		_ = l.conn.CloseDeadline(time.Now().Add(time.Second))
	}
	l.conn, l.ch = nil, nil
}
