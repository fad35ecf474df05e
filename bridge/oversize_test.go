package bridge_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"tidings/bridge"
	"tidings/streams"
	"tidings/streams/event"
	"tidings/streams/streamstest"
)

// oversize is a message larger than any event may be.
func oversize(id string) amqp.Publishing {
	msg := plain(id)
	msg.ContentType, msg.Headers = "application/octet-stream", amqp.Table{"n": int64(1)}
	msg.Body = make([]byte, 16<<20)
	_, _ = rand.NewChaCha8([32]byte([]byte(id + "0123456789abcdef0123456789abcdef")[:32])).Read(msg.Body)
	return msg
}

func TestDeliveriesLargerThanAnEvent(t *testing.T) {
	t.Run("become one dead letter that gives every byte back, and are acknowledged", func(t *testing.T) {
		w := withQueue(t)
		sent := oversize("large")
		w.publish(sent, plain("a"), sent, plain("b"))
		w.start()
		w.settled(2)
		letters := w.letters()
		require.Len(t, letters, 1)
		require.Equal(t, event.CauseOversize, letters[0].Cause)
		require.True(t, bytes.Equal(sent.Body, w.payload(letters[0])))
		again, err := bridge.Publishing(*letters[0].Delivery, nil)
		require.NoError(t, err)
		sent.Body, sent.DeliveryMode = nil, amqp.Persistent
		require.Equal(t, sent, again)
	})
	t.Run("are held while there is no room for them, and come in when there is", func(t *testing.T) {
		w := withQueue(t)
		w.log = streamstest.New(t, func(o *streams.Options) { o.OversizeMaxBytes = 20 << 20 })
		w.door = bridge.DoorOptions{Events: w.log.Events, Letters: w.log.DeadLetters, Audit: w.log.Outcomes}
		w.publish(oversize("first"))
		w.start()
		w.eventually("the first", func() bool { return len(w.letters()) == 1 })
		w.publish(oversize("second"))
		w.eventually("a reason", func() bool { return w.bridge.Status().Reason != "" })
		require.Contains(t, w.bridge.Status().Reason, "OVERSIZE is full: ")

		require.NoError(t, w.log.DeadLetters.Remove(t.Context(), 1))

		w.eventually("the second", func() bool { return len(w.letters()) == 1 })
		w.acknowledged()
		require.True(t, bytes.Equal(oversize("second").Body, w.payload(w.letters()[0])))
	})
}
