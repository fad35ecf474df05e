package projector_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/projector"
	"tidings/store"
	"tidings/store/storetest"
	"tidings/streams"
	"tidings/streams/event"
)

func TestBatches(t *testing.T) {
	t.Run("a batch is committed when it is full, and what is left when it stops", func(t *testing.T) {
		w := newWorld(t)
		w.options.CommitEvery, w.options.BatchMax = time.Hour, 3
		w.events(t, 2)
		p, _, stop := w.run(t)
		caughtUp(t, p, 3)
		eventually(t, func() bool { return p.Status().Outcomes.Last == 4 })
		status := p.Status().Outcomes
		require.Equal(t, uint64(3), status.Applied)
		require.Equal(t, uint64(1), status.Lag)
		stop()
		require.Equal(t, uint64(4), p.Status().Outcomes.Applied)
	})
	t.Run("a batch that is not full is committed in time", func(t *testing.T) {
		w := newWorld(t)
		w.options.BatchMax = 1000
		w.events(t, 1)
		p, _, stop := w.run(t)
		defer stop()
		caughtUp(t, p, 2)
	})
}

func TestCaughtUp(t *testing.T) {
	t.Run("it waits for an entry that is yet to come", func(t *testing.T) {
		w := newWorld(t)
		p, _, stop := w.run(t)
		defer stop()
		done := make(chan error, 1)
		go func() { done <- p.CaughtUp(context.Background(), 2) }()
		w.events(t, 1)
		require.NoError(t, <-done)
	})
	t.Run("it gives up with its context, saying how far it is", func(t *testing.T) {
		w := newWorld(t)
		p, _, stop := w.run(t)
		defer stop()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		err := p.CaughtUp(ctx, 7)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorContains(t, err, "sequence 7 of OUTCOMES")
	})
}

func TestReadiness(t *testing.T) {
	t.Run("it is not ready before it is started", func(t *testing.T) {
		status := projector.New(projector.Options{}).Status()
		require.False(t, status.Ready())
		require.Equal(t, "not started", status.Outcomes.Reason)
	})
	t.Run("it is ready once it has what was there when it began", func(t *testing.T) {
		w := newWorld(t)
		w.options.CommitEvery, w.options.BatchMax = time.Hour, 1000
		w.events(t, 1)
		p, _, stop := w.run(t)
		defer stop()
		eventually(t, func() bool { return p.Status().Outcomes.Last == 2 })
		require.False(t, p.Status().Ready())
		require.Contains(t, p.Status().Outcomes.Reason, "catching up: at 0 of 2")
	})
	t.Run("a stream that does not answer is waited for, and named", func(t *testing.T) {
		w := newWorld(t)
		w.outcomes.down = errors.New("no servers available")
		w.events(t, 1)
		p, _, stop := w.run(t)
		defer stop()
		eventually(t, func() bool { return p.Status().Outcomes.Reason == "cannot follow OUTCOMES: no servers available" })
		w.outcomes.change(func() { w.outcomes.down = nil })
		caughtUp(t, p, 2)
		eventually(t, func() bool { return p.Status().Ready() })
	})
	t.Run("a stream that stops answering makes it not ready until it answers again", func(t *testing.T) {
		w := newWorld(t)
		w.options.VerifyEvery = time.Millisecond
		p, _, stop := w.run(t)
		defer stop()
		eventually(t, func() bool { return p.Status().Ready() })
		w.outcomes.change(func() { w.outcomes.down = errors.New("timeout") })
		eventually(t, func() bool { return p.Status().Outcomes.Reason == "cannot verify OUTCOMES: timeout" })
		w.outcomes.change(func() { w.outcomes.down = nil })
		eventually(t, func() bool { return p.Status().Ready() })
	})
	t.Run("a ledger that cannot be written makes it not ready, and nothing is dropped", func(t *testing.T) {
		w := newWorld(t)
		p, s, stop := w.run(t)
		eventually(t, func() bool { return p.Status().Ready() })
		require.NoError(t, s.Close())
		w.events(t, 1)
		eventually(t, func() bool { return p.Status().Outcomes.Reason != "" })
		require.Contains(t, p.Status().Outcomes.Reason, "cannot write the ledger")
		stop()
		p, _, stop = w.run(t)
		defer stop()
		caughtUp(t, p, 2)
	})
}

func TestWhatIsNotUnderstood(t *testing.T) {
	fold := func(t *testing.T, w *world) *store.Store {
		p, s, stop := w.run(t)
		t.Cleanup(stop)
		caughtUp(t, p, w.outcomes.last)
		eventually(t, func() bool { return p.Status().Ready() })
		w.problems = p.Status().Outcomes.Problems + p.Status().DeadLetters.Problems
		return s
	}
	ref := storetest.Ref("acme", 0)

	t.Run("a kind of a newer version is kept and shown, and is no problem", func(t *testing.T) {
		w := newWorld(t)
		w.events(t, 1)
		w.log.Unknown(storetest.Unknown{Key: ref.Key, Kind: "annotated", Data: []byte(`{"note":1}`)})
		w.outcomes.append(entryOf(t, w.log.Lines[2]))
		w.events(t, 1)
		history, err := fold(t, w).History(ref.Key, 0, 0)
		require.NoError(t, err)
		require.Equal(t, event.Kind("annotated"), history[2].Kind)
		require.Equal(t, `this version does not know the kind "annotated"`, history[2].Unknown.Problem)
		require.Zero(t, w.problems)
	})
	t.Run("an entry of a replay plan is one, and no problem", func(t *testing.T) {
		w := newWorld(t)
		e := entryOf(t, storetest.Line{Sequence: 1, Time: storetest.Start, Unknown: &storetest.Unknown{
			Kind: event.KindReplay, Data: []byte(`{"id":"a","kind":"replay","replay":"p","step":"created"}`),
		}})
		w.outcomes.append(e)
		entries, err := fold(t, w).Audit(0, 0)
		require.NoError(t, err)
		require.Nil(t, entries[0].Unknown)
		require.Equal(t, event.ReplayCreated, entries[0].Replay.Step)
		require.Zero(t, w.problems)
	})
	t.Run("a letter that cannot be read is listed with what its headers say", func(t *testing.T) {
		w := newWorld(t)
		broken := letterEntry(t, 1, ref.Key)
		broken.Data = []byte("{")
		broken.Header.Set(streams.HeaderCause, string(event.CausePanic))
		w.letters.append(broken)
		l, err := fold(t, w).DeadLetter(ref.Key)
		require.NoError(t, err)
		require.Equal(t, event.CausePanic, l.Cause)
		require.Contains(t, l.Detail, "this letter cannot be read")
		require.Equal(t, uint64(1), w.problems)
	})
}

func TestWhatTheStreamsForgetTheLedgerForgets(t *testing.T) {
	t.Run("entries below the first sequence, and their events", func(t *testing.T) {
		w := newWorld(t)
		w.events(t, 3)
		w.folded(t)
		w.outcomes.ageOut(5)
		w.events(t, 1)
		trimmed := w.folded(t)
		require.NoError(t, os.Remove(w.path))
		require.Equal(t, w.folded(t), trimmed, "as if it had never seen them")
	})
	t.Run("entries, while it runs", func(t *testing.T) {
		w := newWorld(t)
		w.options.VerifyEvery = time.Millisecond
		w.events(t, 3)
		p, s, stop := w.run(t)
		defer stop()
		caughtUp(t, p, 6)
		w.outcomes.ageOut(5)
		eventually(t, func() bool {
			counts, err := s.Counts()
			return err == nil && counts.Events() == 1
		})
	})
	letter := func(n int) event.Key { return storetest.Ref("acme", n).Key }
	for name, whileItRuns := range map[string]bool{"letters that were deleted while it was down": false, "letters that are deleted while it runs": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.options.VerifyEvery = time.Millisecond
			for i := range 4 {
				w.letters.append(letterEntry(t, uint64(i+1), letter(i)))
			}
			forget := func() {
				w.letters.ageOut(2) // the first
				w.letters.remove(3)
				w.letters.remove(4) // the last: its sequence stays used
			}
			p, s, stop := w.run(t)
			eventually(t, func() bool { _, err := s.DeadLetter(letter(3)); return err == nil })
			if !whileItRuns {
				stop()
				forget()
				p, s, stop = w.run(t)
			} else {
				forget()
			}
			defer stop()
			eventually(t, func() bool {
				counts, err := s.Counts()
				return err == nil && counts.Letters == 1 && p.Status().Ready()
			})
			_, err := s.DeadLetter(letter(1))
			require.NoError(t, err)
		})
	}
	t.Run("a letter that was deleted while it was down, although another came", func(t *testing.T) {
		w := newWorld(t)
		w.letters.append(letterEntry(t, 1, letter(1)), letterEntry(t, 2, letter(2)))
		w.folded(t)
		w.letters.remove(1)
		w.letters.append(letterEntry(t, 3, letter(3)))
		p, s, stop := w.run(t)
		defer stop()
		eventually(t, func() bool { return p.Status().Ready() })
		_, err := s.DeadLetter(letter(1))
		require.ErrorIs(t, err, store.ErrNotFound)
		_, err = s.DeadLetter(letter(3))
		require.NoError(t, err)
	})
	t.Run("letters that were deleted before they were seen are not waited for", func(t *testing.T) {
		w := newWorld(t)
		w.letters.append(letterEntry(t, 1, letter(1)), letterEntry(t, 2, letter(2)), letterEntry(t, 3, letter(3)))
		w.letters.remove(2)
		w.letters.remove(3)
		p, _, stop := w.run(t)
		defer stop()
		eventually(t, func() bool { return p.Status().Ready() })
		require.Equal(t, uint64(1), p.Status().DeadLetters.Applied)
	})
}
