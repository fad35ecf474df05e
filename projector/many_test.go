package projector_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/projector"
	"tidings/store"
	"tidings/store/storetest"
	"tidings/streams"
	"tidings/streams/event"
)

// dense is a stream of which every entry is there, found by its place.
type dense struct {
	entries []streams.Entry
	upTo    atomic.Uint64
}

func (d *dense) Info(context.Context) (streams.StreamInfo, error) {
	return streams.StreamInfo{Created: storetest.Start, First: 1, Last: d.upTo.Load()}, nil
}

func (d *dense) Entry(_ context.Context, sequence uint64) (streams.Entry, error) {
	if sequence == 0 || sequence > d.upTo.Load() {
		return streams.Entry{}, streams.ErrNotFound
	}
	return d.entries[sequence-1], nil
}

func (d *dense) Follow(ctx context.Context, from uint64, handle func(streams.Entry) error) error {
	for ; ; from++ {
		for from > d.upTo.Load() {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Millisecond): // nobody tells
			}
		}
		if err := handle(d.entries[from-1]); err != nil {
			return err
		}
	}
}

// randomLog is n entries of events that take random ways, side by side.
func randomLog(n int, r *rand.Rand) []storetest.Line {
	l := &storetest.Log{}
	for next, open := 0, []int{}; len(l.Lines) < n; {
		if len(open) < 50 || r.IntN(4) == 0 {
			open, next = append(open, next), next+1
		}
		at := r.IntN(len(open))
		ref := storetest.Ref([]string{"acme", "globex"}[open[at]%2], open[at])
		if r.IntN(10) == 0 {
			l.Duplicate(ref, fmt.Sprint(open[at], r.IntN(3)))
			continue
		}
		if step(l, ref, r) {
			open[at] = open[len(open)-1]
			open = open[:len(open)-1]
		}
	}
	return l.Lines[:n]
}

// step appends what could happen next to an event, and reports whether it is at rest.
func step(l *storetest.Log, ref event.Ref, r *rand.Rand) bool {
	message := event.NewMessageID(ref.Key, "r", "hook", "x")
	planned := event.Planned{Messages: []event.PlannedMessage{{ID: message, Route: "r", Channel: "hook", OnUnknown: event.Resend, Recipient: event.Recipient{Hash: fmt.Sprint("h", r.IntN(1000)), Mask: "a…"}}}}
	tried := func(result event.TryResult) event.Fact {
		return event.Tried{Message: message, Try: 1, Started: storetest.Start, Ended: storetest.Start, Result: result, Code: "c"}
	}
	s := l.State(ref.Key)
	if s.Phase != event.PhaseClaimed {
		l.Record(ref, event.Claimed{Owner: event.Owner{Instance: "i", Boot: "b"}, Generation: s.Generation, Round: s.Round, LeaseMS: 60_000, Limit: 64})
		return false
	}
	switch r.IntN(8) {
	case 0:
		l.Record(ref, planned, tried(event.TryTransient), event.Waiting{Round: s.Round + 1, Due: storetest.Start.Add(time.Hour), Reason: event.WaitRetry})
		return false
	case 1:
		l.Record(ref, event.Crashed{Claim: s.Claim.ID, Reason: "owner_gone"})
		return false
	case 2:
		l.Record(ref, event.Dead{Cause: event.CauseTemplateError})
	case 3:
		l.Record(ref, event.Planned{Nothing: event.NoTemplate}, event.Settled{})
	default:
		l.Record(ref, planned, tried(event.TryDelivered), event.Settled{})
	}
	return true
}

// TestALedgerOf200000RecordsIsMadeAnewTheSame rebuilds it while the last tenth comes in.
func TestALedgerOf200000RecordsIsMadeAnewTheSame(t *testing.T) {
	const n = 200_000
	d := &dense{entries: entriesOf(t, randomLog(n, rand.New(rand.NewPCG(1, 2))))}
	d.upTo.Store(n * 9 / 10)
	w := &world{letters: newSlice(), path: filepath.Join(t.TempDir(), "ledger.db")}
	s, err := store.Open(w.path, store.Options{NoSync: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	p := projector.New(projector.Options{Outcomes: d, DeadLetters: w.letters, Store: s, BatchMax: 10_000})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	defer func() { cancel(); require.NoError(t, <-done) }()
	caught := func(sequence uint64) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		require.NoError(t, p.CaughtUp(ctx, sequence))
	}
	caught(n * 9 / 10)
	go func() {
		for d.upTo.Load() < n {
			d.upTo.Add(100)
			time.Sleep(5 * time.Millisecond) // spread over the rebuild
		}
	}()
	found, err := projector.Rebuild(t.Context(), projector.RebuildOptions{Outcomes: d, DeadLetters: w.letters, Store: s, Live: p})
	require.NoError(t, err)
	require.True(t, found.Differences.None(), "%s: %v", found.Differences, found.Differences.First)
	caught(n)
	require.Equal(t, uint64(0), p.Status().Outcomes.Problems)
}
