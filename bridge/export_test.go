package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	wamqp "github.com/ThreeDotsLabs/watermill-amqp/v2/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"tidings/streams/event"
)

// RoundTrip takes a delivery of p through the JSON of a dead letter, and returns
// what would be published again.
func RoundTrip(t require.TestingT, p amqp.Publishing) amqp.Publishing {
	came := amqp.Delivery{
		Headers: p.Headers, ContentType: p.ContentType, ContentEncoding: p.ContentEncoding,
		DeliveryMode: p.DeliveryMode, Priority: p.Priority, CorrelationId: p.CorrelationId, ReplyTo: p.ReplyTo,
		Expiration: p.Expiration, MessageId: p.MessageId, Timestamp: p.Timestamp, Type: p.Type, UserId: p.UserId,
		AppId: p.AppId, Exchange: "ex", RoutingKey: "key\xff", Redelivered: true,
	}
	desc, err := describe(&came)
	require.NoError(t, err)
	desc.Properties = properties(&came)
	letter, err := json.Marshal(event.Letter{Delivery: &desc, Data: p.Body})
	require.NoError(t, err)
	var back event.Letter
	require.NoError(t, json.Unmarshal(letter, &back))
	d, err := restore(*back.Delivery, back.Data)
	require.NoError(t, err)
	require.Equal(t, "ex", d.Exchange)
	require.Equal(t, "key\xff", d.RoutingKey)
	require.True(t, d.Redelivered)
	again, err := Publishing(*back.Delivery, back.Data)
	require.NoError(t, err)
	return again
}

// Topics is a message.Subscriber that subscribes to any queue, with a bridge's
// subscriber of its own for each. Its messages have what watermill-amqp's
// publisher wrote: ours keep the delivery, and nobody but us needs to read it.
type Topics struct {
	Config Config

	mu          sync.Mutex
	subscribers []*subscriber
	forwarding  sync.WaitGroup
}

// Subscribe implements message.Subscriber.
func (t *Topics) Subscribe(ctx context.Context, queue string) (<-chan *message.Message, error) {
	config := t.Config
	config.Queue = queue
	b, err := New(config, nil, Options{})
	if err != nil {
		return nil, err
	}
	s := b.subscriber()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.subscribers = append(t.subscribers, s)
	in, err := s.Subscribe(ctx, queue)
	if err != nil {
		return nil, err
	}
	out := make(chan *message.Message)
	t.forwarding.Go(func() {
		defer close(out)
		for msg := range in {
			translate(msg)
			select {
			case out <- msg:
			case <-msg.Context().Done():
			}
		}
	})
	return out, nil
}

func translate(msg *message.Message) {
	theirs, err := wamqp.DefaultMarshaler{}.Unmarshal(heldOf(msg).Delivery)
	if err != nil {
		panic(err)
	}
	msg.UUID, msg.Metadata = theirs.UUID, theirs.Metadata
}

// SubscribeInitialize implements message.SubscribeInitializer: it makes the queue.
func (t *Topics) SubscribeInitialize(queue string) (err error) {
	conn, err := amqp.Dial(t.Config.URL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	_, err = ch.QueueDeclare(queue, true, false, false, false, nil)
	return err
}

// Close implements message.Subscriber.
func (t *Topics) Close() (err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.subscribers {
		err = errors.Join(err, s.Close())
	}
	t.forwarding.Wait()
	return err
}
