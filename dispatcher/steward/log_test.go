package steward_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/dispatcher/steward"
	"tidings/streams"
	"tidings/streams/event"
	"tidings/streams/streamstest"
)

// world is a real log, and a ledger that never lags because it asks the log.
type world struct {
	t       *testing.T
	log     *streams.Log
	walked  uint64
	letters []steward.Letter
	woken   []streams.Wakeup
}

func newWorld(t *testing.T, opts ...streamstest.Option) *world {
	return &world{t: t, log: streamstest.New(t, opts...)}
}

func (w *world) CaughtUp(context.Context) error         { return nil }
func (w *world) Walked(context.Context) (uint64, error) { return w.walked, nil }
func (w *world) Walk(_ context.Context, s uint64) error { w.walked = s; return nil }
func (w *world) Wake(_ context.Context, wake streams.Wakeup) error {
	w.woken = append(w.woken, wake)
	return nil
}

func (w *world) Overdue(context.Context, time.Time, time.Time, int) ([]streams.Wakeup, error) {
	return nil, nil
}

func (w *world) Phase(key event.Key) (event.Phase, bool, error) {
	last, err := w.log.Outcomes.Last(w.t.Context(), "acme", key)
	if errors.Is(err, streams.ErrNotFound) {
		return "", false, nil
	}
	return last.Record.State.Phase, err == nil, err
}

func (w *world) Settled(context.Context, int) ([]steward.Letter, error) { return w.letters, nil }

// publish stores an event, of some bytes, and returns its ref.
func (w *world) publish(id string, size int) event.Ref {
	got, err := w.log.Events.Publish(w.t.Context(), streams.Incoming{Nonce: event.NewNonce(), Envelope: event.Envelope{
		Tenant: "acme", Source: "shop", ID: id, IDSource: event.IDMessageID, Type: "order.placed",
		ContentType: "text/plain", Data: bytes.Repeat([]byte("x"), size),
	}})
	require.NoError(w.t, err)
	stored, err := w.log.Events.Get(w.t.Context(), got.Sequence)
	require.NoError(w.t, err)
	return stored.Ref
}

// record appends to the history of an event.
func (w *world) record(ref event.Ref, facts ...event.Fact) {
	var state event.State
	var after uint64
	if last, err := w.log.Outcomes.Last(w.t.Context(), ref.Tenant, ref.Key); err == nil {
		state, after = last.Record.State, last.Sequence
	}
	_, err := w.log.Outcomes.Append(w.t.Context(), event.NewRecord(ref, state, time.Now(), facts...), after)
	require.NoError(w.t, err)
}

// handle acknowledges the next events, whatever became of them.
func (w *world) handle(n int) {
	seen := make(chan struct{}, n)
	stop := streamstest.Run(w.t, func(ctx context.Context) error {
		return w.log.Events.Consume(ctx, streams.ConsumeOptions{Workers: 4}, func(ctx context.Context, d *streams.Delivery) {
			_ = d.Ack(ctx)
			seen <- struct{}{}
		})
	})
	for range n {
		<-seen
	}
	stop()
}

func (w *world) round(keep time.Duration) steward.Status {
	return w.roundWith(steward.Options{Keep: keep})
}

// roundWith lets a steward make its first round.
func (w *world) roundWith(o steward.Options) steward.Status {
	o.Ledger, o.Waker, o.Events, o.Histories, o.Letters = w, w, w.log.Events, w.log.Outcomes, w.log.DeadLetters
	s := steward.New(o)
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	require.Eventually(w.t, func() bool { return s.Status() != steward.Status{} }, 10*time.Second, time.Millisecond)
	cancel()
	require.NoError(w.t, <-done)
	return s.Status()
}

func (w *world) first() uint64 {
	info, err := w.log.Events.Info(w.t.Context())
	require.NoError(w.t, err)
	return info.First
}

func TestEventsThatWereGivenUpWithoutARecordAreWoken(t *testing.T) {
	w := newWorld(t)
	kept, lost := w.publish("1", 1), w.publish("2", 1)
	w.publish("3", 1)
	w.record(kept, event.Settled{})
	w.handle(3)
	w.publish("not handled yet", 1)

	status := w.round(time.Hour)
	require.Equal(t, 2, status.Missing)
	require.EqualValues(t, 1, status.Walked)
	require.Len(t, w.woken, 2)
	require.Contains(t, w.woken, streams.Wakeup{Tenant: "acme", Key: lost.Key, Sequence: lost.Sequence})

	t.Run("but not what is beyond the horizon: it may have had one", func(t *testing.T) {
		w := &world{t: t, log: w.log}
		require.Zero(t, w.roundWith(steward.Options{Horizon: time.Nanosecond}).Missing)
		require.Empty(t, w.woken)
	})
	t.Run("the next process looks at them again, and goes on when they have a record", func(t *testing.T) {
		w.woken = nil
		w.record(lost, event.Settled{})
		status := w.round(time.Hour)
		require.Equal(t, 1, status.Missing)
		require.EqualValues(t, 2, status.Walked)
		require.Len(t, w.woken, 1)
		require.EqualValues(t, 2, w.walked, "what was walked is noted")
	})
}

func TestWhatHasEndedIsTrimmedFromEvents(t *testing.T) {
	t.Run("when it is old", func(t *testing.T) {
		w := newWorld(t)
		settled, dead, open := w.publish("1", 1), w.publish("2", 1), w.publish("3", 1)
		w.record(settled, event.Settled{})
		w.record(dead, event.Dead{Cause: event.CausePanic})
		w.record(open, event.Waiting{Due: time.Now().Add(time.Hour), Reason: event.WaitRetry})
		w.handle(3)
		require.Empty(t, w.round(time.Nanosecond).Alarm)
		require.EqualValues(t, 3, w.first(), "the event that waits is still there")
		_, err := w.log.Events.Get(t.Context(), open.Sequence)
		require.NoError(t, err)
	})
	t.Run("not before", func(t *testing.T) {
		w := newWorld(t)
		w.record(w.publish("1", 1), event.Settled{})
		w.handle(1)
		w.round(time.Hour)
		require.EqualValues(t, 1, w.first())
	})
	small := func(o *streams.Options) { o.EventsMaxBytes = 1 << 20 }
	const n = 90 // of 10 kB: 86 %
	fill := func(w *world, facts ...event.Fact) {
		for i := range n {
			ref := w.publish(fmt.Sprint("full", i), 10_000)
			if i == 0 {
				w.record(ref, facts...)
			} else {
				w.record(ref, event.Settled{})
			}
		}
		w.handle(n)
	}
	t.Run("at any age when space is short, and no more than that", func(t *testing.T) {
		w := newWorld(t, small)
		fill(w, event.Settled{})
		require.Empty(t, w.round(time.Hour).Alarm)
		require.Greater(t, w.first(), uint64(10))
		require.Less(t, w.first(), uint64(30), "only as much as is needed")
		w.publish("there is room", 100_000)
	})
	t.Run("and never an event that has not ended: an alarm names it", func(t *testing.T) {
		w := newWorld(t, small)
		fill(w, event.Waiting{Due: time.Now().Add(time.Hour), Reason: event.WaitRetry})
		alarm := w.round(time.Hour).Alarm
		require.EqualValues(t, 1, w.first())
		for _, part := range []string{"EVENTS is 8", "order.placed", `"full0"`, "still waiting", "tidings events why"} {
			require.True(t, strings.Contains(alarm, part), "%q lacks %q", alarm, part)
		}
	})
}

func TestDeadLettersWhoseEventsHaveEndedOtherwiseAreRemoved(t *testing.T) {
	w := newWorld(t)
	letter := func(ref event.Ref) {
		seq, _, err := w.log.DeadLetters.Put(t.Context(), event.Letter{
			Schema: event.Schema, Kind: event.LetterEvent, Key: ref.Key, Tenant: ref.Tenant, Event: &ref, Cause: event.CausePanic, At: time.Now(),
		})
		require.NoError(t, err)
		w.letters = append(w.letters, steward.Letter{Tenant: ref.Tenant, Key: ref.Key, Sequence: seq})
	}
	over, stays, forgotten := w.publish("1", 1), w.publish("2", 1), w.publish("3", 1)
	for _, ref := range []event.Ref{over, stays, forgotten} {
		letter(ref)
	}
	raw := event.Ref{Key: event.NewKey("raw"), Tenant: "acme"}
	letter(raw)
	w.letters[3].Ended = true // an operator has ended it, and it has no history to say so
	w.record(over, event.Dead{Cause: event.CausePanic})
	w.record(over, event.Discarded{Operator: "ann", Reason: "a test"})
	w.record(stays, event.Dead{Cause: event.CausePanic}) // the list is behind
	w.handle(3)
	w.round(time.Hour)

	for ref, want := range map[event.Key]error{
		over.Key: streams.ErrNotFound, stays.Key: nil, forgotten.Key: nil, raw.Key: streams.ErrNotFound,
	} {
		_, _, err := w.log.DeadLetters.Get(t.Context(), "acme", ref)
		require.ErrorIs(t, err, want)
	}
}
