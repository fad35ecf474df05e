package projector_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/projector"
	"tidings/store"
	"tidings/store/storetest"
	"tidings/streams"
)

// The process that is killed is this test binary, started again with killedLedger
// naming a ledger: it follows a log into it, and makes it anew over and over.
const (
	killedLedger = "TIDINGS_TEST_KILLED_LEDGER"
	// killedLog is a file with that log, whose ids are random.
	killedLog = "TIDINGS_TEST_KILLED_LOG"
	// killedAt is where it kills itself; empty: it does not.
	killedAt = "TIDINGS_TEST_KILLED_AT"
)

// Where the process kills itself.
const (
	killedFolding   = "folding"
	killedComparing = "comparing"
	killedReplacing = "replacing" // before the files change places
	killedRenamed   = "renamed"   // as soon as they have, which may be seen late
	killedReplaced  = "replaced"
)

func die() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL); select {} }

// rebuildUntilKilled is that process.
func rebuildUntilKilled(path string) error {
	at := os.Getenv(killedAt)
	w := &world{outcomes: newSlice(), letters: newSlice(), path: path}
	data, err := os.ReadFile(os.Getenv(killedLog))
	if err != nil {
		return err
	}
	var entries []streams.Entry
	if err := json.Unmarshal(data, &entries); err != nil {
		return err
	}
	s, err := store.Open(path, store.Options{})
	if err != nil {
		return err
	}
	was, err := s.Checkpoint(streams.OutcomesStream)
	if err != nil {
		return err
	}
	half := max(len(entries)/2, int(was.Sequence)) // the log has what the ledger has
	w.outcomes.append(entries[:half]...)
	p := projector.New(projector.Options{Outcomes: w.outcomes, DeadLetters: w.letters, Store: s, BatchMax: 5, CommitEvery: time.Millisecond})
	go func() { _ = p.Run(context.Background()) }()
	go func() {
		for _, e := range entries[half:] {
			w.outcomes.append(e)
			time.Sleep(time.Millisecond) // spread over some rebuilds
		}
	}()
	if at == killedRenamed {
		go dieWhenRenamed(path)
	}
	for n := 0; ; n++ {
		var from projector.Stream = w.outcomes
		if n == 1 && at == killedFolding {
			from = deadly{from, uint64(1 + rand.IntN(half))}
		}
		found, err := projector.Rebuild(context.Background(), projector.RebuildOptions{
			Outcomes: from, DeadLetters: w.letters, Store: s, Live: p,
			Progress: func(p projector.Progress) {
				if n == 1 && string(p.Phase) == at {
					die()
				}
			},
		})
		if err != nil {
			return err
		}
		if !found.Differences.None() {
			return fmt.Errorf("after %d: %s", n, found.Differences.First[0])
		}
		if n == 1 && at == killedReplaced {
			die()
		}
	}
}

// deadly is a stream that kills the process when it is followed up to an entry.
type deadly struct {
	projector.Stream
	at uint64
}

func (d deadly) Follow(ctx context.Context, from uint64, handle func(streams.Entry) error) error {
	return d.Stream.Follow(ctx, from, func(e streams.Entry) error {
		if e.Sequence == d.at {
			time.Sleep(time.Duration(rand.IntN(5)) * time.Millisecond) // somewhere in a transaction
			die()
		}
		return handle(e)
	})
}

func dieWhenRenamed(path string) {
	before, err := os.Stat(path)
	for err == nil {
		var now os.FileInfo
		if now, err = os.Stat(path); err == nil && !os.SameFile(before, now) {
			die()
		}
	}
	die()
}

// TestKilledWhileTheLedgerIsMadeAnew kills the process 200 times, at named points and
// anywhere. There is one ledger each time, it can be opened, and it becomes what
// folding the whole log gives.
func TestKilledWhileTheLedgerIsMadeAnew(t *testing.T) {
	lines := history(7)
	entries := entriesOf(t, lines)
	want := foldedAtOnce(t, filepath.Join(t.TempDir(), "want.db"), lines)
	dir := t.TempDir()
	data, err := json.Marshal(entries)
	require.NoError(t, err)
	log := filepath.Join(dir, "log.json")
	require.NoError(t, os.WriteFile(log, data, 0o600))
	points := []string{killedFolding, killedComparing, killedReplacing, killedRenamed, killedReplaced}
	second := 0
	for n := range 200 {
		path := filepath.Join(dir, fmt.Sprint(n/10), "ledger.db") // ten kills each, one after the other
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		point := ""
		if n%2 == 0 {
			point = points[n/2%len(points)]
		}
		kill(t, path, log, point)

		files, err := filepath.Glob(filepath.Dir(path) + "/*")
		require.NoError(t, err)
		for _, f := range files {
			require.Contains(t, []string{path, path + ".rebuild"}, f, "there is a ledger, and perhaps a second file that nobody takes for one")
		}
		if len(files) == 2 {
			second++
		}
		if _, err := os.Stat(path); point != "" || err == nil { // it may die before it made one
			require.NoError(t, err)
			_, err := store.Check(t.Context(), path)
			require.NoError(t, err, "killed at %q", point)
		}
		if n%10 == 9 {
			w := &world{outcomes: newSlice(), letters: newSlice(), path: path}
			w.outcomes.append(entries...)
			require.Equal(t, want, w.folded(t))
			s := storetest.OpenFile(t, path)
			found, err := projector.Rebuild(t.Context(), w.rebuilding(s, nil))
			require.NoError(t, err)
			require.True(t, found.Differences.None(), "%v", found.Differences.First)
			require.Equal(t, want, digest(t, s))
		}
	}
	require.Positive(t, second, "some were killed in the middle")
}

// kill runs the process until it kills itself at a point, or for a random time.
func kill(t *testing.T, path, log, point string) {
	t.Helper()
	var said strings.Builder
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), killedLedger+"="+path, killedLog+"="+log, killedAt+"="+point)
	child.Stderr = &said
	require.NoError(t, child.Start())
	if point == "" {
		time.AfterFunc(time.Duration(rand.IntN(250))*time.Millisecond, func() { _ = child.Process.Kill() })
	}
	err := child.Wait()
	var exit *exec.ExitError
	require.True(t, errors.As(err, &exit), "%v", err)
	status, ok := exit.Sys().(syscall.WaitStatus)
	require.True(t, ok)
	require.Equal(t, syscall.SIGKILL, status.Signal(), said.String())
}
