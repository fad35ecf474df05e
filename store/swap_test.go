package store_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/store"
	"tidings/store/storetest"
)

func checkpoint(t require.TestingT, s *store.Store) uint64 {
	c, err := s.Checkpoint("OUTCOMES")
	require.NoError(t, err)
	return c.Sequence
}

func advance(t require.TestingT, s *store.Store, sequence uint64) {
	require.NoError(t, s.Update(func(tx *store.Tx) error {
		return tx.Checkpoint(store.Checkpoint{Stream: "OUTCOMES", Sequence: sequence})
	}))
}

// closed writes a file that stands at a sequence.
func closed(t *testing.T, path string, sequence uint64) string {
	s, err := store.Open(path, store.Options{})
	require.NoError(t, err)
	advance(t, s, sequence)
	require.NoError(t, s.Close())
	return path
}

func TestReplace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "ledger.db")
	s := storetest.OpenFile(t, path)
	advance(t, s, 1)

	t.Run("nobody who reads or writes meanwhile gets an error", func(t *testing.T) {
		var wg sync.WaitGroup
		stop := make(chan struct{})
		for range 4 {
			wg.Go(func() {
				for last := uint64(0); ; {
					at := checkpoint(t, s)
					require.GreaterOrEqual(t, at, last, "the old one is not seen after the new one")
					last = at
					select {
					case <-stop:
						return
					default:
					}
				}
			})
		}
		for i := uint64(2); i < 50; i += 2 {
			require.NoError(t, s.Replace(closed(t, filepath.Join(dir, "next"), i)))
			require.Equal(t, i, checkpoint(t, s))
			advance(t, s, i+1)
		}
		close(stop)
		wg.Wait()
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Len(t, entries, 1, "one file is left")
	})
	t.Run("a snapshot stays what it was, and the replacement waits for it", func(t *testing.T) {
		snapshot, release, err := s.Snapshot()
		require.NoError(t, err)
		was := checkpoint(t, snapshot)
		advance(t, s, 100)
		replaced := make(chan error)
		next := closed(t, filepath.Join(dir, "next"), 200)
		go func() { replaced <- s.Replace(next) }()
		require.Eventually(t, func() bool { return checkpoint(t, s) == 200 }, 30*time.Second, time.Millisecond)
		require.Equal(t, was, checkpoint(t, snapshot))
		require.NoError(t, release())
		require.NoError(t, <-replaced)
	})
	t.Run("what cannot be put there leaves everything as it is", func(t *testing.T) {
		require.Error(t, s.Replace(filepath.Join(dir, "nothing")))
		require.EqualValues(t, 200, checkpoint(t, s))
	})
	t.Run("it is what the next start finds", func(t *testing.T) {
		require.NoError(t, s.Close())
		again := storetest.OpenFile(t, path)
		require.EqualValues(t, 200, checkpoint(t, again))
	})
}

func TestAFileIsSmallThoughMuchRoomIsSetAsideForIt(t *testing.T) {
	s := storetest.Open(t)
	advance(t, s, 1)
	info, err := os.Stat(s.Path())
	require.NoError(t, err)
	require.Less(t, info.Size(), int64(4<<20))
}
