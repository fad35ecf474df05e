package streams_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/streams"
	"tidings/streams/streamstest"
)

// woken consumes wake-ups, acks them, and tells them with the time they came.
type woken struct {
	streams.Wakeup
	at time.Time
}

func wakeups(t *testing.T, l *streams.Log) <-chan woken {
	t.Helper()
	out := make(chan woken, 100)
	streamstest.Run(t, func(ctx context.Context) error {
		return l.Retries.Consume(ctx, streams.ConsumeOptions{Workers: 2}, func(ctx context.Context, d *streams.Delivery) {
			if d.FromEvents() {
				t.Error("a wake-up says that it is an event")
			}
			out <- woken{d.Wakeup(), time.Now()}
			if err := d.Ack(ctx); err != nil {
				t.Errorf("ack: %v", err)
			}
		})
	})
	return out
}

func receive[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(20 * time.Second):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

func wakeup(id string, sequence uint64) streams.Wakeup {
	return streams.Wakeup{Tenant: "Ünïcode & co", Key: ref(id).Key, Sequence: sequence}
}

func TestRetries(t *testing.T) {
	l := streamstest.New(t)
	came := wakeups(t, l)
	t.Run("a wake-up comes at once, as it was sent", func(t *testing.T) {
		require.NoError(t, l.Retries.Wake(t.Context(), wakeup("1", 42)))
		require.Equal(t, wakeup("1", 42), receive(t, came).Wakeup)
	})
	t.Run("a schedule comes when due, not before", func(t *testing.T) {
		due := time.Now().Add(1200 * time.Millisecond)
		require.NoError(t, l.Retries.Schedule(t.Context(), wakeup("2", 7), due))
		got := receive(t, came)
		require.Equal(t, wakeup("2", 7), got.Wakeup)
		require.False(t, got.at.Before(due), "%s early", due.Sub(got.at))
	})
	t.Run("a schedule that is past due comes soon", func(t *testing.T) {
		require.NoError(t, l.Retries.Schedule(t.Context(), wakeup("3", 1), time.Now().Add(-time.Hour)))
		require.Equal(t, wakeup("3", 1), receive(t, came).Wakeup)
	})
	t.Run("a second schedule replaces the first", func(t *testing.T) {
		require.NoError(t, l.Retries.Schedule(t.Context(), wakeup("4", 1), time.Now().Add(time.Hour)))
		require.NoError(t, l.Retries.Schedule(t.Context(), wakeup("4", 2), time.Now().Add(100*time.Millisecond)))
		require.Equal(t, wakeup("4", 2), receive(t, came).Wakeup)
		require.NoError(t, l.Retries.Schedule(t.Context(), wakeup("5", 1), time.Now().Add(500*time.Millisecond)))
		require.NoError(t, l.Retries.Schedule(t.Context(), wakeup("5", 2), time.Now().Add(time.Hour)))
		require.NoError(t, l.Retries.Schedule(t.Context(), wakeup("6", 1), time.Now().Add(900*time.Millisecond)))
		require.Equal(t, wakeup("6", 1), receive(t, came).Wakeup, "the first schedule of 5 would have come before")
	})
	t.Run("what was acked leaves nothing behind but the schedule that is still waiting", func(t *testing.T) {
		require.Eventually(t, func() bool {
			info, err := l.Retries.Info(t.Context())
			return err == nil && info.Messages == 1
		}, 10*time.Second, 10*time.Millisecond)
	})
	t.Run("a key that is none is refused", func(t *testing.T) {
		bad := streams.Wakeup{Tenant: "acme", Key: "a.b > *"}
		require.Error(t, l.Retries.Wake(t.Context(), bad))
		require.Error(t, l.Retries.Schedule(t.Context(), bad, time.Now()))
	})
}

func TestSchedulesOutlastTheServer(t *testing.T) {
	for name, restart := range map[string]func(*streamstest.Server){
		"stopped": (*streamstest.Server).Restart, "killed": (*streamstest.Server).KillRestart,
	} {
		t.Run(name, func(t *testing.T) {
			s := streamstest.NewServer(t)
			l := s.Log()
			require.NoError(t, l.Retries.Schedule(t.Context(), wakeup("1", 3), time.Now().Add(500*time.Millisecond)))
			restart(s)
			require.Equal(t, wakeup("1", 3), receive(t, wakeups(t, l)).Wakeup)
		})
	}
}
