package projector_test

import (
	"cmp"
	"context"
	"encoding/json"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"tidings/projector"
	"tidings/store"
	"tidings/store/storetest"
	"tidings/streams"
	"tidings/streams/event"
)

// slice is a stream in memory, for faults that JetStream does not show on demand.
type slice struct {
	mu      sync.Mutex
	created time.Time
	first   uint64
	entries []streams.Entry // in order; their sequences may have holes
	last    uint64
	gaps    []streams.Gap
	down    error          // what Info and Entry answer instead
	horizon time.Duration  // of the entries; 0: never forgotten
	now     time.Time      // as Info says; zero: nothing ages
	skips   map[uint64]int // Follow passes over the entry so many times
	again   map[uint64]int // Follow delivers the entry so many times more
	changed chan struct{}  // closed and replaced
}

func newSlice() *slice {
	return &slice{created: storetest.Start, first: 1, skips: map[uint64]int{}, changed: make(chan struct{})}
}

// change changes the stream and wakes its followers.
func (s *slice) change(fn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn()
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *slice) append(entries ...streams.Entry) {
	s.change(func() {
		for _, e := range entries {
			s.last = e.Sequence
			s.entries = append(s.entries, e)
		}
	})
}

// remove takes an entry out of the middle.
func (s *slice) remove(sequence uint64) {
	s.change(func() {
		for i, e := range s.entries {
			if e.Sequence == sequence {
				s.entries = append(s.entries[:i:i], s.entries[i+1:]...)
				return
			}
		}
	})
}

// ageOut removes what is below first.
func (s *slice) ageOut(first uint64) {
	s.change(func() {
		s.first = first
		for len(s.entries) > 0 && s.entries[0].Sequence < first {
			s.entries = s.entries[1:]
		}
	})
}

// cut forgets what is above last, as after a power cut, and has others there.
func (s *slice) cut(last uint64, others ...streams.Entry) {
	s.change(func() {
		s.last = last + uint64(len(others))
		for n := len(s.entries); n > 0 && s.entries[n-1].Sequence > last; n-- {
			s.entries = s.entries[:n-1]
		}
		s.entries = append(s.entries[:len(s.entries):len(s.entries)], others...)
	})
}

// AppendSkip and AcceptGap are what [projector.Skipping] wants.
func (s *slice) AppendSkip(ctx context.Context, skip event.Skip) (uint64, error) {
	data, err := json.Marshal(skip)
	e := streams.Entry{
		Sequence: s.last + 1, Time: skip.At, Subject: "audit.acme", Data: data,
		Header: nats.Header{streams.HeaderKind: {string(event.KindSkip)}, streams.HeaderKey: {string(skip.Event)}},
	}
	s.append(e)
	return e.Sequence, err
}

func (s *slice) AcceptGap(_ context.Context, g streams.Gap) error {
	s.change(func() { s.gaps = append(s.gaps[:len(s.gaps):len(s.gaps)], g) })
	return nil
}

func (s *slice) Info(ctx context.Context) (streams.StreamInfo, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return streams.StreamInfo{
		Created: s.created, First: s.first, Last: s.last, Messages: uint64(len(s.entries)), Gaps: s.gaps, MaxAge: s.horizon, Asked: s.now,
	}, cmp.Or(ctx.Err(), s.down)
}

func (s *slice) Entry(ctx context.Context, sequence uint64) (streams.Entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.entries {
		if e.Sequence == sequence {
			return e, cmp.Or(ctx.Err(), s.down)
		}
	}
	return streams.Entry{}, streams.ErrNotFound
}

func (s *slice) Follow(ctx context.Context, from uint64, handle func(streams.Entry) error) error {
	for {
		e, found, changed := s.next(from)
		if found {
			if err := handle(e); err != nil {
				return err
			}
			s.mu.Lock()
			again := s.again[e.Sequence] > 0
			if again {
				s.again[e.Sequence]--
			}
			s.mu.Unlock()
			if !again {
				from = e.Sequence + 1
			}
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

func (s *slice) next(from uint64) (streams.Entry, bool, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.entries {
		switch {
		case e.Sequence < from:
		case s.skips[e.Sequence] > 0:
			s.skips[e.Sequence]--
		default:
			return e, true, nil
		}
	}
	return streams.Entry{}, false, s.changed
}

// entryOf returns a line as OUTCOMES holds it.
func entryOf(t require.TestingT, l storetest.Line) streams.Entry {
	e := streams.Entry{Sequence: l.Sequence, Time: l.Time, Header: nats.Header{}, Data: l.Data(t)}
	kind, key := event.KindDuplicate, event.Key("")
	switch {
	case l.Record != nil:
		kind, key = l.Record.Kind, l.Record.Event.Key
		e.Subject = "outcomes." + l.Record.Event.Tenant + "." + string(key)
	case l.Duplicate != nil:
		key = l.Duplicate.Event.Key
		e.Subject = "audit." + l.Duplicate.Event.Tenant
	case l.Operation != nil:
		kind, key = event.KindOperation, l.Operation.Letter.Key
		e.Subject = "audit." + l.Operation.Tenant
	default:
		kind, key = l.Unknown.Kind, l.Unknown.Key
		e.Subject = "plans.1"
	}
	e.Header.Set(streams.HeaderKind, string(kind))
	e.Header.Set(streams.HeaderKey, string(key))
	return e
}

func entriesOf(t require.TestingT, lines []storetest.Line) []streams.Entry {
	var entries []streams.Entry
	for _, l := range lines {
		entries = append(entries, entryOf(t, l))
	}
	return entries
}

func letterEntry(t require.TestingT, sequence uint64, key event.Key) streams.Entry {
	data, err := json.Marshal(event.Letter{
		Kind: event.LetterEvent, Key: key, Tenant: "acme", Cause: event.CauseCrashes, At: storetest.Start, Data: []byte("x"),
	})
	require.NoError(t, err)
	return streams.Entry{
		Sequence: sequence, Time: storetest.Start, Subject: "dead.acme." + string(key),
		Header: nats.Header{streams.HeaderKey: {string(key)}}, Data: data,
	}
}

// world is a projector with its two streams and its ledger file.
type world struct {
	outcomes, letters *slice
	log               storetest.Log
	path              string
	options           projector.Options
	problems          uint64 // counted by the last fold
}

func newWorld(t *testing.T) *world {
	return &world{outcomes: newSlice(), letters: newSlice(), path: filepath.Join(t.TempDir(), "ledger.db")}
}

// events appends n settled events to OUTCOMES: two entries each.
func (w *world) events(t require.TestingT, n int) {
	for range n {
		before := len(w.log.Lines)
		ref := storetest.Ref("acme", before/2)
		w.log.Record(ref, event.Claimed{})
		w.log.Record(ref, event.Planned{Nothing: event.NoTemplate}, event.Settled{})
		w.outcomes.append(entriesOf(t, w.log.Lines[before:])...)
	}
}

// run opens the ledger and runs a projector on it, until stop is called.
func (w *world) run(t require.TestingT) (p *projector.Projector, s *store.Store, stop func()) {
	s, err := store.Open(w.path, store.Options{NoSync: true})
	require.NoError(t, err)
	o := w.options
	o.Outcomes, o.DeadLetters, o.Store = w.outcomes, w.letters, s
	if o.CommitEvery == 0 {
		o.CommitEvery = time.Millisecond
	}
	p = projector.New(o)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	return p, s, sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-done)
		require.NoError(t, s.Close())
	})
}

func caughtUp(t require.TestingT, p *projector.Projector, sequence uint64) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	require.NoError(t, p.CaughtUp(ctx, sequence))
}

// eventually waits for something that nobody tells.
func eventually(t require.TestingT, what func() bool) {
	require.Eventually(t, what, time.Minute, time.Millisecond)
}

func digest(t require.TestingT, s *store.Store) string {
	d, err := s.Digest()
	require.NoError(t, err)
	return d
}
