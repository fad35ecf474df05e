package store_test

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tidings/store"
	"tidings/store/storetest"
	"tidings/streams/event"
)

func TestCausesAnswersAsIfEveryLetterWasLookedAt(t *testing.T) {
	open := newFiles(t)
	rapid.Check(t, func(rt *rapid.T) {
		var drawn []store.Letter
		for i := range rapid.IntRange(0, 12).Draw(rt, "letters") {
			n := rapid.IntRange(0, 5).Draw(rt, "letter")
			drawn = append(drawn, store.Letter{
				Key: storetest.Ref("acme", n).Key, Tenant: []string{"acme", "globex"}[n%2], Sequence: uint64(i + 1),
				Cause: rapid.SampledFrom([]event.Cause{event.CausePanic, event.CauseCrashes, "of a later version"}).Draw(rt, "cause"),
				At:    storetest.Start.Add(time.Duration(rapid.IntRange(0, 3).Draw(rt, "minute")) * time.Minute),
			})
		}
		tenant := rapid.SampledFrom([]string{"", "acme", "nobody"}).Draw(rt, "tenant")
		dropped := rapid.IntRange(0, 12).Draw(rt, "dropped")
		open(rt, func(s *store.Store) {
			require.NoError(rt, s.Update(func(tx *store.Tx) error {
				for _, l := range drawn {
					require.NoError(rt, tx.Letter(l))
				}
				return nil
			}))
			require.NoError(rt, s.Update(func(tx *store.Tx) error {
				for _, l := range drawn[:min(dropped, len(drawn))] {
					require.NoError(rt, tx.DropLetter(l.Key, l.Sequence))
				}
				return nil
			}))
			got, err := s.Causes(tenant)
			require.NoError(rt, err)
			letters := all(rt, s.DeadLetters, store.LetterQuery{Tenant: tenant}, turnLetters)
			require.Equal(rt, countCauses(letters), got)
		})
	})
}

// countCauses counts letters, which come newest first.
func countCauses(letters []store.Letter) []store.CauseCount {
	counts := []store.CauseCount{}
	for _, l := range letters {
		i := slices.IndexFunc(counts, func(c store.CauseCount) bool { return c.Cause == l.Cause })
		if i < 0 {
			i = len(counts)
			counts = append(counts, store.CauseCount{Cause: l.Cause, Newest: l.At})
		}
		counts[i].Letters++
		counts[i].Oldest = l.At
	}
	slices.SortFunc(counts, func(a, b store.CauseCount) int {
		return cmp.Or(b.Letters-a.Letters, cmp.Compare(a.Cause, b.Cause))
	})
	return counts
}
