package bridge

import (
	"context"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"
)

// held is a delivery in hand.
type held struct {
	amqp.Delivery
	session *session
	taken   time.Time
	msg     *message.Message // as it was handed on last
	ctx     context.Context  // that msg had then
	end     context.CancelFunc
	waited  bool // for others that are acknowledged with it; it belongs to acks
}

// write makes a new message of the delivery. All but its body is in the context.
func (h *held) write() {
	h.msg = message.NewMessage(h.MessageId, h.Body)
	h.ctx, h.end = context.WithCancel(h.session.ctx)
	h.msg.SetContext(context.WithValue(h.ctx, heldKey{}, h))
}

type heldKey struct{}

// heldOf returns the delivery that a message stands for, nil if it is not from
// one of our subscribers.
func heldOf(msg *message.Message) *held {
	h, _ := msg.Context().Value(heldKey{}).(*held)
	return h
}
