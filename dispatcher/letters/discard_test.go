package letters_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/dispatcher/letters"
	"tidings/streams"
	"tidings/streams/event"
)

// dead returns the key of an event that is a dead letter, and nobody is working on.
func (r *rig) dead(id string, paths ...string) event.Key {
	r.Helper()
	r.down.Store(true)
	stop := r.dispatch()
	defer stop()
	key := r.order(id, paths...)
	r.reaches(key, 0, event.PhaseDead)
	return key
}

func TestDiscard(t *testing.T) {
	t.Run("ends the event for good, with operator and reason, and removes the letter", func(t *testing.T) {
		r := newRig(t)
		key := r.dead("1", "/ok", "/flaky")
		done, err := r.desk.Discard(t.Context(), r.target(key), letters.Word{Operator: "ann", Reason: "a test order"})
		require.NoError(t, err)
		last, err := r.log.Outcomes.Last(t.Context(), "acme", key)
		require.NoError(t, err)
		require.Equal(t, letters.Discarded{Key: key, Tenant: "acme", Cause: event.CauseRoundsExhausted, Sequence: last.Sequence}, done)
		require.Equal(t, event.Facts{event.Discarded{Operator: "ann", Reason: "a test order"}}, last.Record.Facts)
		require.Equal(t, event.PhaseSettled, last.Record.State.Phase)
		require.Equal(t, event.Processed, last.Record.State.Outcome, "one message was delivered")
		r.noLetter(key)
	})
	t.Run("needs a reason", func(t *testing.T) {
		r := newRig(t)
		key := r.dead("1", "/flaky")
		_, err := r.desk.Discard(t.Context(), r.target(key), letters.Word{Operator: "ann", Reason: "  "})
		require.ErrorIs(t, err, letters.ErrWord)
		r.target(key)
	})
	t.Run("of what somebody requeued is refused, and the other way round", func(t *testing.T) {
		r := newRig(t)
		key, other := r.dead("1", "/flaky"), r.dead("2", "/flaky")
		_, err := r.desk.Requeue(t.Context(), r.target(key), ann)
		require.NoError(t, err)
		_, err = r.desk.Discard(t.Context(), r.target(key), letters.Word{Operator: "bob", Reason: "no use"})
		require.ErrorContains(t, err, "ann@desk requeued it as generation 1")

		seen := r.target(other)
		left, _, err := r.log.DeadLetters.Get(t.Context(), "acme", other)
		require.NoError(t, err)
		_, err = r.desk.Discard(t.Context(), seen, letters.Word{Operator: "bob", Reason: "no use"})
		require.NoError(t, err)
		_, err = r.desk.Requeue(t.Context(), seen, ann)
		require.ErrorIs(t, err, streams.ErrNotFound)

		_, _, err = r.log.DeadLetters.Put(t.Context(), left) // as if bob's process had died before the removal
		require.NoError(t, err)
		_, err = r.desk.Requeue(t.Context(), r.target(other), ann)
		require.ErrorContains(t, err, "bob discarded it at ")
		require.ErrorContains(t, err, "(no use); it has ended as failed in generation 0")
		r.noLetter(other)
	})
	t.Run("works after the horizon", func(t *testing.T) {
		r := newRig(t, func(o *streams.Options) { o.Horizon = 2 * time.Second })
		key := r.dead("1", "/flaky")
		require.Eventually(t, func() bool {
			_, err := r.log.Outcomes.Last(t.Context(), "acme", key)
			return err != nil
		}, 30*time.Second, 20*time.Millisecond)
		_, err := r.desk.Discard(t.Context(), r.target(key), letters.Word{Operator: "ann", Reason: "too late"})
		require.NoError(t, err)
		last, err := r.log.Outcomes.Last(t.Context(), "acme", key)
		require.NoError(t, err)
		require.True(t, last.Record.State.Discarded)
		r.noLetter(key)
	})
}

func TestSweep(t *testing.T) {
	r := newRig(t)
	key := r.dead("1", "/flaky")
	removed, err := r.desk.Sweep(t.Context(), "acme", key)
	require.NoError(t, err)
	require.False(t, removed, "a letter that nobody dealt with stays")
	left, _, err := r.log.DeadLetters.Get(t.Context(), "acme", key)
	require.NoError(t, err)
	_, err = r.desk.Discard(t.Context(), r.target(key), letters.Word{Operator: "ann", Reason: "a test order"})
	require.NoError(t, err)
	_, _, err = r.log.DeadLetters.Put(t.Context(), left)
	require.NoError(t, err)
	removed, err = r.desk.Sweep(t.Context(), "acme", key)
	require.NoError(t, err)
	require.True(t, removed, "one that a crash left behind goes")
	removed, err = r.desk.Sweep(t.Context(), "acme", key)
	require.NoError(t, err)
	require.False(t, removed)
}
