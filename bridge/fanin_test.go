package bridge_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tidings/bridge"
	"tidings/bridge/bridgetest"
)

func TestPrefetchCount(t *testing.T) {
	for name, c := range map[string]struct {
		subscriber bridge.Subscriber
		window     int
		want       []string // of each consumer
	}{
		"is the window":                      {bridge.SubscriberWindowed, 7, []string{"7"}},
		"has a bound where none was set":     {bridge.SubscriberWindowed, 0, []string{"256"}},
		"is 1 for each of the subscriptions": {bridge.SubscriberWatermill, 3, []string{"1", "1", "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := withQueue(t)
			w.config.Subscriber, w.config.Window = c.subscriber, c.window
			w.start()
			w.eventually("all consumers", func() bool { return w.bridge.Status().Consumers == len(c.want) })
			out, err := bridgetest.Private(t).Ctl(t.Context(), "-q", "list_consumers", "--no-table-headers", "-p", w.vhost.Name, "prefetch_count")
			require.NoError(t, err)
			require.Equal(t, c.want, strings.Fields(out))
		})
	}
}

func TestWatermillSubscriber(t *testing.T) {
	t.Run("has a subscription for each delivery in hand, at most 64", func(t *testing.T) {
		w := withQueue(t)
		w.config.Subscriber = bridge.SubscriberWatermill
		w.start()
		w.eventually("consumers", func() bool { return w.bridge.Status().Consumers == 64 })
		require.Equal(t, 64, w.bridge.Status().Window)
		require.Equal(t, 64, w.look(w.channel()).Consumers)
		require.Zero(t, w.said.count("other consumers"), w.said.all())
	})
	t.Run("uses a queue that is there and differs, and says once how", func(t *testing.T) {
		w := newWorld(t)
		w.declareWith("orders", nil) // a classic one
		w.config.Subscriber, w.config.Topology = bridge.SubscriberWatermill, bridge.TopologyDeclare
		w.publish(plain("a"))
		w.start()
		w.settled(1)
		require.Equal(t, 1, w.said.count("is there and differs: x-queue-type expected quorum"), w.said.all())
	})
	t.Run("waits for a queue that is missing, and says so once", func(t *testing.T) {
		w := newWorld(t)
		w.config.Subscriber = bridge.SubscriberWatermill
		w.start()
		w.eventually("trouble", func() bool { return w.said.count("create it or set topology: declare") == 1 })
		w.declare("orders")
		w.publish(plain("a"))
		w.settled(1)
		require.Equal(t, 1, w.said.count("create it or set topology: declare"), w.said.all())
	})
	t.Run("must be one of the two", func(t *testing.T) {
		c := bridge.Config{URL: "amqp://localhost", Queue: "q", Subscriber: "kafka"}
		require.EqualError(t, c.Validate(), `subscriber: "kafka" is not one of windowed, watermill`)
	})
}
