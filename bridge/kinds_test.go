package bridge_test

import (
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"tidings/bridge"
)

func TestQueuesOfEveryKind(t *testing.T) {
	again := func(w *world) {
		w.Helper()
		w.eventually("a consumer", w.ready)
		require.NoError(w, w.vhost.CloseConnections(w.Context(), "for the test"))
		w.eventually("another session", func() bool { return w.bridge.Status().Reconnects == 1 && w.ready() })
	}
	for name, c := range map[string]struct {
		args     amqp.Table
		topology bridge.Topology
		want     string
	}{
		"a classic queue is warned of where we declare": {nil, bridge.TopologyDeclare, "WARN the queue is a classic queue"},
		"a limit of -1 is warned of where we declare": {amqp.Table{
			amqp.QueueTypeArg: amqp.QueueTypeQuorum, "x-dead-letter-exchange": "orders.dlx", "x-delivery-limit": -1,
		}, bridge.TopologyDeclare, "WARN the queue's x-delivery-limit is -1"},
		"a queue without a delivery limit is warned of where we declare": {amqp.Table{
			amqp.QueueTypeArg: amqp.QueueTypeQuorum, "x-dead-letter-exchange": "other", "x-max-length": 100000,
		}, bridge.TopologyDeclare, "WARN the queue is a quorum queue without a delivery limit"},
		"where we do not declare, that nothing can be seen is said": {nil, bridge.TopologyAssert, "INFO the type of the queue cannot be seen"},
	} {
		t.Run(name+", once, with the version", func(t *testing.T) {
			w := newWorld(t)
			w.declareWith("orders", c.args)
			w.config.Topology = c.topology
			w.start()
			again(w)
			require.Equal(t, 1, w.said.count(c.want), w.said.all())
			require.Equal(t, 1, w.said.count("connected to RabbitMQ version=3."), w.said.all())
		})
	}
	stream := amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeStream}
	refused := (&bridge.StreamError{Queue: "orders"}).Error()
	t.Run("a stream is refused where we declare", func(t *testing.T) {
		w := newWorld(t)
		w.declareWith("orders", stream)
		w.config.Topology = bridge.TopologyDeclare
		w.start()
		w.eventually("the reason", func() bool { return w.bridge.Status().Reason == refused })
	})
	for name, args := range map[string]amqp.Table{
		"a stream is refused when it delivers":                {},
		"a stream with a max age is refused when it delivers": {amqp.StreamMaxAgeArg: "1D"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			args[amqp.QueueTypeArg] = amqp.QueueTypeStream
			w.declareWith("orders", args)
			w.start()
			w.eventually("a consumer", w.ready)
			w.publish(plain("a"))
			w.eventually("the reason", func() bool { return w.bridge.Status().Reason == refused })
			w.stop()
			require.Zero(t, w.stored())
		})
	}
	for name, args := range map[string]amqp.Table{
		"classic": nil,
		"quorum":  {amqp.QueueTypeArg: amqp.QueueTypeQuorum},
		"limited": {amqp.QueueTypeArg: amqp.QueueTypeQuorum, "x-delivery-limit": 20, "x-dead-letter-exchange": "d"},
	} {
		t.Run("a header of a stream does not make a "+name+" queue one", func(t *testing.T) {
			w := newWorld(t)
			w.declareWith("orders", args)
			m := plain("a")
			m.Headers = amqp.Table{"x-stream-offset": int64(7)}
			w.publish(m, plain("b"))
			w.start()
			w.settled(2)
		})
	}
}

func TestConsumerThatTheBrokerRefuses(t *testing.T) { bothSubscribers(t, testRefusedConsumer) }

func testRefusedConsumer(t *testing.T, withQueue func(*testing.T) *world) {
	w := withQueue(t)
	w.config.Queue = "taken"
	w.declareWith("taken", nil) // a classic one: a quorum queue knows no exclusive consumers here
	ch := w.channel()
	_, err := ch.Consume("taken", "other", false, true, false, false, nil)
	require.NoError(t, err)

	w.start()

	w.eventually("the reason", func() bool { return strings.Contains(w.bridge.Status().Reason, "in exclusive use") })
	require.NoError(t, ch.Cancel("other", false))
	w.publish(plain("a"))
	w.settled(1)
}
