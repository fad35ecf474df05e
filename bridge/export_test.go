package bridge

import (
	"encoding/json"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"tidings/streams/event"
)

// RoundTrip takes a delivery of p through Watermill's message, the way it would
// take with a subscriber that knows nothing of ours, and through the JSON of a
// dead letter, and returns what would be published again.
func RoundTrip(t require.TestingT, p amqp.Publishing) amqp.Publishing {
	msg, err := marshaler{}.Unmarshal(amqp.Delivery{
		Acknowledger: &amqp.Channel{}, Headers: p.Headers, ContentType: p.ContentType, ContentEncoding: p.ContentEncoding,
		DeliveryMode: p.DeliveryMode, Priority: p.Priority, CorrelationId: p.CorrelationId, ReplyTo: p.ReplyTo,
		Expiration: p.Expiration, MessageId: p.MessageId, Timestamp: p.Timestamp, Type: p.Type, UserId: p.UserId,
		AppId: p.AppId, Exchange: "ex", RoutingKey: "key\xff", Redelivered: true, Body: p.Body,
	})
	require.NoError(t, err)
	direct, err := marshaler{}.Marshal(msg)
	require.NoError(t, err)

	letter, err := json.Marshal(event.Letter{Delivery: new(described(msg)), Data: msg.Payload})
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
	require.Equal(t, direct.MessageId, again.MessageId)
	return again
}
