package streams_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"tidings/streams"
	"tidings/streams/streamstest"
)

// takeAside consumes what is set aside for a channel with one worker.
func takeAside(t *testing.T, l *streams.Log, channel string, ack bool) (<-chan *streams.Delivery, func()) {
	t.Helper()
	out := make(chan *streams.Delivery, 100)
	stop := streamstest.Run(t, func(ctx context.Context) error {
		return l.Retries.ConsumeAside(ctx, channel, streams.ConsumeOptions{Workers: 1, MaxDeliver: 1}, func(ctx context.Context, d *streams.Delivery) {
			out <- d
			if !ack {
				d.PutBack()
				return
			}
			if err := d.Ack(ctx); err != nil {
				t.Errorf("ack: %v", err)
			}
		})
	})
	return out, stop
}

func TestAside(t *testing.T) {
	l := streamstest.New(t)
	for _, id := range []string{"1", "2", "3"} {
		require.NoError(t, l.Retries.SetAside(t.Context(), wakeup(id, 1), "mail"))
	}
	t.Run("a second one of an event takes the place of the first, at the end", func(t *testing.T) {
		require.NoError(t, l.Retries.SetAside(t.Context(), wakeup("1", 5), "mail"))
		info, err := l.Retries.Info(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 3, info.Messages)
	})
	t.Run("nobody takes what is another channel's", func(t *testing.T) {
		came := wakeups(t, l)
		other, _ := takeAside(t, l, "hook", true)
		require.NoError(t, l.Retries.SetAside(t.Context(), wakeup("4", 1), "hook"))
		require.Equal(t, wakeup("4", 1), receive(t, other).Wakeup())
		require.Empty(t, other)
		require.Empty(t, came)
	})
	t.Run("a channel's come in the order in which they were set aside, and are gone then", func(t *testing.T) {
		mail, _ := takeAside(t, l, "mail", true)
		for _, want := range []streams.Wakeup{wakeup("2", 1), wakeup("3", 1), wakeup("1", 5)} {
			require.Equal(t, want, receive(t, mail).Wakeup())
		}
		require.Eventually(t, func() bool {
			info, err := l.Retries.Info(t.Context())
			return err == nil && info.Messages == 0
		}, 10*time.Second, 10*time.Millisecond)
	})
	t.Run("they are counted by channel, those that nobody consumes now included", func(t *testing.T) {
		require.NoError(t, l.Retries.SetAside(t.Context(), wakeup("9", 1), "Ünïcode & co"))
		strange, stop := takeAside(t, l, "Ünïcode & co", false)
		receive(t, strange)
		stop()
		aside, err := l.Retries.Aside(t.Context())
		require.NoError(t, err)
		require.Equal(t, map[string]int{"mail": 0, "hook": 0, "Ünïcode & co": 1}, aside)
	})
	t.Run("a key that is none is refused", func(t *testing.T) {
		require.Error(t, l.Retries.SetAside(t.Context(), streams.Wakeup{Tenant: "acme", Key: "a.b > *"}, "mail"))
	})
}

func TestWhatIsPutBackComesAtOnceAndIsNeverTheLastDelivery(t *testing.T) {
	l := streamstest.New(t)
	require.NoError(t, l.Retries.SetAside(t.Context(), wakeup("1", 1), "mail"))
	mail, _ := takeAside(t, l, "mail", false)
	for range 5 {
		d := receive(t, mail)
		require.False(t, d.LastDelivery(), "delivered %d times of one that it may", d.NumDelivered())
	}
}

// Stops come as often as they like: what is put back is never delivered for the
// last time, wherever it comes from, and is there all the same.
func TestStopsUseUpNoDeliveries(t *testing.T) {
	l := streamstest.New(t)
	got, err := l.Events.Publish(t.Context(), streams.Incoming{Envelope: order("1")})
	require.NoError(t, err)
	o := streams.ConsumeOptions{Workers: 1, MaxDeliver: 4, AckWait: time.Hour}
	came := make(chan *streams.Delivery, 10)
	for n := range 20 {
		stop := streamstest.Run(t, func(ctx context.Context) error {
			g, ctx := errgroup.WithContext(ctx)
			handle := func(_ context.Context, d *streams.Delivery) {
				came <- d
				<-ctx.Done()
				d.PutBack()
			}
			g.Go(func() error { return l.Events.Consume(ctx, o, handle) })
			g.Go(func() error { return l.Retries.Consume(ctx, o, handle) })
			return g.Wait()
		})
		d := receive(t, came)
		stop()
		require.False(t, d.LastDelivery(), "stop %d", n)
		require.Equal(t, got.Key, d.Wakeup().Key)
		require.Equal(t, got.Sequence, d.Wakeup().Sequence)
		require.Empty(t, came)
	}
	info, err := l.Retries.Info(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, info.Messages)
}

func TestWhileTheGateIsShutNothingIsTaken(t *testing.T) {
	l := streamstest.New(t)
	open, asked := make(chan struct{}), make(chan struct{}, 100)
	taken := make(chan string, 100)
	stop := streamstest.Run(t, func(ctx context.Context) error {
		o := streams.ConsumeOptions{Workers: 1, Gate: func(ctx context.Context) {
			asked <- struct{}{}
			select {
			case <-open:
			case <-ctx.Done():
			}
		}}
		return l.Events.Consume(ctx, o, func(ctx context.Context, d *streams.Delivery) {
			ref, err := d.Ref()
			if err == nil {
				err = d.Ack(ctx)
			}
			if err != nil {
				t.Error(err)
			}
			taken <- ref.ID
		})
	})
	_, err := l.Events.Publish(t.Context(), streams.Incoming{Envelope: order("1")})
	require.NoError(t, err)
	receive(t, asked)
	require.Empty(t, taken)
	open <- struct{}{}
	require.Equal(t, "1", receive(t, taken))
	stop() // the gate is shut again, and does not hold up the stop
	require.Empty(t, taken)
}
