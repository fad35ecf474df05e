package bridge

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"tidings/streams"
)

func TestReadiness(t *testing.T) {
	start := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	var now time.Time
	consuming := func() *tracker {
		now = start
		c := Config{URL: "amqp://ann:secret@rabbit/shop", Queue: "orders"}.withDefaults()
		tr := newTracker(c, slog.New(slog.DiscardHandler), func() time.Time { return now }, 30*time.Second)
		tr.connecting()
		tr.consuming(c.Window, 1)
		return tr
	}
	for name, c := range map[string]struct {
		then func(*tracker)
		want string
	}{
		"ready while there is nothing to do": {func(*tracker) {
			now = now.Add(time.Hour)
		}, ""},
		"ready while work moves": {func(tr *tracker) {
			tr.saw(1000, 1)
			tr.took(now)
			for range 100 {
				now = now.Add(20 * time.Second)
				tr.took(now)
				tr.acked(1, now)
			}
		}, ""},
		"ready at the first delivery after a long pause": {func(tr *tracker) {
			now = now.Add(time.Hour)
			tr.saw(1, 1)
			tr.took(now)
		}, ""},
		"not ready when what is in hand is not acknowledged": {func(tr *tracker) {
			tr.took(now)
			tr.took(now)
			now = now.Add(31 * time.Second)
		}, "2 deliveries are in hand and none was acknowledged for 31s"},
		"ready again when it is": {func(tr *tracker) {
			tr.took(now)
			now = now.Add(31 * time.Second)
			tr.acked(1, now)
		}, ""},
		"not ready when messages wait and do not come": {func(tr *tracker) {
			tr.saw(7, 1)
			now = now.Add(20 * time.Second)
			tr.saw(8, 1)
			now = now.Add(11 * time.Second)
		}, `8 messages wait in queue "orders" and none was acknowledged for 31s`},
		"ready when they were taken meanwhile": {func(tr *tracker) {
			tr.saw(7, 1)
			now = now.Add(20 * time.Second)
			tr.saw(0, 1)
			now = now.Add(20 * time.Second)
			tr.saw(1, 1)
		}, ""},
		"ready while the consumer does not show yet": {func(tr *tracker) {
			tr.saw(0, 0)
		}, ""},
		"not ready when the consumer is gone without a word": {func(tr *tracker) {
			tr.saw(0, 1)
			tr.saw(0, 0)
			tr.saw(0, 0)
		}, `queue "orders" has no consumer although one was registered`},
		"not ready when the log takes nothing": {func(tr *tracker) {
			tr.took(now)
			tr.refuse(errors.New("no space"), false)
		}, "the log does not take events: no space"},
		"not ready, in our words, when the log is full": {func(tr *tracker) {
			full := &streams.FullError{Bytes: 61 << 20, Limit: 64 << 20, Entry: 4 << 20}
			tr.refuse(fmt.Errorf("store the event: publish event: %w", full), false)
		}, "the log does not take events: EVENTS is full (61 of 64 MiB, and an event of 4194304 bytes does not fit): " +
			"room comes as its oldest events end, or raise events.max_bytes; if one stands in the way for long, the part steward of `tidings status` names it"},
		"ready when it takes something again": {func(tr *tracker) {
			tr.refuse(errors.New("no space"), false)
			tr.accepted(Receipt{}, true)
		}, ""},
		"not ready while a lost connection is being given up": {func(tr *tracker) {
			tr.finishing(errors.New("connection lost"))
		}, "connection lost"},
		"not ready when the broker is away": {func(tr *tracker) {
			tr.down(errors.New("connection refused"))
		}, "connection refused"},
		"not ready while it connects again, for the same reason": {func(tr *tracker) {
			tr.down(errors.New("connection refused"))
			tr.connecting()
		}, "connection refused"},
		"not ready when stopped": {func(tr *tracker) {
			tr.stopped()
		}, "stopped"},
	} {
		t.Run(name, func(t *testing.T) {
			tr := consuming()
			c.then(tr)
			require.Equal(t, c.want, tr.get().Reason)
			require.Equal(t, c.want == "", tr.get().Ready())
		})
	}
	t.Run("not ready before the first connection", func(t *testing.T) {
		tr := newTracker(Config{URL: "amqp://ann:secret@rabbit/shop", Queue: "orders"}, slog.New(slog.DiscardHandler), time.Now, time.Second)
		require.Equal(t, "not started", tr.get().Reason)
		tr.connecting()
		require.Equal(t, `connecting to rabbit:5672 vhost "shop"`, tr.get().Reason)
	})
}

func TestASubscriptionThatHasEndedHasNoMessage(t *testing.T) {
	_, err := remembering{}.Unmarshal(amqp.Delivery{})
	require.ErrorIs(t, err, errNoDelivery)
}

func TestAQueueWithOtherConsumersIsWarnedOfOnce(t *testing.T) {
	var said bytes.Buffer
	c := Config{URL: "amqp://ann:secret@rabbit/shop", Queue: "orders"}.withDefaults()
	tr := newTracker(c, slog.New(slog.NewTextHandler(&said, nil)), time.Now, 30*time.Second)
	tr.consuming(c.Window, 1)
	for _, consumers := range []int{0, 1, 2, 2, 3} {
		tr.saw(0, consumers)
	}
	require.Equal(t, 1, strings.Count(said.String(), "the queue has other consumers"))
	tr.saw(0, 1)
	tr.saw(0, 2)
	require.Equal(t, 2, strings.Count(said.String(), "the queue has other consumers"), "again when it comes again")
	tr.consuming(64, 64)
	tr.saw(0, 64)
	tr.saw(0, 65)
	require.Equal(t, 3, strings.Count(said.String(), "the queue has other consumers"), "as many as there are subscriptions are ours")
}
