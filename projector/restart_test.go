package projector_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tidings/store/storetest"
	"tidings/streams"
)

// TestTheLedgerIsTheSameHoweverOftenTheProjectorStops runs the projector over a
// random history, stops or kills it anywhere, and compares with folding at once.
func TestTheLedgerIsTheSameHoweverOftenTheProjectorStops(t *testing.T) {
	dir, n := t.TempDir(), 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		lines := storetest.Draw(rt, 25).Lines
		w := &world{outcomes: newSlice(), letters: newSlice(), path: filepath.Join(dir, fmt.Sprint(n))}
		w.options.BatchMax = rapid.IntRange(1, 5).Draw(rt, "batch")

		for done := 0; done < len(lines); {
			to := rapid.IntRange(done+1, len(lines)).Draw(rt, "until")
			p, s, stop := w.run(rt)
			w.outcomes.append(entriesOf(rt, lines[done:to])...)
			if rapid.Bool().Draw(rt, "killed") {
				caughtUp(rt, p, uint64(rapid.IntRange(0, to).Draw(rt, "killed after")))
				require.NoError(rt, s.Close()) // from here on it writes nothing
			} else {
				caughtUp(rt, p, uint64(to))
			}
			stop()
			done = to
		}
		require.Equal(rt, foldedAtOnce(rt, w.path+".other", lines), w.folded(rt))
		storetest.Check(t, w.path)

		require.NoError(rt, os.Remove(w.path))
		require.Equal(rt, foldedAtOnce(rt, w.path+".third", lines), w.folded(rt), "and when the file is deleted")
	})
}

// folded runs the projector until it has everything, and returns the digest.
func (w *world) folded(t require.TestingT) string {
	p, s, stop := w.run(t)
	defer stop()
	caughtUp(t, p, w.outcomes.last)
	eventually(t, func() bool { return p.Status().Ready() })
	return digest(t, s)
}

// foldedAtOnce returns the digest of what one run over all lines gives.
func foldedAtOnce(t require.TestingT, path string, lines []storetest.Line) string {
	w := &world{outcomes: newSlice(), letters: newSlice(), path: path}
	w.outcomes.append(entriesOf(t, lines)...)
	return w.folded(t)
}

// TestALedgerThatForgetsIsOneThatNeverKnew runs the projector over a random history of
// all kinds, of which some entries cannot be folded and are skipped, while the streams
// forget what is old and letters are dealt with, stops it anywhere, and compares with
// what folding the rest of the streams gives.
func TestALedgerThatForgetsIsOneThatNeverKnew(t *testing.T) {
	dir, n := t.TempDir(), 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		w := &world{outcomes: newSlice(), letters: newSlice(), path: filepath.Join(dir, fmt.Sprint(n))}
		w.options.BatchMax, w.options.VerifyEvery = rapid.IntRange(1, 5).Draw(rt, "batch"), time.Millisecond
		entries := entriesOf(rt, storetest.Draw(rt, 40).Lines)
		for i := range entries {
			if rapid.IntRange(0, 7).Draw(rt, "unreadable") == 0 && entries[i].Header.Get(streams.HeaderKind) != "plan" {
				entries[i].Data = []byte("{")
				g := streams.Gap{From: uint64(i + 1), To: uint64(i + 1), Accepted: fmt.Sprint("ann: ", i), Skipped: true}
				w.outcomes.gaps = append(w.outcomes.gaps, g)
			}
		}
		for done, letters := 0, uint64(0); done < len(entries); {
			to := rapid.IntRange(done+1, len(entries)).Draw(rt, "until")
			p, s, stop := w.run(rt)
			w.outcomes.append(entries[done:to]...)
			letters++
			w.letters.append(letterEntry(rt, letters, storetest.Ref("acme", int(letters)).Key))
			if rapid.Bool().Draw(rt, "while it is behind") {
				w.forget(rt)
			}
			caughtUp(rt, p, uint64(to))
			if rapid.Bool().Draw(rt, "while it runs") {
				w.forget(rt)
			}
			if rapid.Bool().Draw(rt, "killed") {
				require.NoError(rt, s.Close())
			}
			stop()
			if rapid.Bool().Draw(rt, "while it is stopped") {
				w.forget(rt)
			}
			done = to
		}
		forgotten := w.folded(rt)
		storetest.Check(t, w.path)
		require.NoError(rt, os.Remove(w.path))
		require.Equal(rt, w.folded(rt), forgotten)
	})
}

// forget has OUTCOMES age by some entries, and deals with a letter.
func (w *world) forget(t *rapid.T) {
	first := rapid.Uint64Range(w.outcomes.first, w.outcomes.last).Draw(t, "first")
	w.outcomes.ageOut(first)
	w.letters.remove(rapid.Uint64Range(1, w.letters.last).Draw(t, "letter"))
}

func TestAnEntryThatIsDeliveredTwiceIsFoldedOnce(t *testing.T) {
	w := newWorld(t)
	w.events(t, 2)
	want := w.folded(t)
	require.NoError(t, os.Remove(w.path))
	w.outcomes.again = map[uint64]int{2: 1, 4: 1}
	require.Equal(t, want, w.folded(t))
	require.Empty(t, w.outcomes.again[2]+w.outcomes.again[4], "they were")
}
