package streams

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tidings/streams/event"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// again is the nth delivery of an event that was known already.
func again(id string, n int, at time.Time) event.Duplicate {
	ref := event.Ref{Key: event.NewKey(id), Tenant: "acme", ID: id}
	return event.NewDuplicate(ref, event.StageBridge, EventsStream, 7, fmt.Sprint("nonce", n), "amqp queue orders", at)
}

func TestDuplicatesAreThinned(t *testing.T) {
	second := func(n int) time.Time { return noon.Add(time.Duration(n) * time.Second) }
	// flood is n duplicates of an event, one a second.
	flood := func(thin *thinner, id string, from, n int) (own int) {
		for i := from; i < from+n; i++ {
			if thin.take(again(id, i, second(i)), second(i)) {
				own++
			}
		}
		return own
	}
	t.Run("ten in a minute have an entry each, the others share one, which is due when the minute is over", func(t *testing.T) {
		var thin thinner
		require.Equal(t, 10, flood(&thin, "a", 0, 50))
		require.Empty(t, thin.due(second(59), false))
		due := thin.due(second(60), false)
		require.Len(t, due, 1)
		d := due[0]
		require.True(t, event.Key(d.ID).Valid())
		require.Equal(t, 40, d.Count)
		require.Equal(t, second(10), d.Since)
		require.Equal(t, second(49), d.At)
		require.Equal(t, again("a", 0, noon).Event, d.Event)
		require.Equal(t, "amqp queue orders", d.Delivery)
	})
	t.Run("a minute later it begins again", func(t *testing.T) {
		var thin thinner
		flood(&thin, "a", 0, 50)
		first := thin.due(second(60), false)[0]
		thin.done(first)
		require.Equal(t, 10, flood(&thin, "a", 60, 50))
		second := thin.due(second(120), false)[0]
		require.Equal(t, 40, second.Count)
		require.NotEqual(t, first.ID, second.ID)
	})
	t.Run("ten in a minute and nothing more are forgotten", func(t *testing.T) {
		var thin thinner
		require.Equal(t, 10, flood(&thin, "a", 0, 10))
		require.Empty(t, thin.due(second(60), false))
		require.Empty(t, thin.floods)
		require.Equal(t, 10, flood(&thin, "a", 60, 10))
	})
	t.Run("a repeat of one with an entry of its own has it again, and counts once", func(t *testing.T) {
		var thin thinner
		flood(&thin, "a", 0, 50)
		require.True(t, thin.take(again("a", 3, second(50)), second(50)))
		require.Equal(t, 40, thin.due(second(60), false)[0].Count)
	})
	t.Run("one that was counted while the shared entry was stored is in that entry once more", func(t *testing.T) {
		var thin thinner
		flood(&thin, "a", 0, 50)
		stored := thin.due(second(60), false)[0]
		require.False(t, thin.take(again("a", 60, second(60)), second(60)))
		thin.done(stored)
		due := thin.due(second(61), false)
		require.Len(t, due, 1)
		require.Equal(t, stored.ID, due[0].ID)
		require.Equal(t, 41, due[0].Count)
		thin.done(due[0])
		require.Empty(t, thin.floods)
	})
	t.Run("each event, and each part that recognises it, for itself", func(t *testing.T) {
		var thin thinner
		require.Equal(t, 10, flood(&thin, "a", 0, 20))
		require.Equal(t, 10, flood(&thin, "b", 0, 20))
		byHTTP := again("a", 1, noon)
		byHTTP.Stage = event.StageHTTP
		require.True(t, thin.take(byHTTP, noon))
		require.Len(t, thin.due(noon, true), 2)
	})
	t.Run("beyond so many events each has its entry, and nothing is remembered", func(t *testing.T) {
		var thin thinner
		for i := range maxFloods {
			require.True(t, thin.take(again(fmt.Sprint(i), 0, noon), noon))
		}
		require.Equal(t, 50, flood(&thin, "one more", 0, 50))
		require.Len(t, thin.floods, maxFloods)
	})
	t.Run("none is lost and none counts twice, whatever the times", rapid.MakeCheck(func(t *rapid.T) {
		var thin thinner
		entries := map[string]int{}
		now, taken := noon, 0
		for i := range rapid.IntRange(1, 300).Draw(t, "deliveries") {
			now = now.Add(time.Duration(rapid.IntRange(0, 8000).Draw(t, "pause")) * time.Millisecond)
			d := again(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "event"), i, now)
			if thin.take(d, now) {
				entries[d.ID] = d.Count
			}
			taken++
			if rapid.Bool().Draw(t, "flush") {
				for _, d := range thin.due(now, false) {
					entries[d.ID] = d.Count
					thin.done(d)
				}
			}
		}
		for _, d := range thin.due(now, true) {
			entries[d.ID] = d.Count
		}
		noted := 0
		for _, n := range entries {
			noted += n
		}
		if noted != taken {
			t.Fatalf("%d duplicates came, %d are noted", taken, noted)
		}
	}))
}

// audit keeps what is appended, and fails while it is told to.
type audit struct {
	mu      sync.Mutex
	entries []event.Duplicate
	fail    error
}

func (a *audit) append(_ context.Context, d event.Duplicate) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fail == nil {
		a.entries = append(a.entries, d)
	}
	return a.fail
}

func (a *audit) failing(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fail = err
}

// counts returns the counts of the entries.
func (a *audit) counts() []int {
	a.mu.Lock()
	defer a.mu.Unlock()
	var counts []int
	for _, d := range a.entries {
		counts = append(counts, d.Count)
	}
	return counts
}

func TestTally(t *testing.T) {
	// run feeds a tally that runs; what it returns ends it.
	run := func(t *testing.T, a *audit) (*tally, func()) {
		t.Helper()
		tally := &tally{append: a.append, lost: func(events, duplicates int, err error) { t.Logf("lost %d of %d: %s", duplicates, events, err) }}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); tally.run(ctx) }()
		return tally, func() { cancel(); <-ended }
	}
	feed := func(t *testing.T, tally *tally) {
		t.Helper()
		for i := range 50 {
			require.NoError(t, tally.note(t.Context(), again("a", i, time.Now())))
		}
	}
	t.Run("appends the shared entry a little after its minute", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var a audit
			tally, stop := run(t, &a)
			defer stop()
			feed(t, tally)
			require.Len(t, a.counts(), 10)
			time.Sleep(thinFor + thinFor/12)
			synctest.Wait()
			require.Equal(t, []int{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 40}, a.counts())
		})
	})
	t.Run("appends the shared entry when it ends", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var a audit
			tally, stop := run(t, &a)
			feed(t, tally)
			stop()
			require.Equal(t, []int{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 40}, a.counts())
		})
	})
	t.Run("appends it later where it cannot now, and does not hold anybody up meanwhile", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var a audit
			tally, stop := run(t, &a)
			defer stop()
			feed(t, tally)
			a.failing(ErrFull)
			time.Sleep(2 * thinFor)
			synctest.Wait()
			require.NoError(t, tally.note(t.Context(), again("a", 50, time.Now())))
			a.failing(nil)
			time.Sleep(thinFor / 12)
			synctest.Wait()
			require.Equal(t, []int{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 41}, a.counts())
		})
	})
	t.Run("returns the error of an entry of its own", func(t *testing.T) {
		a := audit{fail: errors.New("no log")}
		tally := &tally{append: a.append}
		require.ErrorIs(t, tally.note(t.Context(), again("a", 0, noon)), a.fail)
	})
}
