package letters_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/dispatcher/letters"
	"tidings/streams"
	"tidings/streams/event"
)

func TestRequeue(t *testing.T) {
	t.Run("sends what was not delivered, with the same ids, and nothing else", func(t *testing.T) {
		r := newRig(t)
		r.down.Store(true)
		r.dispatch()
		key := r.order("1", "/ok", "/flaky")
		r.reaches(key, 0, event.PhaseDead)
		r.down.Store(false)
		before := r.calls("/flaky")

		done, err := r.desk.Requeue(t.Context(), r.target(key), ann)
		require.NoError(t, err)
		require.Equal(t, 1, done.Generation)
		require.Equal(t, key, done.Event.Key)
		s := r.reaches(key, 1, event.PhaseSettled)
		require.Equal(t, event.Processed, s.Outcome)
		require.Len(t, r.calls("/ok"), 1, "what was delivered is not sent again")
		require.Equal(t, append(before, before[0]), r.calls("/flaky"))
		r.noLetter(key)
	})
	t.Run("is in the history, with operator and reason", func(t *testing.T) {
		r := newRig(t)
		r.down.Store(true)
		stop := r.dispatch()
		key := r.order("1", "/flaky")
		r.reaches(key, 0, event.PhaseDead)
		stop()
		done, err := r.desk.Requeue(t.Context(), r.target(key), letters.Word{Operator: "ann@desk", Reason: "mended", Replay: "monday"})
		require.NoError(t, err)
		last, err := r.log.Outcomes.Last(t.Context(), "acme", key)
		require.NoError(t, err)
		require.Equal(t, done.Sequence, last.Sequence)
		require.Equal(t, event.KindOpened, last.Record.Kind)
		require.Equal(t, event.Facts{event.Requeued{Generation: 1, Operator: "ann@desk", Reason: "mended", Replay: "monday"}}, last.Record.Facts)
	})
	t.Run("that fails again is a new letter, in the place of the one before", func(t *testing.T) {
		r := newRig(t)
		r.down.Store(true)
		r.dispatch()
		key := r.order("1", "/flaky")
		for generation := range 3 {
			r.reaches(key, generation, event.PhaseDead)
			_, err := r.desk.Requeue(t.Context(), r.target(key), ann)
			require.NoError(t, err)
		}
		r.reaches(key, 3, event.PhaseDead)
		letter, _, err := r.log.DeadLetters.Get(t.Context(), "acme", key)
		require.NoError(t, err)
		require.Equal(t, 3, letter.Generation)
		require.Equal(t, event.CauseRoundsExhausted, letter.Cause)
		info, err := r.log.DeadLetters.Info(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 1, info.Messages, "one letter for each event and generation")
	})
	t.Run("works inside the duplicate window, where a re-publish is swallowed", func(t *testing.T) {
		r := newRig(t)
		r.down.Store(true)
		r.dispatch()
		key := r.order("1", "/flaky")
		r.reaches(key, 0, event.PhaseDead)
		r.down.Store(false)
		e := event.Envelope{Tenant: "acme", Source: "shop", ID: "1", Type: "order.placed"}
		again, err := r.log.Events.Publish(t.Context(), streams.Incoming{Envelope: e, Nonce: event.NewNonce()})
		require.NoError(t, err)
		require.True(t, again.Duplicate, "this is how a re-publish is lost")
		_, err = r.desk.Requeue(t.Context(), r.target(key), ann)
		require.NoError(t, err)
		require.Equal(t, event.Processed, r.reaches(key, 1, event.PhaseSettled).Outcome)
	})
	t.Run("resends what is uncertain, by the operator's word", func(t *testing.T) {
		r := newRig(t)
		r.dispatch()
		key := r.publish("1", "mail.sent", map[string]any{"to": []string{"a@example.com"}, "name": "Ann"})
		s := r.reaches(key, 0, event.PhaseDead)
		require.Equal(t, event.CauseUncertain, s.Cause)
		_, err := r.desk.Requeue(t.Context(), r.target(key), ann)
		require.NoError(t, err)
		s = r.reaches(key, 1, event.PhaseDead)
		require.Equal(t, 2, s.Tries())
	})
	t.Run("takes the payload from the letter where EVENTS was trimmed, as often as it fails", func(t *testing.T) {
		r := newRig(t)
		r.down.Store(true)
		r.dispatch()
		key := r.order("1", "/flaky")
		r.reaches(key, 0, event.PhaseDead)
		require.NoError(t, r.log.Events.Trim(t.Context(), 2))
		_, err := r.desk.Requeue(t.Context(), r.target(key), ann)
		require.NoError(t, err)
		require.Equal(t, event.CauseRoundsExhausted, r.reaches(key, 1, event.PhaseDead).Cause)
		r.down.Store(false)
		_, err = r.desk.Requeue(t.Context(), r.target(key), ann)
		require.NoError(t, err)
		require.Equal(t, event.Processed, r.reaches(key, 2, event.PhaseSettled).Outcome)
		requests := r.sink.Requests()
		require.Equal(t, requests[0].Body, requests[len(requests)-1].Body)
		r.noLetter(key)
	})
}

func TestRequeueAfterTheHorizon(t *testing.T) {
	r := newRig(t, func(o *streams.Options) { o.Horizon = 3 * time.Second })
	r.down.Store(true)
	r.dispatch()
	key := r.order("1", "/ok", "/flaky")
	r.reaches(key, 0, event.PhaseDead)
	target := r.target(key)
	require.Eventually(t, func() bool {
		_, err := r.log.Outcomes.Last(t.Context(), "acme", key)
		return err != nil
	}, 30*time.Second, 20*time.Millisecond, "the horizon has forgotten the history")
	r.down.Store(false)

	done, err := r.desk.Requeue(t.Context(), target, ann)
	require.NoError(t, err)
	require.Equal(t, 1, done.Generation)
	r.noLetter(key)
	require.Len(t, r.calls("/ok"), 1, "the letter knows what was delivered")
	require.Len(t, r.calls("/flaky"), 4)
}

func TestTwoOperatorsAtOnce(t *testing.T) {
	t.Run("one of eight requeues the letter, and the others are told who did", func(t *testing.T) {
		r := newRig(t)
		r.down.Store(true)
		stop := r.dispatch()
		key := r.order("1", "/flaky")
		r.reaches(key, 0, event.PhaseDead)
		stop()
		target := r.target(key)
		var won, told atomic.Int32
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				_, err := r.desk.Requeue(t.Context(), target, ann)
				if err == nil {
					won.Add(1)
					return
				}
				if conflict := new(letters.ConflictError); !asConflict(err, conflict) || conflict.Deed.Operator != ann.Operator {
					t.Errorf("not the conflict that was wanted: %v", err)
				}
				told.Add(1)
			})
		}
		wg.Wait()
		require.EqualValues(t, 1, won.Load())
		require.EqualValues(t, 7, told.Load())
		require.Equal(t, 1, r.reaches(key, 1, event.PhaseOpen).Generation)
	})
	t.Run("the second is told who did what, and where the event stands", func(t *testing.T) {
		r := newRig(t)
		r.down.Store(true)
		r.dispatch()
		key := r.order("1", "/flaky")
		r.reaches(key, 0, event.PhaseDead)
		seen := r.target(key)
		_, err := r.desk.Requeue(t.Context(), seen, ann)
		require.NoError(t, err)
		r.reaches(key, 1, event.PhaseDead)
		_, err = r.desk.Requeue(t.Context(), seen, letters.Word{Operator: "bob"})
		require.ErrorContains(t, err, "it is another letter than the one that was looked at; ann@desk requeued it as generation 1 at ")
		require.ErrorContains(t, err, "(the shop is back); it is a dead letter (rounds_exhausted) of generation 1")
		require.Equal(t, 1, r.reaches(key, 1, event.PhaseDead).Generation, "nothing was done")
	})
	t.Run("a letter that is gone is not found", func(t *testing.T) {
		r := newRig(t)
		_, err := r.desk.Requeue(t.Context(), letters.Target{Tenant: "acme", Key: event.NewKey("nobody")}, ann)
		require.ErrorIs(t, err, streams.ErrNotFound)
	})
	t.Run("nobody requeues without a name", func(t *testing.T) {
		r := newRig(t)
		for _, name := range []string{"", " ", "ann\nbob"} {
			_, err := r.desk.Requeue(t.Context(), letters.Target{Tenant: "acme", Key: event.NewKey("1")}, letters.Word{Operator: name})
			require.ErrorIs(t, err, letters.ErrWord)
		}
	})
}

func TestAReplayRequeuesALetterOnce(t *testing.T) {
	r := newRig(t)
	r.down.Store(true)
	stop := r.dispatch()
	key := r.order("1", "/flaky")
	r.reaches(key, 0, event.PhaseDead)
	stop()
	seen, monday := r.target(key), letters.Word{Operator: "ann", Replay: "monday"}
	first, err := r.desk.Requeue(t.Context(), seen, monday)
	require.NoError(t, err)
	want := first
	want.Already = true
	for _, when := range []string{"while it waits to be worked on", "when it failed again", "when it succeeded and its letter is gone"} {
		switch when {
		case "when it failed again":
			r.dispatch()
			r.reaches(key, 1, event.PhaseDead)
		case "when it succeeded and its letter is gone":
			r.down.Store(false)
			_, err := r.desk.Requeue(t.Context(), r.target(key), ann)
			require.NoError(t, err)
			r.noLetter(key)
		}
		again, err := r.desk.Requeue(t.Context(), seen, monday)
		require.NoError(t, err, when)
		require.Equal(t, want, again, when)
	}
	_, err = r.desk.Requeue(t.Context(), seen, letters.Word{Operator: "ann", Replay: "tuesday"})
	require.ErrorIs(t, err, streams.ErrNotFound, "another plan finds it gone")
}
