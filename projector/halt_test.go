package projector_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/projector"
	"tidings/store"
	"tidings/store/storetest"
	"tidings/streams"
	"tidings/streams/event"
)

// halted waits until the stream of a status has halted.
func halted(t require.TestingT, p *projector.Projector, of func(projector.Status) projector.StreamStatus) *projector.HaltError {
	eventually(t, func() bool { return of(p.Status()).Halt != nil })
	return of(p.Status()).Halt
}

func outcomes(s projector.Status) projector.StreamStatus { return s.Outcomes }
func letters(s projector.Status) projector.StreamStatus  { return s.DeadLetters }

func TestALedgerThatDoesNotFitItsStream(t *testing.T) {
	cases := map[string]struct {
		damage   func(w *world)
		reason   projector.Reason
		sequence uint64
		remedy   string
	}{
		"the stream was made anew": {
			damage: func(w *world) {
				w.outcomes.change(func() { w.outcomes.created = w.outcomes.created.Add(time.Hour) })
			},
			reason: projector.ReasonOtherStream, sequence: 6, remedy: "keep the ledger file, it knows what was sent",
		},
		"the stream lost its end": {
			damage: func(w *world) { w.outcomes.cut(4) },
			reason: projector.ReasonLostTail, sequence: 5, remedy: "keep the ledger file",
		},
		"the stream lost its end and wrote other entries there": {
			damage: func(w *world) {
				ref, log := storetest.Ref("acme", 50), storetest.Log{}
				for range 3 {
					log.Record(ref, event.Claimed{})
				}
				others := entriesOf(t, log.Lines)
				for i := range others {
					others[i].Sequence = uint64(5 + i)
				}
				w.outcomes.cut(4, others...)
			},
			reason: projector.ReasonOtherEntry, sequence: 6, remedy: "restore the stream from a backup",
		},
		"the last folded entry is missing": {
			damage: func(w *world) { w.outcomes.remove(6) },
			reason: projector.ReasonGap, sequence: 6, remedy: "restore the stream from a backup",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.events(t, 3)
			before := w.folded(t)
			c.damage(w)

			p, s, stop := w.run(t)
			defer stop()
			halt := halted(t, p, outcomes)
			require.Equal(t, c.reason, halt.Reason)
			require.Equal(t, c.sequence, halt.Sequence)
			require.ErrorContains(t, halt, c.remedy)
			require.Equal(t, before, digest(t, s), "a halted projector changes nothing")
		})
		t.Run(name+", while it runs", func(t *testing.T) {
			w := newWorld(t)
			w.options.VerifyEvery = time.Millisecond
			w.events(t, 3)
			p, _, stop := w.run(t)
			defer stop()
			caughtUp(t, p, 6)
			c.damage(w)
			require.Equal(t, c.sequence, halted(t, p, outcomes).Sequence)
		})
	}
}

// The sequences go on without a gap here, so nobody who only follows notices.
func TestASequenceThatIsGivenAgainHalts(t *testing.T) {
	w := newWorld(t)
	w.events(t, 3)
	p, s, stop := w.run(t)
	defer stop()
	caughtUp(t, p, 6)
	before := digest(t, s)

	log := storetest.Log{}
	for range 4 {
		log.Record(storetest.Ref("acme", 50), event.Claimed{})
	}
	others := entriesOf(t, log.Lines)
	for i := range others {
		others[i].Sequence = uint64(5 + i)
	}
	w.outcomes.cut(4, others...) // 5 and 6 are others now; 7 and 8 are new
	halt := halted(t, p, outcomes)
	require.Equal(t, projector.ReasonOtherEntry, halt.Reason)
	require.Equal(t, uint64(6), halt.Sequence)
	require.Equal(t, before, digest(t, s))
}

func TestAStreamThatLostItsBeginning(t *testing.T) {
	const horizon = time.Hour
	stored := func(n int) time.Time { return storetest.Start.Add(time.Duration(n) * time.Second) }
	for name, c := range map[string]struct {
		horizon time.Duration
		now     time.Time
		young   uint64 // 0: none
	}{
		"its entries are older than the horizon":            {horizon: horizon, now: stored(6).Add(horizon)},
		"the horizon was lowered since":                     {horizon: 5 * time.Second, now: stored(9)},
		"a clock was set back a little":                     {horizon: horizon, now: stored(6).Add(horizon - 50*time.Second)},
		"its entries are not as old as the horizon":         {horizon: horizon, now: stored(6), young: 1},
		"some of them are not":                              {horizon: horizon, now: stored(3).Add(horizon - 61*time.Second), young: 3},
		"nothing is to be forgotten":                        {now: stored(6).Add(1000 * horizon), young: 1},
		"the stream is a file, in which nothing gets older": {horizon: horizon},
	} {
		for _, whileItRuns := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, while it runs: %v", name, whileItRuns), func(t *testing.T) {
				w := newWorld(t)
				w.options.VerifyEvery = time.Millisecond
				w.events(t, 3)
				before := w.folded(t)
				cut := func() {
					w.outcomes.change(func() { w.outcomes.horizon, w.outcomes.now = c.horizon, c.now })
					w.outcomes.ageOut(5)
				}
				if !whileItRuns {
					cut()
				}
				p, s, stop := w.run(t)
				defer stop()
				if whileItRuns {
					eventually(t, func() bool { return p.Status().Ready() })
					cut()
				}
				if c.young == 0 {
					eventually(t, func() bool {
						entries, err := s.Audit(0, 1)
						return err == nil && entries[0].Sequence == 5 && p.Status().Ready()
					})
					return
				}
				halt := halted(t, p, outcomes)
				require.Equal(t, projector.ReasonCutHead, halt.Reason)
				require.Equal(t, c.young, halt.Sequence)
				require.ErrorContains(t, halt, "the stream begins at 5")
				require.ErrorContains(t, halt, "tidings recover")
				require.NotEmpty(t, p.Status().Damaged(), "nothing is sent")
				require.Equal(t, before, digest(t, s), "the ledger knows what the log has lost")
				require.ErrorContains(t, p.Compare(t.Context()), "the stream begins at 5")
			})
		}
	}
}

func TestALedgerFileThatIsDamagedWhileItIsOpen(t *testing.T) {
	w := newWorld(t)
	w.events(t, 200)
	p, _, stop := w.run(t)
	defer stop()
	caughtUp(t, p, 400)
	spoil(t, w.path)
	w.events(t, 1)
	halt := halted(t, p, outcomes)
	require.Equal(t, projector.ReasonDamagedFile, halt.Reason)
	require.ErrorContains(t, halt, "delete the ledger file: it is built again from the streams")
	require.Empty(t, p.Status().Damaged(), "the log is sound: events move")
	stop()
	require.NoError(t, os.Remove(w.path))
	w.folded(t)
}

func TestALetterThatIsDamagedInTheLedgerHoldsUpNoEvent(t *testing.T) {
	w := newWorld(t)
	w.events(t, 3)
	w.letters.append(letterEntry(t, 1, storetest.Ref("acme", 1).Key))
	w.folded(t)
	data, err := os.ReadFile(w.path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(w.path, bytes.ReplaceAll(data, []byte(`"stage":`), []byte(`"stage"!`)), 0o600))
	w.letters.remove(1) // so that the projector looks which are still there
	p, _, stop := w.run(t)
	defer stop()
	eventually(t, func() bool { return p.Status().DeadLetters.Halt != nil && p.Status().Outcomes.Compared })
	require.Equal(t, projector.ReasonDamagedFile, p.Status().DeadLetters.Halt.Reason)
	require.Empty(t, p.Status().Damaged(), "the log is sound: events move")
}

// spoil damages every leaf of a ledger file that is open.
func spoil(t *testing.T, path string) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	info, err := f.Stat()
	require.NoError(t, err)
	const page, leaf = 4096, 0x02
	header := make([]byte, 16)
	for at := int64(0); at+page <= info.Size(); at += page {
		_, err := f.ReadAt(header, at)
		require.NoError(t, err)
		if header[8] == leaf { // its flags
			_, err = f.WriteAt(bytes.Repeat([]byte{0xff}, page), at)
			require.NoError(t, err)
		}
	}
	require.NoError(t, f.Close())
}

func TestGaps(t *testing.T) {
	t.Run("a gap halts, naming the first missing entry; what came before it is folded", func(t *testing.T) {
		w := newWorld(t)
		w.events(t, 5)
		w.outcomes.remove(5)
		w.outcomes.remove(6)
		p, _, stop := w.run(t)
		defer stop()
		halt := halted(t, p, outcomes)
		require.Equal(t, projector.ReasonGap, halt.Reason)
		require.Equal(t, uint64(5), halt.Sequence)
		require.ErrorContains(t, halt, "entries 5 to 6 are missing")
		status := p.Status()
		require.Equal(t, uint64(4), status.Outcomes.Applied)
		require.False(t, status.Ready())
		require.Contains(t, status.Outcomes.Reason, "halted: OUTCOMES at sequence 5")
	})
	t.Run("a halted projector does not end, and says so to those who wait", func(t *testing.T) {
		w := newWorld(t)
		w.events(t, 2)
		w.outcomes.remove(2)
		p, _, stop := w.run(t)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		halt := &projector.HaltError{}
		require.ErrorAs(t, p.CaughtUp(ctx, 4), &halt)
		require.NoError(t, p.CaughtUp(ctx, 1), "what is folded is folded")
		stop() // Run returns nil, not before
	})
	t.Run("an entry that is only passed over once is asked for again", func(t *testing.T) {
		w := newWorld(t)
		w.events(t, 2)
		w.outcomes.skips[3] = 1
		p, _, stop := w.run(t)
		defer stop()
		caughtUp(t, p, 4)
	})
	t.Run("entries that aged out are no gap, at the beginning or while it runs", func(t *testing.T) {
		w := newWorld(t)
		w.events(t, 3)
		w.outcomes.ageOut(3)
		p, s, stop := w.run(t)
		defer stop()
		caughtUp(t, p, 6)
		before := len(w.log.Lines)
		ref := storetest.Ref("acme", 60)
		w.log.Record(ref, event.Claimed{})
		w.log.Record(ref, event.Settled{})
		w.log.Record(ref, event.Requeued{Generation: 1})
		entries := entriesOf(t, w.log.Lines[before:])
		w.outcomes.change(func() { w.outcomes.first, w.outcomes.last = 9, 9 })
		w.outcomes.append(entries[2])
		caughtUp(t, p, 9)
		row, err := s.Event(ref.Key)
		require.NoError(t, err)
		require.Equal(t, 3, row.Revision)
		require.Zero(t, p.Status().Outcomes.Problems, "its older records may have aged out")
	})
	t.Run("a gap that an operator accepted is passed over, and its neighbours are not", func(t *testing.T) {
		w := newWorld(t)
		w.events(t, 5)
		w.outcomes.remove(5)
		w.outcomes.remove(6)
		w.outcomes.remove(8)
		w.outcomes.gaps = []streams.Gap{{From: 5, To: 6, Accepted: "ann: a power cut"}}
		p, _, stop := w.run(t)
		defer stop()
		require.Equal(t, uint64(8), halted(t, p, outcomes).Sequence)
		require.Equal(t, uint64(7), p.Status().Outcomes.Applied)
	})
	t.Run("an entry that was folded and is gone later is found when the stream is read through", func(t *testing.T) {
		w := newWorld(t)
		w.events(t, 3)
		w.folded(t)
		w.outcomes.remove(3)
		p, _, stop := w.run(t)
		defer stop()
		halt := halted(t, p, outcomes)
		require.Equal(t, projector.ReasonGap, halt.Reason)
		require.Equal(t, uint64(3), halt.Sequence)
	})
	t.Run("unless an operator accepted that", func(t *testing.T) {
		w := newWorld(t)
		w.events(t, 3)
		w.folded(t)
		w.outcomes.remove(3)
		w.outcomes.remove(6)
		w.outcomes.gaps = []streams.Gap{{From: 3, To: 3, Accepted: "ann"}, {From: 6, To: 6, Accepted: "ann"}}
		w.options.ScrubEvery = time.Millisecond
		p, _, stop := w.run(t)
		defer stop()
		eventually(t, func() bool { return p.Status().Ready() })
		ref := storetest.Ref("acme", 9)
		before := len(w.log.Lines)
		w.log.Record(ref, event.Claimed{})
		w.outcomes.append(entriesOf(t, w.log.Lines[before:])...)
		caughtUp(t, p, 7)
		require.Nil(t, p.Status().Outcomes.Halt)
	})
	t.Run("holes in DEADLETTERS are letters that were dealt with", func(t *testing.T) {
		w := newWorld(t)
		w.letters.append(letterEntry(t, 2, storetest.Ref("acme", 1).Key), letterEntry(t, 5, storetest.Ref("acme", 2).Key))
		p, s, stop := w.run(t)
		defer stop()
		eventually(t, func() bool { return p.Status().Ready() })
		page, err := s.DeadLetters(store.LetterQuery{})
		require.NoError(t, err)
		require.Len(t, page.Items, 2)
	})
}
