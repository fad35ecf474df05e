package bench

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"tidings/store/storetest"
	"tidings/streams/event"
)

// partOf is the variable by which this binary is the process of a part.
const partOf = "TIDINGS_TEST_PART"

// inPart makes a measurement and ends the process, if it was started for that.
func inPart() {
	text := os.Getenv(partOf)
	if text == "" {
		return
	}
	if err := RebuildPart(context.Background(), text, os.Stdout); err != nil {
		_, _ = os.Stderr.WriteString("error: " + err.Error() + "\n")
		os.Exit(1)
	}
	os.Exit(0)
}

func processes(ctx context.Context, part string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), partOf+"="+part)
	return cmd
}

func TestRebuild(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	var told strings.Builder
	profile := filepath.Join(t.TempDir(), "cpu.out")
	r, err := Rebuild(t.Context(), RebuildOptions{
		Records: 1500, Rounds: 2, Queries: true, Memory: true, CPUProfile: profile, Process: processes, Progress: &told,
	})
	require.NoError(t, err) // so each query had the right answer
	t.Run("measures product and floor", func(t *testing.T) {
		require.Equal(t, 1500, r.Records)
		require.Positive(t, r.Rate)
		require.Positive(t, r.Floor)
		require.InDelta(t, r.Rate/r.Floor, r.Ratio, 0.01)
	})
	t.Run("asks every query, and counts the heap", func(t *testing.T) {
		require.Len(t, r.Queries, len(queries()))
		for _, q := range r.Queries {
			require.Positive(t, q.P50, q.Query)
			require.GreaterOrEqual(t, q.P99, q.P50, q.Query)
		}
		require.Greater(t, r.Heap.IDs, 500)
		require.FileExists(t, profile)
	})
	t.Run("takes turns, and says how far it is", func(t *testing.T) {
		var steps []string
		for line := range strings.Lines(told.String()) {
			if step := before(line, ": 1500 of 1500"); step != "" && (len(steps) == 0 || steps[len(steps)-1] != step) {
				steps = append(steps, step)
			}
		}
		require.Equal(t, []string{
			"filling OUTCOMES",
			"round 1 of 2, product", "round 1 of 2, product, checking", "round 1 of 2, floor", "round 1 of 2, floor, checking",
			"round 2 of 2, floor", "round 2 of 2, floor, checking", "round 2 of 2, product", "round 2 of 2, product, checking",
			"memory", "memory without events",
		}, steps)
	})
	t.Run("leaves nothing", func(t *testing.T) {
		left, err := filepath.Glob(filepath.Join(temp, "*"))
		require.NoError(t, err)
		require.Empty(t, left)
	})
}

func TestRebuildThatFailsSaysWhy(t *testing.T) {
	p := part{Kind: partProduct, Log: filepath.Join(t.TempDir(), "file", "log"), Want: newContents()}
	require.NoError(t, os.WriteFile(filepath.Dir(p.Log), nil, 0o600))
	b := &rebuildBench{RebuildOptions: RebuildOptions{Process: processes}, progress: &progress{to: io.Discard}}
	_, err := b.run(t.Context(), p, "product", 1)
	require.ErrorContains(t, err, "not a directory")
	require.NotContains(t, err.Error(), "error: ")
}

func TestRebuildThatIsInterruptedLeavesNothing(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	for _, at := range []string{"filling", "product", "floor"} {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := Rebuild(ctx, RebuildOptions{Records: 1000, Rounds: 1, Process: processes, Progress: writer(func(line string) {
			if strings.Contains(line, at) {
				cancel()
			}
		})})
		cancel()
		require.ErrorIs(t, err, context.Canceled, at)
		left, err := filepath.Glob(filepath.Join(temp, "*"))
		require.NoError(t, err)
		require.Empty(t, left, at)
	}
}

func TestHistoriesAreWhatTidingsWrites(t *testing.T) {
	const count = 20_000
	states, kinds, n := map[event.Key]event.State{}, map[event.Kind]int{}, 0
	want := newContents()
	size := 0
	for l := range want.of(histories{seed: 1}.lines(count)) {
		n++
		if l.duplicate != nil {
			kinds[event.KindDuplicate]++
			continue
		}
		kinds[l.record.Kind]++
		data, err := event.EncodeRecord(*l.record)
		require.NoError(t, err)
		size += len(data)
		stored, err := event.DecodeRecord(data)
		require.NoError(t, err)
		before := states[stored.Event.Key]
		require.False(t, before.Ended(), "nothing follows the end")
		after, err := before.Fold(stored)
		require.NoError(t, err)
		require.Equal(t, stored.State.Outcome, after.Outcome)
		require.Equal(t, before.Revision+1, after.Revision)
		require.Equal(t, l.letter != nil, stored.State.Phase == event.PhaseDead)
		states[stored.Event.Key] = after
	}
	require.Equal(t, count, n)
	require.Equal(t, len(states), want.events())
	for _, k := range []event.Kind{event.KindClaimed, event.KindWaiting, event.KindSettled, event.KindDead, event.KindDuplicate} {
		require.Positive(t, kinds[k], k)
	}
	for _, o := range event.Outcomes() {
		require.Positive(t, want.Outcomes[o], o)
	}
	require.InDelta(t, 1200, size/n, 400, "bytes of a record")
}

func TestALedgerThatIsNotWhatTheStreamSaysIsNoResult(t *testing.T) {
	const count = 600
	t.Setenv("TMPDIR", t.TempDir())
	p, err := openLog(t.Context(), logOptions())
	require.NoError(t, err)
	defer p.close()
	want := newContents()
	require.NoError(t, p.fill(t.Context(), want.of(histories{seed: 1}.lines(count)), new(atomic.Int64)))
	ledger := storetest.Open(t)
	require.NoError(t, p.fold(t.Context(), ledger, count, uint64(want.Letters), new(atomic.Int64)))
	require.NoError(t, want.check(ledger, new(atomic.Int64)))

	for name, change := range map[string]func(*contents){
		"a record is missing":       func(c *contents) { c.Records++ },
		"a duplicate is missing":    func(c *contents) { c.Duplicates++ },
		"a dead letter is missing":  func(c *contents) { c.Letters++ },
		"an event is missing":       func(c *contents) { c.Outcomes[event.Processed]++ },
		"an event ended otherwise":  func(c *contents) { c.Outcomes[event.Processed]--; c.Outcomes[event.Failed]++ },
		"an event has ended beside": func(c *contents) { c.Open[event.PhaseClaimed]++; c.Outcomes[event.Processed]-- },
	} {
		t.Run(name, func(t *testing.T) {
			var other contents // as the process of a part gets it
			data, err := json.Marshal(want)
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(data, &other))
			require.NoError(t, other.check(ledger, new(atomic.Int64)))
			change(&other)
			require.ErrorContains(t, other.check(ledger, new(atomic.Int64)), "the ledger is not what the stream says")
		})
	}
}

func TestAQueryThatLacksItsEventIsNoResult(t *testing.T) {
	ledger := storetest.Open(t)
	var sequence uint64
	for l := range (histories{seed: 1}).lines(200) {
		sequence++
		storetest.Apply(t, ledger, storetest.Line{Sequence: sequence, Time: l.at, Record: l.record, Duplicate: l.duplicate})
	}
	about, err := choose(ledger, 200)
	require.NoError(t, err)
	a := about[0]
	other := a
	other.row.Key, other.row.Messages.Created, other.entry = "another", 7, 201
	for _, q := range queries() {
		require.NoError(t, q.ask(a), q.name)
		switch q.name {
		case "counts", "counts by hour", "dead letters by cause": // of no event
		case "history in words (why)":
			lost := a
			lost.row.EventID = "unknown"
			require.Error(t, q.ask(lost))
		default:
			require.Error(t, q.ask(other), q.name)
		}
	}
}

func TestALedgerThatLacksARecordIsNoResult(t *testing.T) {
	log := histories{seed: 1}
	want := newContents()
	ledger := storetest.Open(t)
	var sequence uint64
	for l := range want.of(log.lines(200)) {
		if sequence++; sequence == 100 {
			continue
		}
		storetest.Apply(t, ledger, storetest.Line{Sequence: sequence, Time: l.at, Record: l.record, Duplicate: l.duplicate})
	}
	require.ErrorContains(t, want.check(ledger, new(atomic.Int64)), "the entry after 99 in the audit is 101")
}
