package bridge_test

import (
	"context"
	"fmt"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"tidings/bridge"
)

func TestPublisher(t *testing.T) {
	w := withQueue(t)
	require.NoError(t, w.channel().ExchangeDeclare("shop", amqp.ExchangeTopic, true, false, false, false, nil))
	p, err := bridge.NewPublisher(w.vhost.URL)
	require.NoError(t, err)
	t.Cleanup(p.Close)

	t.Run("returns when the message is in the queue", func(t *testing.T) {
		require.NoError(t, p.Publish(t.Context(), "", "orders", plain("a")))
		d, ok, err := w.channel().Get("orders", true)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, "a", d.MessageId)
	})
	t.Run("says that no queue has that name", func(t *testing.T) {
		err := p.Publish(t.Context(), "", "odrers", plain("a"))
		require.EqualError(t, err, `publish: there is no queue "odrers": create it, or publish to an exchange`)
	})
	t.Run("says that the exchange routes it nowhere", func(t *testing.T) {
		err := p.Publish(t.Context(), "shop", "order.placed", plain("a"))
		require.EqualError(t, err, `publish: exchange "shop" routes key "order.placed" to no queue: bind one`)
	})
	t.Run("says that there is no such exchange, and works again after it", func(t *testing.T) {
		err := p.Publish(t.Context(), "nowhere", "order.placed", plain("a"))
		require.EqualError(t, err, fmt.Sprintf("publish: there is no exchange \"nowhere\" in vhost %q: create it, or publish to a queue", w.vhost.Name))
		require.NoError(t, p.Publish(t.Context(), "", "orders", plain("b")))
	})
	t.Run("works again after the broker closed the connection", func(t *testing.T) {
		require.NoError(t, w.vhost.CloseConnections(t.Context(), "for the test"))
		w.eventually("a connection", func() bool { return p.Publish(t.Context(), "", "orders", plain("c")) == nil })
	})
	t.Run("ends with its context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, p.Publish(ctx, "", "orders", plain("d")), context.Canceled)
	})
	t.Run("says that the broker refused", func(t *testing.T) {
		w.declareWith("full", amqp.Table{"x-max-length": int32(0), "x-overflow": "reject-publish"})
		require.ErrorIs(t, p.Publish(t.Context(), "", "full", plain("a")), bridge.ErrRefused)
	})
	t.Run("to nobody says so, without the password", func(t *testing.T) {
		nobody, err := bridge.NewPublisher("amqp://ann:secret@127.0.0.1:1/")
		require.NoError(t, err)
		err = nobody.Publish(t.Context(), "", "orders", plain("a"))
		require.ErrorContains(t, err, "connect")
		require.NotContains(t, err.Error(), "secret")
		_, err = bridge.NewPublisher("amqp://ann:se#cret@host/")
		require.ErrorContains(t, err, "percent-encoded")
	})
}
