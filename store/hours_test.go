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

func turnHours(q *store.HourQuery, next string) { q.Cursor = next }

func TestHoursAnswersAsIfEveryRowWasCounted(t *testing.T) {
	open := newFiles(t)
	rapid.Check(t, func(rt *rapid.T) {
		log := storetest.Draw(rt, 40)
		for i, l := range log.Lines { // three events an hour, half an hour after it began
			if l.Record != nil {
				n := int(l.Record.Event.Sequence >> 15)
				log.Lines[i].Record.Event.ReceivedAt = storetest.Start.Add(time.Duration(n/3)*time.Hour + 30*time.Minute)
			}
		}
		moment := rapid.SampledFrom([]time.Duration{-time.Hour, 0, 30 * time.Minute, time.Hour, 90 * time.Minute, 2 * time.Hour})
		q := store.HourQuery{
			Tenant:  rapid.SampledFrom([]string{"", "acme", "nobody"}).Draw(rt, "tenant"),
			Outcome: rapid.SampledFrom([]event.Outcome{"", "", event.Processed, event.Failed}).Draw(rt, "outcome"),
			Limit:   rapid.IntRange(1, 4).Draw(rt, "limit"),
		}
		if rapid.Bool().Draw(rt, "has since") {
			q.Since = storetest.Start.Add(moment.Draw(rt, "since"))
		}
		if rapid.Bool().Draw(rt, "has until") {
			q.Until = storetest.Start.Add(moment.Draw(rt, "until"))
		}
		open(rt, func(s *store.Store) {
			storetest.Apply(rt, s, log.Lines...)
			rows := all(rt, s.Events, store.Query{Limit: store.MaxLimit}, turnEvents)
			require.Equal(rt, countHours(q, rows), all(rt, s.Hours, q, turnHours))
		})
	})
}

// countHours counts rows by what the query says.
func countHours(q store.HourQuery, rows []store.Row) []store.HourCount {
	counts := map[store.HourCount]int{}
	for _, r := range rows {
		hour := r.ReceivedAt.Truncate(time.Hour)
		if (q.Tenant == "" || r.Tenant == q.Tenant) && (q.Outcome == "" || r.Outcome == q.Outcome) && !r.Test &&
			(q.Since.IsZero() || hour.Add(time.Hour).After(q.Since)) && (q.Until.IsZero() || hour.Before(q.Until)) {
			counts[store.HourCount{Hour: hour, Tenant: r.Tenant, Outcome: r.Outcome}]++
		}
	}
	list := []store.HourCount{}
	for c, n := range counts {
		c.Events = n
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b store.HourCount) int {
		return cmp.Or(b.Hour.Compare(a.Hour), cmp.Compare(a.Outcome, b.Outcome), cmp.Compare(a.Tenant, b.Tenant))
	})
	return list
}

func TestHours(t *testing.T) {
	s, log := ledger(t, 3)
	test := storetest.Ref("acme", 5)
	test.Source, test.Key = event.TestSource, event.TestKey("acme", test.ID)
	log.Record(test, event.Claimed{})
	storetest.Apply(t, s, log.Lines[len(log.Lines)-1])
	hours := func() []store.HourCount { return all(t, s.Hours, store.HourQuery{}, turnHours) }

	t.Run("tests are not counted", func(t *testing.T) {
		require.Equal(t, []store.HourCount{
			{Hour: storetest.Start, Tenant: "acme", Outcome: event.NoTemplate, Events: 2},
			{Hour: storetest.Start, Tenant: "globex", Outcome: event.NoTemplate, Events: 1},
		}, hours())
	})
	t.Run("an event that is requeued leaves its outcome", func(t *testing.T) {
		log.Record(storetest.Ref("globex", 1), event.Requeued{Generation: 1, Operator: "ops"})
		storetest.Apply(t, s, log.Lines[len(log.Lines)-1])
		require.Equal(t, store.HourCount{Hour: storetest.Start, Tenant: "globex", Events: 1}, hours()[0])
	})
	t.Run("an hour without events is not there", func(t *testing.T) {
		require.NoError(t, s.Update(func(tx *store.Tx) error {
			_, err := tx.Trim(100, 100)
			return err
		}))
		require.Empty(t, hours())
	})
	t.Run("a page of many hours that do not fit is bounded, and says that there is more", func(t *testing.T) {
		s, log := storetest.Open(t), &storetest.Log{}
		for i := range 20 {
			ref := storetest.Ref("acme", i)
			ref.ReceivedAt = storetest.Start.Add(time.Duration(i) * time.Hour)
			log.Record(ref, event.Claimed{})
		}
		storetest.Apply(t, s, log.Lines...)
		s.SetSteps(5)
		page, err := s.Hours(store.HourQuery{Tenant: "nobody"})
		require.NoError(t, err)
		require.Empty(t, page.Items)
		require.NotEmpty(t, page.Next)
		require.Empty(t, all(t, s.Hours, store.HourQuery{Tenant: "nobody"}, turnHours))
		_, err = s.Hours(store.HourQuery{Tenant: "acme", Cursor: page.Next})
		require.ErrorIs(t, err, store.ErrCursor)
	})
}
