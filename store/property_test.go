package store_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tidings/store"
	"tidings/store/storetest"
	"tidings/streams/event"
)

// newFiles returns a function that opens a new file for every case of a
// property, and checks it when the case has ended.
func newFiles(t *testing.T) func(rt *rapid.T, use func(*store.Store)) {
	dir, n := t.TempDir(), 0
	return func(rt *rapid.T, use func(*store.Store)) {
		n++
		path := filepath.Join(dir, fmt.Sprint(n))
		s, err := store.Open(path, store.Options{NoSync: true})
		require.NoError(rt, err)
		use(s)
		require.NoError(rt, s.CheckIndex())
		require.NoError(rt, s.Close())
		storetest.Check(t, path)
	}
}

func digest(t require.TestingT, s *store.Store) string {
	d, err := s.Digest()
	require.NoError(t, err)
	return d
}

func TestFoldingLeavesNoTraceOfHowItWasDone(t *testing.T) {
	open := newFiles(t)
	rapid.Check(t, func(rt *rapid.T) {
		log := storetest.Draw(rt, 40)
		var want string
		open(rt, func(s *store.Store) {
			storetest.Apply(rt, s, log.Lines...)
			want = digest(rt, s)
		})
		open(rt, func(s *store.Store) {
			for done := 0; done < len(log.Lines); {
				from := rapid.IntRange(0, done).Draw(rt, "applied again from")
				to := rapid.IntRange(done+1, len(log.Lines)).Draw(rt, "up to")
				storetest.Apply(rt, s, log.Lines[from:to]...)
				done = to
			}
			require.Equal(rt, want, digest(rt, s))
		})
	})
}

func TestTrimLeavesWhatFoldingTheRestGives(t *testing.T) {
	open := newFiles(t)
	rapid.Check(t, func(rt *rapid.T) {
		log := storetest.Draw(rt, 40)
		first := rapid.IntRange(1, len(log.Lines)+1).Draw(rt, "first")
		limit := rapid.IntRange(1, 50).Draw(rt, "limit")
		var want string
		histories := map[event.Key][]store.Entry{}
		open(rt, func(s *store.Store) {
			storetest.Apply(rt, s, log.Lines[first-1:]...)
			want = digest(rt, s)
			for n := range 6 {
				key := storetest.Ref([]string{"acme", "globex"}[n%2], n).Key
				histories[key], _ = s.History(key, 0, 0)
			}
		})
		open(rt, func(s *store.Store) {
			storetest.Apply(rt, s, log.Lines...)
			for more := true; more; {
				require.NoError(rt, s.Update(func(tx *store.Tx) (err error) {
					more, err = tx.Trim(uint64(first), limit)
					return err
				}))
			}
			require.Equal(rt, want, digest(rt, s))
			for key, want := range histories {
				got, err := s.History(key, 0, 0)
				require.Equal(rt, want, got)
				require.Equal(rt, len(want) == 0, err != nil)
			}
		})
	})
}

func TestRowsAreAFunctionOfTheLastRecord(t *testing.T) {
	open := newFiles(t)
	rapid.Check(t, func(rt *rapid.T) {
		log := storetest.Draw(rt, 40)
		last := map[string]storetest.Line{}
		ids := map[string]map[string]bool{}
		for _, l := range log.Lines {
			switch {
			case l.Record != nil:
				last[string(l.Record.Event.Key)] = l
			case l.Duplicate != nil:
				key := string(l.Duplicate.Event.Key)
				if ids[key] == nil {
					ids[key] = map[string]bool{}
				}
				ids[key][l.Duplicate.ID] = true
			}
		}
		open(rt, func(s *store.Store) {
			storetest.Apply(rt, s, log.Lines...)
			page, err := s.Events(store.Query{})
			require.NoError(rt, err)
			require.Len(rt, page.Items, len(last))
			for _, row := range page.Items {
				r := last[string(row.Key)].Record
				require.Equal(rt, last[string(row.Key)].Sequence, row.RecordSequence)
				require.Equal(rt, r.State.Phase, row.Phase)
				require.Equal(rt, r.State.Outcome, row.Outcome)
				require.Equal(rt, r.State.Counts(), row.Messages)
				require.Equal(rt, len(ids[string(row.Key)]), row.Duplicates)
				messages, err := s.Messages(row.Key)
				require.NoError(rt, err)
				require.Equal(rt, len(r.State.Messages), len(messages))
			}
		})
	})
}
