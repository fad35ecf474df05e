package steward_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/dispatcher/steward"
	"tidings/streams"
	"tidings/streams/event"
)

// question is what the ledger was asked: how long before now.
type question struct{ due, idle time.Duration }

// ledger answers with the same events each time, or with an error.
type ledger struct {
	overdue []streams.Wakeup
	err     error
	asked   []question
}

func (l *ledger) CaughtUp(context.Context) error                         { return nil }
func (l *ledger) Phase(event.Key) (event.Phase, bool, error)             { return "", false, nil }
func (l *ledger) Settled(context.Context, int) ([]steward.Letter, error) { return nil, nil }
func (l *ledger) Walked(context.Context) (uint64, error)                 { return 0, nil }
func (l *ledger) Walk(context.Context, uint64) error                     { return nil }

// nothing is an EVENTS without an event.
type nothing struct{ steward.Events }

func (nothing) Info(context.Context) (streams.StreamInfo, error)            { return streams.StreamInfo{}, nil }
func (nothing) Handled(context.Context) (uint64, error)                     { return 0, nil }
func (nothing) Copies(context.Context, uint64, int) ([]streams.Copy, error) { return nil, nil }

func (l *ledger) Overdue(_ context.Context, due, idle time.Time, _ int) ([]streams.Wakeup, error) {
	l.asked = append(l.asked, question{time.Since(due), time.Since(idle)})
	return l.overdue, l.err
}

type waker struct {
	woken []streams.Wakeup
	err   error
}

func (w *waker) Wake(_ context.Context, wake streams.Wakeup) error {
	w.woken = append(w.woken, wake)
	return w.err
}

func TestRun(t *testing.T) {
	forgotten := []streams.Wakeup{
		{Tenant: "acme", Key: event.NewKey("a"), Sequence: 1},
		{Tenant: "acme", Key: event.NewKey("b"), Sequence: 2},
	}
	run := func(t *testing.T, l *ledger, w *waker, d time.Duration) {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		require.NoError(t, steward.New(steward.Options{Ledger: l, Waker: w, Events: nothing{}}).Run(ctx))
	}
	t.Run("wakes what nobody looks after, at once and then every 15 s", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l, w := &ledger{overdue: forgotten}, &waker{}
			run(t, l, w, 16*time.Second)
			require.Equal(t, append(forgotten, forgotten...), w.woken)
		})
	})
	t.Run("at the start every claim counts as left behind, later only one past its lease", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := &ledger{}
			run(t, l, &waker{}, 16*time.Second)
			require.Equal(t, []question{{10 * time.Second, 0}, {10 * time.Second, 70 * time.Second}}, l.asked)
		})
	})
	t.Run("goes on after the ledger or the log could not be reached", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l, w := &ledger{err: errors.New("closed")}, &waker{}
			run(t, l, w, 31*time.Second)
			require.Len(t, l.asked, 3)
			l, w = &ledger{overdue: forgotten}, &waker{err: errors.New("no answer")}
			run(t, l, w, 16*time.Second)
			require.Equal(t, []streams.Wakeup{forgotten[0], forgotten[0]}, w.woken, "a round ends at the first failure")
		})
	})
}
