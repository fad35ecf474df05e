package bridge_test

import (
	"fmt"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"tidings/bridge"
	"tidings/streams/event"
)

func TestDeliveries(t *testing.T) { bothSubscribers(t, testDeliveries) }

// bothSubscribers runs what holds for either of them. withQueue is that of the
// world, for a bridge with that subscriber.
func bothSubscribers(t *testing.T, test func(t *testing.T, withQueue func(*testing.T) *world)) {
	for _, s := range []bridge.Subscriber{bridge.SubscriberWindowed, bridge.SubscriberWatermill} {
		t.Run(string(s), func(t *testing.T) {
			test(t, func(t *testing.T) *world {
				w := withQueue(t)
				w.config.Subscriber = s
				return w
			})
		})
	}
}

func testDeliveries(t *testing.T, withQueue func(*testing.T) *world) {
	t.Run("become events, each once, and are acknowledged", func(t *testing.T) {
		w := withQueue(t)
		w.publish(plain("a"), plain("b"), plain("c"))

		w.start()

		w.settled(3)
		require.Equal(t, map[string]int{"a": 1, "b": 1, "c": 1}, w.ids())
		require.Empty(t, w.letters())
		require.Empty(t, w.duplicates())
	})
	t.Run("may have headers of every type", func(t *testing.T) {
		w := withQueue(t)
		headers := everyType()
		delete(headers, "nan") // RabbitMQ itself takes neither
		delete(headers, "inf")
		msg := plain("a")
		msg.Headers = headers
		w.publish(msg)

		w.start()

		stored := w.settled(1)[0]
		got, err := bridge.DecodeHeaders(stored.Headers)
		require.NoError(t, err)
		requireSame(t, headers, got)
	})
	t.Run("that were dead-lettered elsewhere, or carry numbers, are like any other", func(t *testing.T) {
		w := withQueue(t)
		msg := plain("a")
		msg.Headers = amqp.Table{"retries": int32(3), "x-death": []any{amqp.Table{"count": int64(2), "queue": "old"}}}
		w.publish(msg)
		w.start()
		w.settled(1)
		require.Empty(t, w.letters())
	})
	t.Run("without headers and id get an id from their content", func(t *testing.T) {
		w := withQueue(t)
		msg := amqp.Publishing{Type: "disk.full", Body: []byte("disk full")}
		w.publish(msg, msg)

		w.start()

		e := w.settled(1)[0]
		require.Equal(t, event.IDContent, e.Envelope.IDSource)
		require.Equal(t, event.ContentHash("default", "", "disk.full", []byte("disk full")), e.Envelope.ID)
		require.Len(t, w.duplicates(), 1)
	})
	t.Run("that are no event become one dead letter, and are acknowledged", func(t *testing.T) {
		w := withQueue(t)
		bad := amqp.Publishing{
			ContentType: "application/json", MessageId: "m-1", AppId: "shop", Type: "order.placed",
			Headers: amqp.Table{"n": int64(1)}, Body: []byte("{oops"),
		}
		w.publish(bad, bad)

		w.start()

		w.eventually("a letter", func() bool { return len(w.letters()) > 0 })
		w.acknowledged()
		letters := w.letters()
		require.Len(t, letters, 1)
		l := letters[0]
		require.Equal(t, event.CauseUndecodable, l.Cause)
		require.Equal(t, event.StageBridge, l.Stage)
		require.Equal(t, "the content type is application/json and the body is not JSON", l.Detail)
		require.Equal(t, "{oops", string(l.Data))
		require.Equal(t, "shop", l.Envelope.Source)
		require.Equal(t, "orders", l.Delivery.Queue)
		require.Equal(t, "orders", l.Delivery.RoutingKey)
		require.Contains(t, l.Delivery.Broker, fmt.Sprintf("vhost %q", w.vhost.Name))
		again, err := bridge.Publishing(*l.Delivery, l.Data)
		require.NoError(t, err)
		bad.DeliveryMode = amqp.Persistent
		require.Equal(t, bad, again)
		require.Empty(t, w.events())
	})
	t.Run("are counted by what became of them", func(t *testing.T) {
		w := withQueue(t)
		bad := amqp.Publishing{ContentType: "application/json", Body: []byte("{oops")}
		other := plain("a")
		other.Body = []byte(`{"n":2}`)
		begin := time.Now()
		w.start()
		w.publish(plain("a"))
		w.eventually("the first", func() bool { return w.stored() == 1 })
		w.publish(plain("a"), plain("a"), other, bad, plain("b"))
		w.settled(2)
		s := w.bridge.Status()
		require.Equal(t, []uint64{6, 2, 2, 0}, []uint64{s.Acked, s.Duplicates, s.Quarantined, s.Reconnects})
		require.Zero(t, s.InHand)
		require.WithinRange(t, s.LastDelivery, begin, s.LastAck)
	})
	t.Run("with the same id twice are one event and one audit entry", func(t *testing.T) {
		w := withQueue(t)
		w.publish(plain("a"), plain("a"))
		w.start()
		stored := w.settled(1)[0]
		duplicates := w.duplicates()
		require.Len(t, duplicates, 1)
		require.Equal(t, stored.Ref.Key, duplicates[0].Event.Key)
		require.Equal(t, stored.Ref.Sequence, duplicates[0].Sequence)
		require.Equal(t, event.StageBridge, duplicates[0].Stage)
		require.Equal(t, "amqp queue orders", duplicates[0].Delivery)
	})
	t.Run("with the same id again and again are acknowledged, and noted with a count", func(t *testing.T) {
		w := withQueue(t)
		for range 300 {
			w.publish(plain("a"))
		}
		w.start()
		w.eventually("an acknowledgement each", func() bool { return w.bridge.Status().Acked == 300 })
		w.settled(1)
		require.Len(t, w.duplicates(), 10, "of a minute; the others share an entry that comes after it")
	})
	t.Run("with two ids are the event of the CloudEvent's, and the other one is noted", func(t *testing.T) {
		w := withQueue(t)
		msg := plain("m-1")
		msg.Headers = amqp.Table{"ce-specversion": "1.0", "ce-id": "ce-1", "ce-type": "order.placed", "ce-source": "/shop"}
		w.publish(msg)
		other := plain("m-2")
		other.Headers = msg.Headers
		w.publish(other)
		w.start()
		stored := w.settled(1)[0]
		require.Equal(t, "ce-1", stored.Ref.ID)
		require.Equal(t, event.IDCloudEvents, stored.Ref.IDSource)
		require.Contains(t, []string{"m-1", "m-2"}, stored.Ref.AMQPMessageID)
		require.Len(t, w.duplicates(), 1)
		require.Equal(t, stored.Ref, w.duplicates()[0].Event)
	})
	t.Run("with the same id and another body are a conflict", func(t *testing.T) {
		w := withQueue(t)
		w.start()
		w.publish(plain("a"))
		w.eventually("the first", func() bool { return w.stored() == 1 })
		stored := w.events()[0]
		other := plain("a")
		other.Body = []byte(`{"n":2}`)
		w.publish(other)
		w.eventually("a letter", func() bool { return len(w.letters()) > 0 })
		w.acknowledged()
		l := w.letters()[0]
		require.Equal(t, event.CauseIDConflict, l.Cause)
		require.Equal(t, event.ConflictKey(stored.Ref.Key, event.Digest(other.Body)), l.Key)
		require.Equal(t, other.Body, l.Data)
		require.Len(t, w.events(), 1)
		require.Empty(t, w.duplicates())
	})
}
