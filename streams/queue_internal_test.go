package streams

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A group is what came while the one before it was stored. Whoever comes alone
// pays nothing for groups.
func TestAnEntryThatComesAloneIsTakenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		ctx, stop := context.WithCancel(t.Context())
		var taken []int // how many together
		go q.serve(ctx, func() {
			for batch := q.takeBatch(); len(batch) > 0; batch = q.takeBatch() {
				taken = append(taken, len(batch))
				time.Sleep(4 * time.Millisecond) // as long as storing a group takes
				for _, e := range batch {
					e.finish(1, false, nil)
				}
			}
		})
		put := func(key string) {
			e := &entry{key: key, done: make(chan struct{})}
			require.NoError(t, q.append(ctx, e))
		}
		begin := time.Now()
		for _, key := range []string{"1", "2", "3"} {
			put(key)
			time.Sleep(time.Second)
		}
		synctest.Wait()
		require.Equal(t, []int{1, 1, 1}, taken)
		require.Equal(t, 3*(time.Second+4*time.Millisecond), time.Since(begin), "there is nothing beside the storing")

		taken = nil
		go put("4")
		synctest.Wait() // it is being stored
		for _, key := range []string{"5", "6", "7"} {
			go put(key)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, []int{1, 3}, taken, "what comes meanwhile is the next group")
		stop()
		synctest.Wait()
	})
}
