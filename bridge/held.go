package bridge

import (
	"context"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"
)

// held is a delivery in hand.
type held struct {
	amqp.Delivery
	session *session
	taken   time.Time
	waited  bool // for others that are acknowledged with it; it belongs to acks

	mu  sync.Mutex // guards a change of msg
	msg *message.Message
	ctx *messageContext // that msg had at first
}

// write makes a new message of the delivery. All but its body is in the context.
func (h *held) write() *message.Message {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ctx = &messageContext{Context: h.session.ctx, held: h}
	h.msg = message.NewMessage(h.MessageId, h.Body)
	h.msg.SetContext(h.ctx)
	return h.msg
}

// refuse answers for whoever should have answered and did not.
func (h *held) refuse() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.msg.Nack()
}

type heldKey struct{}

// heldOf returns the delivery that a message stands for. Whoever handles a
// message knows that it is from one of our subscribers.
func heldOf(msg *message.Message) *held { return msg.Context().Value(heldKey{}).(*held) }

// messageContext is the context of a message. It ends with the answer to the
// message, as Watermill wants it, or with the session. It is a context of its own
// only where somebody waits for that, since nobody does for nearly all.
type messageContext struct {
	context.Context // of the session
	held            *held

	mu     sync.Mutex // guards what follows
	ended  bool
	own    context.Context // nil: nobody waits
	cancel context.CancelFunc
}

// end ends the context.
func (c *messageContext) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended = true; c.own != nil {
		c.cancel()
	}
}

// Done implements context.Context.
func (c *messageContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.own == nil {
		c.own, c.cancel = context.WithCancel(c.Context)
	}
	if c.ended {
		c.cancel()
	}
	return c.own.Done()
}

// Err implements context.Context.
func (c *messageContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return context.Canceled
	}
	return c.Context.Err()
}

// Value implements context.Context.
func (c *messageContext) Value(key any) any {
	if key == (heldKey{}) {
		return c.held
	}
	c.mu.Lock()
	own := c.own
	c.mu.Unlock()
	if own != nil {
		return own.Value(key)
	}
	return c.Context.Value(key)
}
