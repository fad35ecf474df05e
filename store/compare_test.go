package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tidings/store"
	"tidings/store/storetest"
	"tidings/streams/event"
)

func differences(t require.TestingT, ours, theirs *store.Store) []store.Difference {
	var all []store.Difference
	require.NoError(t, ours.Compare(theirs, func(d store.Difference) bool { all = append(all, d); return true }))
	return all
}

func TestCompareFindsNothingBetweenLedgersOfOneLog(t *testing.T) {
	open := newFiles(t)
	rapid.Check(t, func(rt *rapid.T) {
		log := storetest.Draw(rt, 40)
		half := rapid.IntRange(0, len(log.Lines)).Draw(rt, "in the first transaction")
		open(rt, func(a *store.Store) {
			open(rt, func(b *store.Store) {
				storetest.Apply(rt, a, log.Lines...)
				storetest.Apply(rt, b, log.Lines[:half]...)
				storetest.Apply(rt, b, log.Lines[half:]...)
				require.Empty(rt, differences(rt, a, b))
				require.Equal(rt, digest(rt, a), digest(rt, b))
			})
		})
	})
}

func TestCompareFindsWhatOnlyOneHas(t *testing.T) {
	open := newFiles(t)
	rapid.Check(t, func(rt *rapid.T) {
		log := storetest.Draw(rt, 40)
		open(rt, func(a *store.Store) {
			open(rt, func(b *store.Store) {
				storetest.Apply(rt, a, log.Lines...)
				storetest.Apply(rt, b, log.Lines[:max(1, len(log.Lines))-1]...)
				require.Equal(rt, digest(rt, a) != digest(rt, b), len(differences(rt, a, b)) > 0)
				require.Equal(rt, len(differences(rt, a, b)), len(differences(rt, b, a)))
			})
		})
	})
}

func TestADifferenceSaysWhatDiffers(t *testing.T) {
	ours, theirs := storetest.Open(t), storetest.Open(t)
	key := event.NewKey("acme", "shop", "A-1")
	ref := event.Ref{Key: key, Tenant: "acme", Source: "shop", ID: "A-1", Type: "order.paid", ReceivedAt: storetest.Start}
	record := event.NewRecord(ref, event.State{}, storetest.Start.Add(time.Second), event.Settled{})
	for s, outcome := range map[*store.Store]event.Outcome{ours: event.Processed, theirs: event.NoRecipient} {
		r := record
		r.State.Outcome = outcome
		require.NoError(t, s.Update(func(tx *store.Tx) error { return tx.Record(store.Place{Sequence: 7, Time: storetest.Start}, r) }))
	}
	all := differences(t, ours, theirs)
	require.Equal(t, store.Difference{
		What: "row", Key: key, Name: "ledger row of event " + string(key) + ` (id "A-1", tenant "acme")`, Ours: "outcome=processed", Theirs: "outcome=no_recipient",
	}, all[0])
	require.Equal(t, `ledger row of event `+string(key)+` (id "A-1", tenant "acme"): live says outcome=processed, the log says outcome=no_recipient`, all[0].String())
	require.Equal(t, store.Difference{What: "entry", Name: "entry 7 of OUTCOMES", Ours: "outcome=processed", Theirs: "outcome=no_recipient"}, all[1])
	require.Contains(t, all, store.Difference{What: "count", Name: "count of outcome:processed", Ours: "1", Theirs: "0"})
	require.Contains(t, all, store.Difference{
		What: "count", Name: `events of tenant acme with outcome "processed" in the hour of 2026-03-01 12:00`, Ours: "1", Theirs: "0",
	})
	t.Run("and it stops when it is told to", func(t *testing.T) {
		n := 0
		require.NoError(t, ours.Compare(theirs, func(store.Difference) bool { n++; return false }))
		require.Equal(t, 1, n)
	})
}
