package bridge

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	wamqp "github.com/ThreeDotsLabs/watermill-amqp/v2/pkg/amqp"
	amqp "github.com/rabbitmq/amqp091-go"
)

// UnroutableError says that the broker had no queue for a message.
type UnroutableError struct{ Exchange, RoutingKey string }

// Error implements error.
func (e *UnroutableError) Error() string {
	if e.Exchange == "" {
		return fmt.Sprintf("there is no queue %q: create it, or publish to an exchange", e.RoutingKey)
	}
	return fmt.Sprintf("exchange %q routes key %q to no queue: bind one", e.Exchange, e.RoutingKey)
}

// NoExchangeError says that the broker has no exchange of that name: nothing was
// stored.
type NoExchangeError struct{ Exchange, Vhost string }

// Error implements error.
func (e *NoExchangeError) Error() string {
	return fmt.Sprintf("there is no exchange %q in vhost %q: create it, or publish to a queue", e.Exchange, e.Vhost)
}

// ErrRefused means that the broker did not take a message, and said so.
var ErrRefused = errors.New("the broker refused the message: its queue is full or its disk or memory is short")

var errUnconfirmed = errors.New("the channel ended before the message was confirmed")

// Publisher publishes to RabbitMQ one message at a time, each confirmed. It is
// for the command line and for demonstrations: it is correct, not fast. It may
// be used by several goroutines, connects when it is first used, and connects
// again after an error.
type Publisher struct {
	connection wamqp.ConnectionConfig

	mu       sync.Mutex
	conn     *amqp.Connection
	ch       *amqp.Channel
	returned chan amqp.Return
	closed   chan *amqp.Error
}

// NewPublisher returns a publisher to the broker and vhost at url, or an error
// if that is no AMQP address. Errors do not show the password.
func NewPublisher(url string) (*Publisher, error) {
	if _, err := broker(url); err != nil {
		return nil, fmt.Errorf("publish: url: %w", err)
	}
	return &Publisher{connection: Config{URL: url}.withDefaults().watermill().Connection}, nil
}

// Publish returns nil when the message is in a queue and the broker has
// confirmed it, an [UnroutableError] if there is none, a [NoExchangeError] if
// there is no such exchange, and [ErrRefused] if the broker said no. After any other error the message may or may not be there.
func (p *Publisher) Publish(ctx context.Context, exchange, routingKey string, msg amqp.Publishing) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.publish(ctx, exchange, routingKey, msg); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	return nil
}

func (p *Publisher) publish(ctx context.Context, exchange, routingKey string, msg amqp.Publishing) error {
	if err := p.connect(ctx); err != nil {
		return err
	}
	confirm, err := p.ch.PublishWithDeferredConfirmWithContext(ctx, exchange, routingKey, true, false, msg)
	if err != nil {
		return errors.Join(err, p.disconnect())
	}
	acked, err := confirm.WaitContext(ctx)
	switch {
	case err != nil:
		return errors.Join(err, p.disconnect())
	case !acked && p.ch.IsClosed():
		why := p.disconnect()
		if said, ok := errors.AsType[*amqp.Error](why); ok && said.Code == amqp.NotFound {
			return &NoExchangeError{Exchange: exchange, Vhost: vhost(p.connection.AmqpURI)}
		}
		return errors.Join(errUnconfirmed, why)
	case !acked:
		return ErrRefused
	}
	select {
	case <-p.returned: // is there before the confirmation
		return &UnroutableError{Exchange: exchange, RoutingKey: routingKey}
	default:
		return nil
	}
}

// connect makes sure that there is a channel that confirms.
func (p *Publisher) connect(ctx context.Context) (err error) {
	if p.ch != nil && !p.ch.IsClosed() {
		return nil
	}
	_ = p.disconnect()
	if p.conn, err = dial(ctx, p.connection); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	p.ch, err = p.conn.Channel()
	if err == nil {
		err = p.ch.Confirm(false)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("open a channel: %w", err), p.disconnect())
	}
	p.returned = p.ch.NotifyReturn(make(chan amqp.Return, 1))
	p.closed = p.ch.NotifyClose(make(chan *amqp.Error, 1))
	return nil
}

// disconnect lets go of the connection and returns why the broker ended it, if
// it did.
func (p *Publisher) disconnect() error {
	conn, closed := p.conn, p.closed
	p.conn, p.ch, p.closed = nil, nil, nil
	if conn == nil {
		return nil
	}
	_ = conn.CloseDeadline(time.Now().Add(closeTimeout))
	if closed == nil {
		return nil
	}
	if why := <-closed; why != nil {
		return why
	}
	return nil
}

// Close ends the connection. The publisher may be used again.
func (p *Publisher) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.disconnect()
}
