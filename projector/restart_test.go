package projector_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tidings/store/storetest"
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
