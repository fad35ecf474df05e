package bridge_test

import (
	"bytes"
	"fmt"
	"net"
	"strconv"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"tidings/bridge"
)

// nested is a message that the client library writes and does not read.
func nested(id string) amqp.Publishing {
	inner := amqp.Table{"end": true}
	for range 33 {
		inner = amqp.Table{"t": inner}
	}
	poison := plain(id)
	poison.Headers = inner
	return poison
}

// crowded is another one.
func crowded(id string) amqp.Publishing {
	poison := plain(id)
	poison.Headers = amqp.Table{}
	for i := range 8193 {
		poison.Headers[strconv.Itoa(i)] = nil
	}
	return poison
}

// looping reports whether the bridge says that the queue's next message cannot be read.
func (w *world) looping() bool {
	s := w.bridge.Status()
	return !s.Ready() && s.Reason == (&bridge.CrashLoopError{Queue: w.config.Queue}).Error()
}

// declared makes the world's queue the way topology: declare does, for messages
// that end connections.
func (w *world) declared() {
	w.Helper()
	// The queue looks empty until the broker has noticed that a connection ended.
	w.options.LookEvery = time.Second
	w.config.Topology = bridge.TopologyDeclare
	w.start()
	w.eventually("a consumer", w.ready)
	w.stop()
}

func TestMessageThatEndsConnections(t *testing.T) {
	for what, poison := range map[string]amqp.Publishing{
		"headers nested too deep": nested("poison"), "too many names in a table": crowded("poison"),
	} {
		t.Run("for "+what+" is dead-lettered by a quorum queue, it alone, and all others become events", func(t *testing.T) {
			w := newWorld(t)
			w.config.DeliveryLimit = 6
			w.declared()
			w.publish(messages(30)...)
			w.publish(poison)
			for i := range 30 {
				w.publish(plain(fmt.Sprintf("behind-%d", i)))
			}

			w.start()
			w.eventually("a crash-loop", w.looping)
			require.Contains(t, w.bridge.Status().Reason, `queue "orders"`)
			ch := w.channel()
			w.eventually("the events", func() bool { return len(w.ids()) == 60 })
			w.eventually("the normal window", func() bool { return w.bridge.Status().Window == 256 && w.ready() })
			w.publish(plain("after"))
			w.settled(61)

			require.Equal(t, 1, w.said.count("reason=crash-loop: the next message of queue \"orders\""), w.said.all())
			require.Equal(t, 1, w.said.count("messages can be read again"), w.said.all())
			w.config.Queue = "orders.dead"
			require.Equal(t, 1, w.waiting(ch)) // what our client cannot read
		})
	}
	t.Run("for a value of type L is dead-lettered by a quorum queue, unless the broker writes it as another type", func(t *testing.T) {
		w := newWorld(t)
		w.config.DeliveryLimit = 6
		w.declared()
		w.publish(messages(30)...)
		w.publishUnsigned("poison")
		w.publish(plain("behind"))

		w.start()
		w.eventually("the events", func() bool { ids := w.ids(); delete(ids, "poison"); return len(ids) == 31 })
		w.eventually("the normal window", func() bool { return w.bridge.Status().Window == 256 && w.ready() })
		w.acknowledged()

		ch := w.channel()
		w.config.Queue = "orders.dead"
		require.Equal(t, 1, w.waiting(ch)+w.ids()["poison"], "it is in one place")
	})
	t.Run("and has others like it behind, is dead-lettered with them and not with what is between", func(t *testing.T) {
		w := newWorld(t)
		w.config.DeliveryLimit = 6
		w.declared()
		for i := range 5 {
			w.publish(nested("n"), plain(fmt.Sprintf("a-%d", i)), crowded("c"), plain(fmt.Sprintf("b-%d", i)))
		}

		w.start()
		w.eventually("the events", func() bool { return len(w.ids()) == 10 })
		w.eventually("the normal window", func() bool { return w.bridge.Status().Window == 256 && w.ready() })
		w.settled(10)

		ch := w.channel()
		w.config.Queue = "orders.dead"
		require.Equal(t, 10, w.waiting(ch))
	})
	t.Run("stays in a classic queue until it is taken out, and the bridge says so", func(t *testing.T) {
		w := newWorld(t)
		w.declareWith("orders", nil)
		w.publishUnsigned("poison")
		w.publish(plain("behind"))

		w.start()
		w.eventually("a crash-loop", w.looping)
		w.eventually("a window of 1", func() bool { return w.bridge.Status().Window == 1 })

		ch := w.channel()
		w.eventually("both are in the queue, and taken out", func() bool {
			n, err := ch.QueuePurge(w.config.Queue, false)
			require.NoError(t, err)
			return n == 2
		})
		w.publish(plain("after"))
		w.eventually("the normal window", func() bool { return w.bridge.Status().Window == 256 && w.ready() })
		w.settled(1)
	})
}

// publishUnsigned publishes a message with a header of type L, which the client
// library does not write.
func (w *world) publishUnsigned(id string) {
	w.Helper()
	conn, err := amqp.DialConfig(w.vhost.URL, amqp.Config{Dial: func(network, addr string) (net.Conn, error) {
		conn, err := net.Dial(network, addr)
		return unsignedConn{conn}, err
	}})
	require.NoError(w, err)
	defer conn.Close()
	ch, err := conn.Channel()
	require.NoError(w, err)
	require.NoError(w, ch.Confirm(false))
	m := plain(id)
	m.Headers = amqp.Table{"unsigned": int64(1)}
	c, err := ch.PublishWithDeferredConfirm("", w.config.Queue, true, false, m)
	require.NoError(w, err)
	acked, err := c.WaitContext(w.Context())
	require.NoError(w, err)
	require.True(w, acked)
}

// unsignedConn changes the type of the header named unsigned.
type unsignedConn struct{ net.Conn }

func (c unsignedConn) Write(b []byte) (int, error) {
	return c.Conn.Write(bytes.ReplaceAll(b, []byte("unsignedl"), []byte("unsignedL")))
}
