//go:build !race

// When a connection is lost, watermill-amqp writes a variable that its
// subscriptions read, without a lock. So these tests are none under -race.

package bridge_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"tidings/bridge"
)

func TestWatermillSubscriberThatLosesItsConnection(t *testing.T) {
	t.Run("has no ghosts, ten times", func(t *testing.T) {
		w := withQueue(t)
		w.config.Subscriber = bridge.SubscriberWatermill
		w.config.Window = 8
		testNoGhostsOfConnections(t, w)
	})
	t.Run("under load, ten times, loses nothing", func(t *testing.T) {
		w := withQueue(t)
		w.config.Subscriber = bridge.SubscriberWatermill
		w.config.Window = 16
		testNothingIsLost(t, w)
	})
	t.Run("over a message takes them one at a time, so that only this one is dead-lettered", func(t *testing.T) {
		w := newWorld(t)
		w.config.Subscriber = bridge.SubscriberWatermill
		w.config.DeliveryLimit, w.config.Window = 6, 8
		w.declared()
		w.publish(messages(30)...)
		w.publish(nested("poison"))
		for i := range 30 {
			w.publish(plain(fmt.Sprintf("behind-%d", i)))
		}
		w.start()
		w.eventually("a crash-loop", w.looping)
		ch := w.channel()
		w.eventually("the events", func() bool { return len(w.ids()) == 60 })
		w.eventually("the normal window", func() bool { return w.bridge.Status().Window == 8 && w.ready() })
		w.settled(60)
		w.config.Queue = "orders.dead"
		require.Equal(t, 1, w.waiting(ch))
	})
}
