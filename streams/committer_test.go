package streams_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/streams"
	"tidings/streams/event"
	"tidings/streams/streamstest"
)

const batchID = "Nats-Batch-Id"

// inOneCommit calls do n times at once on a log that does not run yet, waits
// until all are queued, and then runs the log: they meet in the first commits.
func inOneCommit(t *testing.T, l *streams.Log, n int, do func(i int)) {
	t.Helper()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { do(i) })
	}
	require.Eventually(t, func() bool { return l.Queued() == n }, 10*time.Second, time.Millisecond)
	streamstest.Run(t, l.Run)
	wg.Wait()
}

func TestRacersInOneCommitHaveOneWinnerEach(t *testing.T) {
	s := streamstest.NewServer(t, streamstest.Strict)
	l := s.Open()
	const keys, racers = 32, 8
	var mu sync.Mutex
	winners := map[int]int{}
	inOneCommit(t, l, keys*racers, func(i int) {
		_, err := l.Outcomes.Append(t.Context(), claim(ref(fmt.Sprint(i%keys)), event.State{}), 0)
		var conflict *streams.ConflictError
		switch {
		case err == nil:
			mu.Lock()
			winners[i%keys]++
			mu.Unlock()
		case !errors.As(err, &conflict):
			t.Errorf("append: %v", err)
		}
	})
	for k := range keys {
		require.Equal(t, 1, winners[k], "key %d", k)
	}
	require.Equal(t, keys, stored(t, l).messages)
}

func TestAFewConflictsDoNotBreakUpABatch(t *testing.T) {
	s := streamstest.NewServer(t, streamstest.Strict)
	other, l := s.Log(), s.Open()
	const n, taken = 512, 6 // two batches; one in a hundred is taken by another process
	for i := range taken {
		_, err := other.Outcomes.Append(t.Context(), claim(ref(fmt.Sprint(i*100)), event.State{}), 0)
		require.NoError(t, err)
	}
	var mu sync.Mutex
	lost := map[int]bool{}
	inOneCommit(t, l, n, func(i int) {
		r := claim(ref(fmt.Sprint(i)), event.State{})
		p, err := l.Outcomes.Append(t.Context(), r, 0)
		var conflict *streams.ConflictError
		switch {
		case err == nil:
			e, err := l.Outcomes.Entry(t.Context(), p.Sequence)
			if err != nil || e.Header.Get(streams.HeaderRecordID) != r.ID {
				t.Errorf("record %d is not at the sequence that was answered", i)
			}
		case errors.As(err, &conflict):
			mu.Lock()
			lost[i] = true
			mu.Unlock()
		default:
			t.Errorf("append: %v", err)
		}
	})
	require.Equal(t, map[int]bool{0: true, 100: true, 200: true, 300: true, 400: true, 500: true}, lost)
	got := stored(t, l)
	require.Equal(t, n, got.messages)
	require.Equal(t, n-taken, got.batched, "the rest of the refused batch was stored as a batch again")
	require.Equal(t, 2, got.batches)
}

func TestADuplicateInABatchIsToldFromTheRest(t *testing.T) {
	s := streamstest.NewServer(t, streamstest.Strict)
	other, l := s.Log(), s.Open()
	first, err := other.Events.Publish(t.Context(), streams.Incoming{Envelope: order("7"), Nonce: "first"})
	require.NoError(t, err)
	var mu sync.Mutex
	duplicates := map[int]uint64{}
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			got, err := l.Events.Publish(t.Context(), streams.Incoming{Envelope: order(fmt.Sprint(i)), Nonce: "second"})
			if err != nil {
				t.Errorf("event %d: %v", i, err)
			}
			if got.Duplicate {
				mu.Lock()
				duplicates[i] = got.Sequence
				mu.Unlock()
			}
		})
	}
	require.Eventually(t, func() bool { return l.QueuedEvents() == 64 }, 10*time.Second, time.Millisecond)
	streamstest.Run(t, l.Run)
	wg.Wait()
	require.Equal(t, map[int]uint64{7: first.Sequence}, duplicates)
	info, err := l.Events.Info(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 64, info.Messages)
}

func TestTheSameEventTwiceInOneCommitIsOneCopy(t *testing.T) {
	l := streamstest.NewServer(t, streamstest.Strict).Open()
	var mu sync.Mutex
	count := map[bool]int{}
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			got, err := l.Events.Publish(t.Context(), streams.Incoming{Envelope: order(fmt.Sprint(i % 32)), Again: i%5 == 0})
			if err != nil {
				t.Errorf("event %d: %v", i, err)
			}
			mu.Lock()
			count[got.Duplicate]++
			mu.Unlock()
		})
	}
	require.Eventually(t, func() bool { return l.QueuedEvents() == 64 }, 10*time.Second, time.Millisecond)
	streamstest.Run(t, l.Run)
	wg.Wait()
	require.Equal(t, map[bool]int{false: 32, true: 32}, count)
}

type contents struct{ messages, batched, batches int }

func stored(t *testing.T, l *streams.Log) contents {
	t.Helper()
	info, err := l.Outcomes.Info(t.Context())
	require.NoError(t, err)
	var c contents
	ids := map[string]bool{}
	for seq := info.First; seq <= info.Last; seq++ {
		e, err := l.Outcomes.Entry(t.Context(), seq)
		require.NoError(t, err)
		c.messages++
		if id := e.Header.Get(batchID); id != "" {
			c.batched++
			ids[id] = true
		}
	}
	c.batches = len(ids)
	return c
}

// Whatever happens on the way, who is told a sequence finds its record there.
func TestSequencesAreTrueInTrouble(t *testing.T) {
	s := streamstest.NewServer(t, streamstest.Strict)
	l, other := s.Log(), s.Log()
	const callers, each = 300, 8
	var taken atomic.Int64
	at, ids := sync.Map{}, make(chan string, callers*each)
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := range each {
				id := fmt.Sprint(c, "-", i)
				if (c*each+i)%50 == 0 { // somebody else is faster
					_, err := other.Outcomes.Append(t.Context(), claim(ref(id), event.State{}), 0)
					if err != nil {
						t.Errorf("append by another: %v", err)
					}
				}
				r := claim(ref(id), event.State{})
				p, err := l.Outcomes.Append(t.Context(), r, 0)
				var conflict *streams.ConflictError
				switch {
				case errors.As(err, &conflict) && (c*each+i)%50 == 0:
					taken.Add(1)
				case err != nil:
					t.Errorf("append %s: %v", id, err)
				default:
					at.Store(r.ID, p.Sequence)
				}
				ids <- id
			}
		})
	}
	for range callers * each / 3 {
		<-ids
	}
	s.Restart()
	wg.Wait()
	require.EqualValues(t, callers*each/50, taken.Load())
	n := 0
	at.Range(func(id, sequence any) bool {
		e, err := other.Outcomes.Entry(t.Context(), sequence.(uint64))
		require.NoError(t, err)
		require.Equal(t, id, e.Header.Get(streams.HeaderRecordID))
		n++
		return true
	})
	require.Equal(t, callers*each-callers*each/50, n)
	info, err := other.Outcomes.Info(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, callers*each, info.Messages)
}
