package projector_test

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Every generation brings as much as the horizon forgets; pages that are free are used
// again.
func TestAFileOfConstantTrafficDoesNotGrow(t *testing.T) {
	const (
		generation  = 300 // events
		window      = 3   // generations that are remembered
		generations = 40
		warm        = 10
		factor      = 1.25 // what the last may take of what the warm file took
	)
	w := newWorld(t)
	w.options.VerifyEvery, w.options.BatchMax = time.Millisecond, 100
	p, s, stop := w.run(t)
	defer stop()
	var first int64
	for n := range generations {
		w.events(t, generation)
		caughtUp(t, p, w.outcomes.last)
		if n >= window {
			oldest := w.outcomes.last - window*generation*2 + 1
			w.outcomes.ageOut(oldest)
			eventually(t, func() bool {
				entries, err := s.Audit(0, 1)
				return err == nil && entries[0].Sequence == oldest
			})
		}
		info, err := os.Stat(w.path)
		require.NoError(t, err)
		if n == warm {
			first = info.Size()
		}
		if n > warm {
			require.LessOrEqual(t, float64(info.Size()), factor*float64(first), "generation %d", n)
		}
	}
}
