package campaign_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tidings/bridge"
	"tidings/bridge/bridgetest"
)

// These have a node of their own, one after the other: they hit all of it.
func TestRabbitMQ(t *testing.T) {
	t.Parallel()
	node, err := bridgetest.Start(t.Context(), bridgetest.Options{Private: true})
	require.NoError(t, err)
	t.Cleanup(node.Stop)

	t.Run("is stopped and started under load", func(t *testing.T) {
		s := newSite(t, node)
		s.backlog(2000)
		s.spawn()
		stop := s.produce(100)
		s.untilFullHand()
		require.NoError(t, node.StopApp(t.Context()))
		require.NoError(t, node.StartApp(t.Context()))
		s.untilAcked(100)
		stop()
		s.done.returns = 1
		s.finish()
	})
	t.Run("is killed and started under load", func(t *testing.T) {
		s := newSite(t, node)
		s.backlog(2000)
		require.NoError(t, node.Flush(t.Context()))
		s.spawn()
		stop := s.produce(100)
		s.untilFullHand()
		require.NoError(t, node.Kill())
		require.NoError(t, node.Restart(t.Context()))
		s.untilAcked(100)
		stop()
		s.done.returns = 1
		s.finish()
	})
	t.Run("waits 3 s for an acknowledgement, and the log is away for longer, three times", func(t *testing.T) {
		const times = 3
		set(t, node, "consumer_timeout", "3000")
		set(t, node, "channel_tick_interval", "1000")
		t.Cleanup(func() {
			set(t, node, "consumer_timeout", "1800000")
			set(t, node, "channel_tick_interval", "60000")
		})
		s := newSite(t, node)
		s.spawn()
		stop := s.produce(100)
		for n := range times {
			s.untilAcked(50)
			s.process.stopLog()
			s.until("the end of RabbitMQ's patience", func(b bridge.Status) bool {
				return !b.Consuming && strings.Count(s.said(), "timed out") == n+1
			})
			s.process.startLog()
		}
		s.untilAcked(50)
		stop()
		s.done.returns = times
		s.finish()
	})
	t.Run("raises the memory alarm: publishers wait, acknowledgements go on", func(t *testing.T) {
		const before = 2000
		s := newSite(t, node)
		s.backlog(before)
		alarm := func(watermark string) {
			_, err := node.Ctl(t.Context(), "set_vm_memory_high_watermark", watermark)
			require.NoError(t, err)
		}
		alarm("0.0001")
		stop := s.produce(100)
		s.spawn()
		s.until("all that was there before", func(b bridge.Status) bool { return b.Acked == before && b.Ready() })
		require.Equal(t, before, s.confirmed(), "nothing is taken from publishers meanwhile")
		alarm("0.4")
		s.untilAcked(200)
		stop()
		s.finish()
	})
}

func set(t *testing.T, node *bridgetest.Node, name, value string) {
	t.Helper()
	_, err := node.Ctl(context.WithoutCancel(t.Context()), "eval", "application:set_env(rabbit, "+name+", "+value+").")
	require.NoError(t, err)
}
