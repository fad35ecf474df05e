package bench

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMix(t *testing.T) {
	t.Run("of nothing has originals only", func(t *testing.T) {
		require.Equal(t, [kinds]int{100, 0, 0}, mix{}.count(100))
	})
	t.Run("has as many of each kind as asked for", func(t *testing.T) {
		got := mix{duplicates: 0.01, conflicts: 0.02}.count(10_000)
		require.InDelta(t, 100, got[duplicate], 1)
		require.InDelta(t, 200, got[conflict], 1)
		require.Equal(t, 10_000, got[original]+got[duplicate]+got[conflict])
	})
	t.Run("repeats what came not long before, and that once", func(t *testing.T) {
		seen, repeated := map[int]int{}, map[int]bool{}
		i := 0
		for msg := range (mix{duplicates: 0.1, conflicts: 0.1}).messages(10_000) {
			if msg.kind == original {
				require.NotContains(t, seen, msg.id)
				seen[msg.id] = i
			} else {
				require.Contains(t, seen, msg.id)
				require.Less(t, i-seen[msg.id], 2*repeatWithin)
				require.False(t, repeated[msg.id])
				repeated[msg.id] = true
			}
			i++
		}
	})
}
