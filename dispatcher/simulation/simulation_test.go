package simulation

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "run this seed alone, and say what happens in it")
	seedsFlag = flag.Int("seeds", defaultSeeds, "how many seeds to run")
	fromFlag  = flag.Uint64("from", 0, "the first of them")
)

func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1) // what runs in a bubble takes turns: a second processor is in the way
	goleak.VerifyTestMain(m)
}

func TestSimulation(t *testing.T) { simulate(t, *seedsFlag, func(*profile) {}) }

// TestSimulationWithBreakers is the same with breakers that open. A run can be
// repeated but for who is first through when one closes.
func TestSimulationWithBreakers(t *testing.T) {
	simulate(t, *seedsFlag/10, func(p *profile) { p.breakers = true })
}

// simulate runs the seeds, half of them in a process of its own where there is a
// processor for it: what runs in a bubble takes turns.
func simulate(t *testing.T, seeds int, change func(*profile)) {
	switch {
	case *seedFlag != 0:
		simulateFrom(t, *seedFlag, *seedFlag, change)
	case *fromFlag != 0:
		simulateFrom(t, *fromFlag, uint64(seeds), change)
	case runtime.NumCPU() == 1:
		simulateFrom(t, 1, uint64(seeds), change)
	default:
		half := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-from", fmt.Sprint(seeds/2+1), "-seeds", fmt.Sprint(*seedsFlag))
		var said bytes.Buffer
		half.Stdout, half.Stderr = &said, &said
		require.NoError(t, half.Start())
		simulateFrom(t, 1, uint64(seeds/2), change)
		if half.Wait() != nil {
			t.Fatal(said.String())
		}
	}
}

func simulateFrom(t *testing.T, first, last uint64, change func(*profile)) {
	for seed := first; seed <= last; seed++ {
		broken, trace := run(t, seed, nil, change)
		if broken != "" {
			t.Errorf("seed %d: %s\n%s\nto see it again: go test ./dispatcher/simulation -run '^%s$' -seed %d",
				seed, broken, strings.Join(trace, "\n"), t.Name(), seed)
			return
		}
		if *seedFlag != 0 {
			t.Log("\n" + strings.Join(trace, "\n"))
		}
	}
}

// TestRunsAreRepeatable: all but one in a hundred are, where two workers of one
// process come free in the same moment.
func TestRunsAreRepeatable(t *testing.T) {
	var differ []uint64
	for seed := uint64(1); seed <= defaultSeeds/50; seed++ {
		_, once := run(t, seed, nil)
		_, again := run(t, seed, nil)
		if !slices.Equal(once, again) {
			differ = append(differ, seed)
		}
	}
	require.LessOrEqual(t, len(differ), 2, "seeds that told another story: %v", differ)
}

// run runs a seed to its end, and returns what is wrong, if anything, and what
// happened.
func run(t *testing.T, seed uint64, p plant, change ...func(*profile)) (broken string, trace []string) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, seed, p)
		for _, f := range change {
			f(&w.profile)
		}
		w.people = w.open("people")
		w.bootOne()
		w.publishMore()
		w.storm()
		w.calm()
		w.atTheEnd()
		broken, trace = w.broken, append([]string{fmt.Sprintf("%+v", w.profile)}, w.trace...)
		w.end()
	})
	return broken, trace
}

// bubble is synctest.Test. The NATS client keeps timers in a pool, and a timer of
// one bubble must not be used in another: two collections empty a pool.
func bubble(t *testing.T, f func(*testing.T)) {
	runtime.GC()
	runtime.GC()
	synctest.Test(t, f)
}
