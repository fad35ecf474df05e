package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"

	amqp "github.com/rabbitmq/amqp091-go"

	"tidings/streams/event"
)

// MinSize is the least that a body can have.
const MinSize = 16

// unconfirmed bounds the messages that the broker has not confirmed yet.
const unconfirmed = 1000

// What events are like.
const (
	eventType = "bench.event"
	source    = "tidings-bench"
)

// queue is a queue of our own, of the kind that the bridge declares.
type queue struct {
	name string
	conn *amqp.Connection
	ch   *amqp.Channel
}

func newQueue(url string) (*queue, error) {
	conn, err := amqp.Dial(url)
	if err != nil {
		return nil, fmt.Errorf("connect to RabbitMQ: %w", withoutURL(err))
	}
	q := &queue{name: "tidings.bench." + event.NewNonce(), conn: conn}
	if q.ch, err = conn.Channel(); err == nil {
		err = q.ch.Confirm(false)
	}
	if err == nil {
		_, err = q.ch.QueueDeclare(q.name, true, false, false, false, amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeQuorum})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make a queue: %w", err), conn.Close())
	}
	return q, nil
}

// withoutURL hides what cannot be read: it may be a password.
func withoutURL(err error) error {
	if strings.Contains(err.Error(), "parse ") || strings.Contains(err.Error(), "AMQP scheme") {
		return errors.New("the URL cannot be read: write amqp://user:password@host:port/vhost, with reserved characters percent-encoded")
	}
	return err
}

// remove deletes the queue, also when the channel has ended.
func (q *queue) remove() error {
	defer func() { _ = q.conn.Close() }()
	ch, err := q.conn.Channel()
	if err == nil {
		_, err = ch.QueueDelete(q.name, false, false, false)
	}
	if err != nil {
		return fmt.Errorf("delete the queue %s: %w", q.name, err)
	}
	return nil
}

// fill publishes count messages and returns when the broker has confirmed all.
func (q *queue) fill(ctx context.Context, count, size int, follow follower) error {
	return q.fillWith(ctx, mix{}, count, size, follow)
}

// fillWith does the same with a mix.
func (q *queue) fillWith(ctx context.Context, mix mix, count, size int, follow follower) error {
	bodies := [kinds][]byte{original: body(size, "x"), duplicate: body(size, "x"), conflict: body(size, "y")}
	open := make([]*amqp.DeferredConfirmation, 0, unconfirmed)
	var done atomic.Int64 // read by the follower meanwhile
	stop := follow(func() int { return int(done.Load()) })
	defer stop()
	for msg := range mix.messages(count) {
		c, err := q.publish(ctx, msg.id, bodies[msg.kind])
		if err != nil {
			return err
		}
		if open = append(open, c); len(open) < unconfirmed {
			continue
		}
		if err := confirmed(ctx, open); err != nil {
			return err
		}
		done.Add(int64(len(open)))
		open = open[:0]
	}
	err := confirmed(ctx, open)
	done.Add(int64(len(open)))
	return err
}

// idOf is the id of the event with that number.
func idOf(i int) string { return "bench-" + strconv.Itoa(i) }

// publish publishes the event with that number, and does not wait for the broker.
func (q *queue) publish(ctx context.Context, i int, body []byte) (*amqp.DeferredConfirmation, error) {
	c, err := q.ch.PublishWithDeferredConfirmWithContext(ctx, "", q.name, true, false, amqp.Publishing{
		MessageId: idOf(i), Type: eventType, AppId: source,
		ContentType: "application/json", DeliveryMode: amqp.Persistent, Body: body,
	})
	if err != nil {
		return nil, fmt.Errorf("publish: %w", err)
	}
	return c, nil
}

func body(size int, pad string) []byte {
	return []byte(`{"pad":"` + strings.Repeat(pad, size-len(`{"pad":""}`)) + `"}`)
}

var errNotConfirmed = errors.New("RabbitMQ did not confirm a message: its disk or memory is short, or the connection was lost")

func confirmed(ctx context.Context, open []*amqp.DeferredConfirmation) error {
	for _, c := range open {
		switch ok, err := c.WaitContext(ctx); {
		case err != nil:
			return fmt.Errorf("publish: %w", err)
		case !ok:
			return fmt.Errorf("publish: %w", errNotConfirmed)
		}
	}
	return nil
}
