package projector_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tidings/projector"
	"tidings/store"
	"tidings/store/storetest"
	"tidings/streams"
	"tidings/streams/event"
	"tidings/streams/streamstest"
)

// rebuilding is how a test asks for a rebuild of w's ledger.
func (w *world) rebuilding(s *store.Store, live *projector.Projector) projector.RebuildOptions {
	return projector.RebuildOptions{Outcomes: w.outcomes, DeadLetters: w.letters, Store: s, Live: live}
}

// plant writes the row of an event that never was.
func plant(t require.TestingT, s *store.Store) event.Key {
	ref := storetest.Ref("nobody", 999)
	record := event.NewRecord(ref, event.State{}, storetest.Start, event.Claimed{})
	require.NoError(t, s.Update(func(tx *store.Tx) error {
		return tx.Record(store.Place{Sequence: 1, Time: storetest.Start}, record)
	}))
	return ref.Key
}

func TestRebuild(t *testing.T) {
	t.Run("puts the same ledger in place while the projector follows", func(t *testing.T) {
		w := newWorld(t)
		w.events(t, 50)
		w.letters.append(letterEntry(t, 1, storetest.Ref("acme", 3).Key))
		p, s, stop := w.run(t)
		defer stop()
		caughtUp(t, p, 100)
		eventually(t, func() bool { return p.Status().Ready() })
		want := digest(t, s)
		found, err := projector.Rebuild(t.Context(), w.rebuilding(s, p))
		require.NoError(t, err)
		require.True(t, found.Replaced)
		require.True(t, found.Differences.None())
		require.EqualValues(t, 100, found.Entries)
		require.Equal(t, want, digest(t, s))
		w.events(t, 10)
		caughtUp(t, p, 120)
		_, err = os.Stat(w.path + ".rebuild")
		require.ErrorIs(t, err, os.ErrNotExist)
	})
	t.Run("of an empty log, twice in a row", func(t *testing.T) {
		w := newWorld(t)
		p, s, stop := w.run(t)
		defer stop()
		for range 2 {
			found, err := projector.Rebuild(t.Context(), w.rebuilding(s, p))
			require.NoError(t, err)
			require.True(t, found.Replaced)
		}
		w.events(t, 1)
		caughtUp(t, p, 2)
		for range 2 {
			found, err := projector.Rebuild(t.Context(), w.rebuilding(s, p))
			require.NoError(t, err)
			require.True(t, found.Differences.None())
		}
	})
	t.Run("refuses a ledger that is not what the log says, keeps the other for a look, and mends it when that is accepted", func(t *testing.T) {
		w := newWorld(t)
		w.events(t, 5)
		p, s, stop := w.run(t)
		defer stop()
		caughtUp(t, p, 10)
		want := digest(t, s)
		key := plant(t, s)

		found, err := projector.Rebuild(t.Context(), w.rebuilding(s, p))
		require.ErrorIs(t, err, projector.ErrDiffers)
		require.False(t, found.Replaced)
		require.Equal(t, w.path+".rebuild", found.Kept)
		require.Equal(t, 1, found.Differences.Count["row"])
		require.Equal(t, key, found.Differences.First[0].Key)
		require.Empty(t, found.Differences.First[0].Theirs)
		_, err = s.Event(key)
		require.NoError(t, err, "the ledger is as it was")

		o := w.rebuilding(s, p)
		o.Accept = true
		found, err = projector.Rebuild(t.Context(), o)
		require.NoError(t, err)
		require.True(t, found.Replaced)
		require.Equal(t, 1, found.Differences.Count["row"])
		_, err = s.Event(key)
		require.ErrorIs(t, err, store.ErrNotFound)
		require.Equal(t, want, digest(t, s))
	})
	t.Run("mends a file that was damaged while it was open, when it is accepted that nothing can be compared", func(t *testing.T) {
		w := newWorld(t)
		w.events(t, 200)
		p, s, stop := w.run(t)
		defer stop()
		caughtUp(t, p, 400)
		want := digest(t, s)
		spoil(t, w.path)
		found, err := projector.Rebuild(t.Context(), w.rebuilding(s, p))
		require.ErrorIs(t, err, projector.ErrDiffers)
		require.NotEmpty(t, found.Differences.Unreadable)
		o := w.rebuilding(s, p)
		o.Accept = true
		_, err = projector.Rebuild(t.Context(), o)
		require.NoError(t, err)
		require.Equal(t, want, digest(t, s))
		w.events(t, 1)
		caughtUp(t, p, 402)
	})
	t.Run("does not forget what the log lost", func(t *testing.T) {
		w := newWorld(t)
		w.events(t, 5)
		p, s, stop := w.run(t)
		defer stop()
		caughtUp(t, p, 10)
		w.outcomes.cut(6)
		o := w.rebuilding(s, p)
		o.Accept = true
		_, err := projector.Rebuild(t.Context(), o)
		var halt *projector.HaltError
		require.ErrorAs(t, err, &halt)
		require.Equal(t, projector.ReasonLostTail, halt.Reason)
		require.ErrorContains(t, err, "tidings recover")
	})
	t.Run("of a log that forgot its beginning", func(t *testing.T) {
		w := newWorld(t)
		w.events(t, 20)
		p, s, stop := w.run(t)
		defer stop()
		caughtUp(t, p, 40)
		w.outcomes.ageOut(15)
		found, err := projector.Rebuild(t.Context(), w.rebuilding(s, p))
		require.NoError(t, err)
		require.True(t, found.Differences.None(), found.Differences.String())
		entries, err := s.Audit(0, 1)
		require.NoError(t, err)
		require.EqualValues(t, 15, entries[0].Sequence)
	})
	t.Run("does not mind letters that come and go", func(t *testing.T) {
		w := newWorld(t)
		w.events(t, 5)
		for i := range uint64(3) {
			w.letters.append(letterEntry(t, i+1, storetest.Ref("acme", int(i)).Key))
		}
		p, s, stop := w.run(t)
		defer stop()
		eventually(t, func() bool { return p.Status().Ready() })
		w.letters.remove(2)
		found, err := projector.Rebuild(t.Context(), w.rebuilding(s, p))
		require.NoError(t, err)
		require.True(t, found.Differences.None(), found.Differences.String())
		_, err = s.DeadLetter(storetest.Ref("acme", 1).Key)
		require.ErrorIs(t, err, store.ErrNotFound)
	})
	t.Run("tells how far it is, and goes on where an earlier one was stopped", func(t *testing.T) {
		w := newWorld(t)
		w.events(t, 50)
		p, s, stop := w.run(t)
		defer stop()
		caughtUp(t, p, 100)
		slow := &paced{Stream: w.outcomes, upTo: 60}
		o := w.rebuilding(s, p)
		o.Outcomes = slow
		ctx, cancel := context.WithCancel(t.Context())
		told := make(chan uint64, 100)
		o.Progress = func(p projector.Progress) {
			require.EqualValues(t, 100, p.Total)
			if p.Done == 60 {
				cancel()
			}
			select {
			case told <- p.Done:
			default:
			}
		}
		_, err := projector.Rebuild(ctx, o)
		require.ErrorIs(t, err, context.Canceled)
		found, err := projector.Rebuild(t.Context(), w.rebuilding(s, p))
		require.NoError(t, err)
		require.EqualValues(t, 40, found.Entries, "sixty were folded before")
	})
	t.Run("begins anew where what was left is of no use", func(t *testing.T) {
		for name, spoil := range map[string]func(t *testing.T, w *world){
			"no ledger at all": func(t *testing.T, w *world) {
				require.NoError(t, os.WriteFile(w.path+".rebuild", []byte("hello, this is no ledger"), 0o600))
			},
			"of another log": func(t *testing.T, w *world) {
				other := &world{outcomes: newSlice(), letters: newSlice(), path: w.path + ".rebuild"}
				other.outcomes.created = storetest.Start.Add(time.Hour)
				other.events(t, 3)
				other.folded(t)
			},
			"ahead of the ledger": func(t *testing.T, w *world) {
				other := *w
				other.path = w.path + ".rebuild"
				other.outcomes = newSlice()
				other.outcomes.append(w.outcomes.entries...)
				other.events(t, 3)
				other.folded(t)
			},
		} {
			t.Run(name, func(t *testing.T) {
				w := newWorld(t)
				w.events(t, 5)
				spoil(t, w)
				p, s, stop := w.run(t)
				defer stop()
				caughtUp(t, p, 10)
				found, err := projector.Rebuild(t.Context(), w.rebuilding(s, p))
				require.NoError(t, err)
				require.EqualValues(t, 10, found.Entries)
			})
		}
	})
	t.Run("makes a ledger where there was none, with nobody following", func(t *testing.T) {
		w := newWorld(t)
		w.events(t, 5)
		s := storetest.OpenFile(t, w.path)
		found, err := projector.Rebuild(t.Context(), w.rebuilding(s, nil))
		require.NoError(t, err)
		require.True(t, found.Replaced)
		require.Equal(t, foldedAtOnce(t, w.path+".other", w.log.Lines), digest(t, s))
	})
}

func TestARebuildThatCannotWriteEndsAndLeavesNothing(t *testing.T) {
	w := newWorld(t)
	s := storetest.OpenFile(t, w.path)
	w.events(t, 5)
	ref := storetest.Ref("acme", 5)
	ref.Tenant = strings.Repeat("x", 40_000) // more than a key of the file may have
	before := len(w.log.Lines)
	w.log.Record(ref, event.Claimed{})
	w.outcomes.append(entriesOf(t, w.log.Lines[before:])...)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, do := range []func(context.Context, projector.RebuildOptions) (projector.Rebuilt, error){projector.Rebuild, projector.Verify} {
		_, err := do(ctx, w.rebuilding(s, nil))
		require.ErrorContains(t, err, "the second file cannot be written")
		require.ErrorContains(t, err, "key too large")
		left, err := filepath.Glob(w.path + ".*")
		require.NoError(t, err)
		require.Empty(t, left)
	}
}

// paced is a stream of which so much is there for now.
type paced struct {
	projector.Stream
	upTo uint64
}

func (p *paced) Follow(ctx context.Context, from uint64, handle func(streams.Entry) error) error {
	return p.Stream.Follow(ctx, from, func(e streams.Entry) error {
		if e.Sequence > p.upTo {
			<-ctx.Done()
			return ctx.Err()
		}
		return handle(e)
	})
}

func TestVerify(t *testing.T) {
	w := newWorld(t)
	w.events(t, 5)
	p, s, stop := w.run(t)
	defer stop()
	caughtUp(t, p, 10)
	t.Run("finds nothing where the ledger is what the log says", func(t *testing.T) {
		found, err := projector.Verify(t.Context(), w.rebuilding(s, p))
		require.NoError(t, err)
		require.EqualValues(t, 10, found.Entries)
	})
	t.Run("finds what is not, and changes nothing", func(t *testing.T) {
		plant(t, s)
		before := digest(t, s)
		for range 2 {
			found, err := projector.Verify(t.Context(), w.rebuilding(s, p))
			require.ErrorIs(t, err, projector.ErrDiffers)
			require.Contains(t, found.Differences.String(), "1 × row")
			require.Equal(t, before, digest(t, s))
		}
		left, err := filepath.Glob(w.path + ".*")
		require.NoError(t, err)
		require.Empty(t, left)
	})
}

// TestARebuiltLedgerIsTheLiveOne rebuilds random logs that forgot a part, beside a
// projector that was stopped and started anywhere.
func TestARebuiltLedgerIsTheLiveOne(t *testing.T) {
	dir, n := t.TempDir(), 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		lines := storetest.Draw(rt, 40).Lines
		w := &world{outcomes: newSlice(), letters: newSlice(), path: filepath.Join(dir, string(rune('a'+n%26))+time.Now().Format("150405.000000000"))}
		w.options.BatchMax = rapid.IntRange(1, 7).Draw(rt, "batch")
		half := rapid.IntRange(0, len(lines)).Draw(rt, "before the restart")
		w.outcomes.append(entriesOf(rt, lines[:half])...)
		w.folded(rt)
		w.outcomes.append(entriesOf(rt, lines[half:])...)
		if first := rapid.IntRange(1, len(lines)+1).Draw(rt, "first"); first > 1 {
			w.outcomes.ageOut(uint64(first))
		}
		p, s, stop := w.run(rt)
		defer stop()
		eventually(rt, func() bool { return p.Status().Ready() })
		found, err := projector.Rebuild(context.Background(), w.rebuilding(s, p))
		require.NoError(rt, err)
		require.True(rt, found.Differences.None(), "%s: %+v", found.Differences, found.Differences.First)
	})
}

// TestRebuildOnJetStream rebuilds while records are appended and people ask.
func TestRebuildOnJetStream(t *testing.T) {
	server := streamstest.NewServer(t)
	w := newWriter(t, server)
	lines := history(5)
	p, s, stop := project(t, server.Log(), filepath.Join(t.TempDir(), "ledger.db"), projector.Options{})
	defer stop()
	caughtUp(t, p, w.write(t, lines[:len(lines)/2]))

	var wg sync.WaitGroup
	asking, enough := context.WithCancel(t.Context())
	wg.Go(func() {
		for asking.Err() == nil {
			_, err := s.Events(store.Query{})
			require.NoError(t, err)
			_, err = s.Counts()
			require.NoError(t, err)
		}
	})
	rebuilt := make(chan struct{})
	wg.Go(func() {
		defer close(rebuilt)
		for range 3 {
			found, err := projector.Rebuild(t.Context(), projector.RebuildOptions{
				Outcomes: server.Log().Outcomes, DeadLetters: server.Log().DeadLetters, Store: s, Live: p,
			})
			require.NoError(t, err)
			require.True(t, found.Differences.None(), "%+v", found.Differences)
		}
	})
	last := w.write(t, lines[len(lines)/2:])
	<-rebuilt
	enough()
	wg.Wait()
	caughtUp(t, p, last)
	require.True(t, p.Status().Ready())
}
