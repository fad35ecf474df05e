package projector_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"tidings/projector"
	"tidings/store"
	"tidings/store/storetest"
	"tidings/streams"
	"tidings/streams/event"
	"tidings/streams/streamstest"
)

// unreadable is what an entry in the place of the second record of an event may be
// that cannot be folded.
func unreadable(t *testing.T, w *world) map[string]streams.Entry {
	good := *w.log.Lines[1].Record
	record := func(change func(*event.Record)) streams.Entry {
		r := good
		change(&r)
		return entryOf(t, storetest.Line{Sequence: 2, Time: storetest.Start, Record: &r})
	}
	raw := func(kind event.Kind, data string) streams.Entry {
		e := entryOf(t, w.log.Lines[1])
		e.Data = []byte(data)
		e.Header.Set(streams.HeaderKind, string(kind))
		return e
	}
	elsewhere := record(func(*event.Record) {})
	elsewhere.Subject = "outcomes.acme." + string(storetest.Ref("acme", 40).Key)
	return map[string]streams.Entry{
		"no JSON":                             raw(event.KindSettled, "{"),
		"a record without id and key":         raw(event.KindSettled, "{}"),
		"a duplicate without id":              raw(event.KindDuplicate, "{}"),
		"an operation on nothing":             raw(event.KindOperation, "{}"),
		"an entry of no replay plan":          raw(event.KindReplay, "{}"),
		"a word to skip by nobody":            raw(event.KindSkip, "{}"),
		"a record of another kind":            raw(event.KindDead, string(w.log.Lines[1].Data(t))),
		"a record in another event's history": elsewhere,
		"a revision that is too high":         record(func(r *event.Record) { r.State.Revision = 7 }),
		"a revision that was there":           record(func(r *event.Record) { r.State.Revision = 1 }),
	}
}

func TestAnEntryThatCannotBeFoldedHaltsUntilAnOperatorSkipsIt(t *testing.T) {
	some := newWorld(t)
	some.events(t, 1)
	for name := range unreadable(t, some) {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.options.VerifyEvery = time.Millisecond
			w.events(t, 1)
			bad := unreadable(t, w)[name]
			w.outcomes = newSlice()
			w.outcomes.append(entryOf(t, w.log.Lines[0]), bad)
			w.events(t, 2) // 3 to 6, of others
			p, s, stop := w.run(t)
			defer stop()

			halt := halted(t, p, outcomes)
			require.Equal(t, projector.ReasonUnreadable, halt.Reason)
			require.Equal(t, uint64(2), halt.Sequence)
			require.ErrorContains(t, halt, "tidings ledger skip 2 --reason")
			status := p.Status()
			require.Equal(t, uint64(1), status.Outcomes.Applied, "what came before it is folded")
			require.False(t, status.Ready())
			require.Empty(t, status.Damaged(), "nothing is lost, so events still move")

			shown, err := p.Unreadable(t.Context(), 2)
			require.NoError(t, err)
			require.Equal(t, bad.Data, shown.Data)
			_, _, err = p.Skip(t.Context(), w.outcomes, 3, "ann", "a guess")
			require.ErrorIs(t, err, projector.ErrNotUnreadable)
			skip, at, err := p.Skip(t.Context(), w.outcomes, 2, "ann", "a script of ours")
			require.NoError(t, err)
			require.Equal(t, halt.Detail, skip.Problem)
			require.Equal(t, uint64(7), at)
			caughtUp(t, p, 7)
			eventually(t, func() bool { return p.Status().Ready() })
			require.Nil(t, p.Status().Outcomes.Halt, "it goes on by itself")

			entries, err := s.Audit(1, 1)
			require.NoError(t, err)
			require.Equal(t, bad.Data, entries[0].Unknown.Data, "the entry is kept as it is")
			require.Regexp(t, `skipped by the word of ann at .*: a script of ours`, entries[0].Unknown.Problem)
			entries, err = s.Audit(6, 1)
			require.NoError(t, err)
			require.Equal(t, "a script of ours", entries[0].Skip.Reason, "and so is who skipped it, and why")
			want := digest(t, s)
			stop()

			require.NoError(t, os.Remove(w.path))
			require.Equal(t, want, w.folded(t), "a ledger that is made anew is the same")
			w.outcomes.ageOut(2) // the record before it: what is wrong with it cannot be told any more
			trimmed := w.folded(t)
			require.NoError(t, os.Remove(w.path))
			require.Equal(t, trimmed, w.folded(t), "also when the beginning of its history is forgotten")
		})
	}
}

func TestTheRestOfAHistoryIsFoldedAfterASkip(t *testing.T) {
	w := newWorld(t)
	w.options.VerifyEvery = time.Millisecond
	ref := storetest.Ref("acme", 0)
	w.log.Record(ref, event.Claimed{})
	w.log.Record(ref, event.Planned{Nothing: event.NoTemplate}, event.Settled{})
	w.log.Record(ref, event.Requeued{Generation: 1})
	entries := entriesOf(t, w.log.Lines)
	entries[1].Data = []byte("{")
	w.outcomes.append(entries...)
	p, s, stop := w.run(t)
	defer stop()
	halted(t, p, outcomes)
	_, _, err := p.Skip(t.Context(), w.outcomes, 2, "ann", "nobody knows")
	require.NoError(t, err)
	caughtUp(t, p, 4)
	row, err := s.Event(ref.Key)
	require.NoError(t, err)
	require.Equal(t, 3, row.Revision)
}

func TestRecordsThatAreMissingForAKnownReasonDoNotHalt(t *testing.T) {
	ref := storetest.Ref("acme", 0)
	history := func(w *world) []streams.Entry {
		w.log.Record(ref, event.Claimed{})
		w.log.Record(ref, event.Planned{Nothing: event.NoTemplate}, event.Settled{})
		w.log.Record(ref, event.Requeued{Generation: 1})
		return entriesOf(t, w.log.Lines)
	}
	fold := func(t *testing.T, w *world) store.Row {
		p, s, stop := w.run(t)
		t.Cleanup(stop)
		caughtUp(t, p, w.outcomes.last)
		row, err := s.Event(ref.Key)
		require.NoError(t, err)
		return row
	}
	t.Run("an operator accepted that an entry is missing", func(t *testing.T) {
		w := newWorld(t)
		entries := history(w)
		w.outcomes.append(entries[0], entries[2])
		w.outcomes.gaps = []streams.Gap{{From: 2, To: 2, Accepted: "ann: a power cut"}}
		require.Equal(t, 3, fold(t, w).Revision)
	})
	t.Run("a later version wrote a record between them", func(t *testing.T) {
		w := newWorld(t)
		entries := history(w)
		entries[1].Header.Set(streams.HeaderKind, "pondered")
		w.outcomes.append(entries...)
		require.Equal(t, 3, fold(t, w).Revision)
	})
	t.Run("records before it aged out before the projector saw them", func(t *testing.T) {
		w := newWorld(t)
		w.events(t, 1)
		p, s, stop := w.run(t)
		t.Cleanup(stop)
		caughtUp(t, p, 2)
		entries := history(w)
		w.outcomes.change(func() { w.outcomes.first, w.outcomes.last = 5, 5 })
		w.outcomes.append(entries[4])
		caughtUp(t, p, 5)
		row, err := s.Event(ref.Key)
		require.NoError(t, err)
		require.Equal(t, 5, row.Revision)
	})
	t.Run("the record restores what was lost", func(t *testing.T) {
		w := newWorld(t)
		history(w)
		state := w.log.State(ref.Key)
		r := event.NewRecord(ref, event.State{}, storetest.Start, event.Restored{From: event.FromLedger, State: state})
		w.outcomes.append(entryOf(t, storetest.Line{Sequence: 1, Time: storetest.Start, Record: &r}))
		require.Equal(t, 4, fold(t, w).Revision)
	})
}

func TestSkipIsRefusedWhereThereIsNothingToSkip(t *testing.T) {
	w := newWorld(t)
	w.events(t, 2)
	w.outcomes.remove(2)
	p, _, stop := w.run(t)
	defer stop()
	halted(t, p, outcomes)
	_, _, err := p.Skip(context.Background(), w.outcomes, 2, "ann", "why")
	require.ErrorIs(t, err, projector.ErrNotUnreadable, "a gap is no entry")
	require.ErrorContains(t, err, "it has over 2: entry 2 is missing")
}

func TestASkipIsKnownToWhateverIsFoldedFromTheLogOrItsExport(t *testing.T) {
	server := streamstest.NewServer(t)
	w := newWriter(t, server)
	lines := history(3)
	bad := w.write(t, lines[:40]) + 1
	m := nats.NewMsg("outcomes.acme." + string(storetest.Ref("acme", 1).Key))
	m.Header.Set(streams.HeaderKind, string(event.KindSettled))
	m.Data = []byte("{")
	_, err := w.js.PublishMsg(t.Context(), m)
	require.NoError(t, err)
	last := w.write(t, []storetest.Line{{Unknown: &storetest.Unknown{Kind: "plan", Data: []byte("{}")}}})

	path := filepath.Join(t.TempDir(), "ledger.db")
	p, s, stop := project(t, server.Log(), path, projector.Options{VerifyEvery: 10 * time.Millisecond})
	require.Equal(t, bad, halted(t, p, outcomes).Sequence)
	_, at, err := p.Skip(t.Context(), w.log.Outcomes, bad, "ann", "a test")
	require.NoError(t, err)
	require.Equal(t, last+1, at)
	caughtUp(t, p, at)
	live := digest(t, s)
	stop()

	require.Equal(t, live, digest(t, fold(t, w.log.Outcomes, w.log.DeadLetters)))
	file := exported(t, w.log)
	require.Equal(t, live, digest(t, fold(t, file.Outcomes(), file.DeadLetters())))
	info, err := file.Outcomes().Info(t.Context())
	require.NoError(t, err)
	had, err := w.log.Outcomes.Info(t.Context())
	require.NoError(t, err)
	require.Equal(t, had.Gaps, info.Gaps)
	missing, err := w.log.Outcomes.Missing(t.Context())
	require.NoError(t, err)
	require.Empty(t, missing)
}
