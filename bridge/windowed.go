package bridge

import (
	"context"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// windowed is an intake by one channel with one consumer. Its prefetch count is
// the window.
type windowed struct {
	*session
	ch         *amqp.Channel
	deliveries <-chan amqp.Delivery
	cancelled  chan string
	closing    chan *amqp.Error
	acks       acks
}

func newWindowed(ss *session) intake {
	w := &windowed{session: ss}
	// It is not to fire before it is reset, also if this goroutine is held up
	// between the two lines.
	later := time.AfterFunc(time.Hour, func() {
		if w.acks.late() {
			w.acknowledge()
		}
	})
	later.Stop()
	w.acks.many, w.acks.wait = max(ss.window/4, 1), func() { later.Reset(ackDelay) }
	return w
}

func (w *windowed) open(ctx context.Context) (err error) {
	c := w.sub.config
	if w.conn, err = dial(ctx, c.Connection); err != nil {
		return fmt.Errorf("connect to %s: %w", w.sub.state.status.Broker, err)
	}
	if err := w.prepare(); err != nil {
		return err
	}
	if w.ch, err = w.conn.Channel(); err != nil {
		return fmt.Errorf("open a channel: %w", err)
	}
	if err := w.ch.Qos(w.window, 0, false); err != nil {
		return fmt.Errorf("set the window: %w", err)
	}
	w.cancelled = w.ch.NotifyCancel(make(chan string, 1))
	w.closing = w.ch.NotifyClose(make(chan *amqp.Error, 1))
	w.consumers = 1
	queue := c.Queue.GenerateName("")
	w.deliveries, err = w.ch.Consume(queue, c.Consume.Consumer, false, c.Consume.Exclusive, false, false, c.Consume.Arguments)
	if err != nil {
		// The first delivery may be quicker than this call.
		return fmt.Errorf("consume queue %q: %w", queue, unreadable(err))
	}
	return nil
}

func (w *windowed) pump(ctx context.Context) error {
	defer func() { _ = w.ch.Cancel(w.sub.config.Consume.Consumer, true) }()
	for {
		select {
		case <-ctx.Done():
			return errStopping
		case err := <-w.given:
			return &DestinationError{err}
		case <-w.calm:
			return errCalm
		case d, ok := <-w.deliveries:
			if !ok {
				return w.reason()
			}
			if ctx.Err() != nil {
				return errStopping // what is not taken comes again
			}
			if err := w.refuse(d); err != nil {
				return err
			}
			w.take(ctx, d)
		}
	}
}

// reason says why there are no more deliveries.
func (w *windowed) reason() error {
	select {
	case _, said := <-w.cancelled:
		if said { // closed without a word when the channel ends
			return errCancelled
		}
	default:
	}
	select {
	case err := <-w.closing:
		return w.lost(err)
	case <-time.After(closeTimeout):
		return errDeliveriesEnd
	}
}

// take hands one delivery on and looks after it from then on.
func (w *windowed) take(ctx context.Context, d amqp.Delivery) {
	h := w.hold(d)
	w.acks.took(h)
	if !w.hand(ctx, h) {
		return
	}
	go func() {
		if w.await(h) && w.acks.add(h) {
			w.acknowledge()
		}
	}()
}

// acknowledge acknowledges what is due.
func (w *windowed) acknowledge() {
	for {
		together, alone := w.acks.next()
		if len(together)+len(alone) == 0 {
			return
		}
		if len(together) > 0 {
			w.ack(together...)
		}
		for _, h := range alone {
			w.ack(h)
		}
	}
}

// ack acknowledges one delivery, or several if nothing before the last of them
// is outstanding.
func (w *windowed) ack(of ...*held) {
	err := of[len(of)-1].Ack(len(of) > 1)
	if err == nil {
		w.acknowledged(of...)
		return
	}
	for _, h := range of {
		w.letGo(h)
	}
}

func (w *windowed) giveBack() {
	w.acks.refuse()
	if last := w.sub.state.get().LastAck; w.acked.Load() > 0 && w.sub.state.now().Sub(last) < closeTimeout {
		settle(w.ch, w.sub.config.Queue.GenerateName(""))
	}
	// All that is not acknowledged, at once. Since RabbitMQ 4.3 this does not
	// count as a failed delivery, while a channel's end does.
	_ = w.ch.Nack(0, true, true)
}
