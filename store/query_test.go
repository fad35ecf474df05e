package store_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tidings/store"
	"tidings/store/storetest"
	"tidings/streams/event"
)

// newestFirst is the order of the ledger.
func newestFirst(a, b store.Row) int {
	return cmp.Or(b.ReceivedAt.Compare(a.ReceivedAt), cmp.Compare(b.Key, a.Key))
}

// all pages through a query.
func all[Q, T any](t require.TestingT, ask func(Q) (store.Page[T], error), q Q, turn func(*Q, string)) []T {
	items := []T{}
	for {
		page, err := ask(q)
		require.NoError(t, err)
		items = append(items, page.Items...)
		if page.Next == "" {
			return items
		}
		turn(&q, page.Next)
	}
}

func turnEvents(q *store.Query, next string)        { q.Cursor = next }
func turnLetters(q *store.LetterQuery, next string) { q.Cursor = next }

func TestEventsAnswersAsIfEveryRowWasLookedAt(t *testing.T) {
	open := newFiles(t)
	rapid.Check(t, func(rt *rapid.T) {
		log := storetest.Draw(rt, 40)
		second := func(label string) time.Time {
			n := rapid.IntRange(-1, 4).Draw(rt, label)
			if n < 0 {
				return time.Time{}
			}
			return storetest.Start.Add(time.Duration(n) * time.Second)
		}
		q := store.Query{
			Tenant:        rapid.SampledFrom([]string{"", "", "acme", "globex", "nobody"}).Draw(rt, "tenant"),
			Type:          rapid.SampledFrom([]string{"", "", "order.type0", "order.type1"}).Draw(rt, "type"),
			Outcome:       rapid.SampledFrom(append(event.Outcomes(), "", "", "")).Draw(rt, "outcome"),
			Phase:         rapid.SampledFrom([]event.Phase{"", "", "open", "claimed", "waiting", "settled", "dead"}).Draw(rt, "phase"),
			Source:        rapid.SampledFrom([]string{"", "", "shop", "Till"}).Draw(rt, "source"),
			CorrelationID: rapid.SampledFrom([]string{"", "", "cart-1", "Cart <ä>"}).Draw(rt, "correlation id"),
			Recipient:     rapid.SampledFrom([]string{"", "", "h-email", "h-emailcart-1", "h-webhook", "h"}).Draw(rt, "recipient"),
			Text:          rapid.SampledFrom([]string{"", "", "R-2", "TYPE1", "tILL", "<Ä>", "cart <", "template_", "nowhere"}).Draw(rt, "text"),
			Since:         second("since"), Until: second("until"),
			Limit: rapid.IntRange(1, 4).Draw(rt, "limit"),
		}
		fits := func(r store.Row) bool {
			return (q.Tenant == "" || r.Tenant == q.Tenant) && (q.Type == "" || r.Type == q.Type) &&
				(q.Source == "" || r.Source == q.Source) && (q.CorrelationID == "" || r.CorrelationID == q.CorrelationID) &&
				hasText(r, q.Text) &&
				(q.Outcome == "" || r.Outcome == q.Outcome) && (q.Phase == "" || r.Phase == q.Phase) &&
				(q.Since.IsZero() || !r.ReceivedAt.Before(q.Since)) && (q.Until.IsZero() || r.ReceivedAt.Before(q.Until))
		}
		open(rt, func(s *store.Store) {
			storetest.Apply(rt, s, log.Lines...)
			everything := all(rt, s.Events, store.Query{Limit: store.MaxLimit}, turnEvents)
			want := slices.DeleteFunc(slices.Clone(everything), func(r store.Row) bool {
				return !fits(r) || q.Recipient != "" && !goesTo(rt, s, r.Key, q.Recipient)
			})
			slices.SortFunc(want, newestFirst)
			require.Equal(rt, want, all(rt, s.Events, q, turnEvents))
		})
	})
}

// hasText reports whether a row mentions a text, as the query is defined.
func hasText(r store.Row, text string) bool {
	return slices.ContainsFunc([]string{r.EventID, r.Type, r.Source, r.CorrelationID, string(r.Cause)}, func(shown string) bool {
		return strings.Contains(strings.ToLower(shown), strings.ToLower(text))
	})
}

func goesTo(t require.TestingT, s *store.Store, key event.Key, hash string) bool {
	messages, err := s.Messages(key)
	require.NoError(t, err)
	return slices.ContainsFunc(messages, func(m event.Message) bool { return m.Recipient.Hash == hash })
}

// ledger applies n settled events without messages, of two tenants in turn.
func ledger(t testing.TB, n int) (*store.Store, *storetest.Log) {
	s, log := storetest.Open(t), &storetest.Log{}
	for i := range n {
		ref := storetest.Ref([]string{"acme", "globex"}[i%2], i)
		log.Record(ref, event.Claimed{})
		log.Record(ref, event.Planned{Nothing: event.NoTemplate}, event.Settled{})
	}
	storetest.Apply(t, s, log.Lines...)
	return s, log
}

func TestPages(t *testing.T) {
	t.Run("the last page says that it is the last", func(t *testing.T) {
		s, _ := ledger(t, 4)
		page, err := s.Events(store.Query{Limit: 4})
		require.NoError(t, err)
		require.Len(t, page.Items, 4)
		require.Empty(t, page.Next)
	})

	t.Run("events that arrive between two pages neither repeat nor hide others", func(t *testing.T) {
		s, log := ledger(t, 4)
		first, err := s.Events(store.Query{Limit: 2})
		require.NoError(t, err)
		before := len(log.Lines)
		log.Record(storetest.Ref("acme", 9), event.Claimed{})
		storetest.Apply(t, s, log.Lines[before:]...)
		second, err := s.Events(store.Query{Limit: 2, Cursor: first.Next})
		require.NoError(t, err)
		require.Equal(t, []string{"order-1", "order-0"}, sortedDown(second.Items))
	})

	t.Run("a page of unknown size has the default size, and none exceeds the greatest", func(t *testing.T) {
		s, _ := ledger(t, store.MaxLimit+1)
		page, err := s.Events(store.Query{})
		require.NoError(t, err)
		require.Len(t, page.Items, store.DefaultLimit)
		page, err = s.Events(store.Query{Limit: 1 << 30})
		require.NoError(t, err)
		require.Len(t, page.Items, store.MaxLimit)
	})

	t.Run("conditions that never meet cost a bounded page each", func(t *testing.T) {
		s, log := storetest.Open(t), &storetest.Log{}
		const n = 300 // type and outcome alternate, so that both ranges are walked
		s.SetSteps(200)
		for i := range n {
			ref := storetest.Ref("acme", i)
			ref.Type = []string{"a", "b"}[i%2]
			ref.ReceivedAt = storetest.Start.Add(time.Duration(i) * time.Second)
			log.Record(ref, event.Planned{Nothing: []event.Outcome{event.NoTemplate, event.NoRecipient}[i%2]}, event.Settled{})
		}
		storetest.Apply(t, s, log.Lines...)
		q := store.Query{Type: "a", Outcome: event.NoRecipient}
		page, err := s.Events(q)
		require.NoError(t, err)
		require.Empty(t, page.Items)
		require.NotEmpty(t, page.Next, "there is more to look at, and the page says so")
		require.Empty(t, all(t, s.Events, q, turnEvents))

		s.SetReads(100)
		q = store.Query{Text: "order-7"}
		page, err = s.Events(q)
		require.NoError(t, err)
		require.Empty(t, page.Items, "the newest hundred do not have it")
		require.NotEmpty(t, page.Next)
		require.Equal(t, 11, len(all(t, s.Events, q, turnEvents)), "7 and 70 to 79")

		q = store.Query{Text: "<nowhere>"} // another form in JSON: every row is decoded, which counts as five reads
		pages := 0
		require.Empty(t, all(t, s.Events, q, func(q *store.Query, next string) { q.Cursor = next; pages++ }))
		require.Equal(t, n/20, pages+1)

		q = store.Query{Phase: event.PhaseSettled, Outcome: event.Stale, Tenant: "acme"}
		require.Empty(t, all(t, s.Events, q, turnEvents))
	})
}

func sortedDown(rows []store.Row) []string {
	ids := []string{}
	for _, r := range rows {
		ids = append(ids, r.EventID)
	}
	slices.Sort(ids)
	slices.Reverse(ids)
	return ids
}

func TestCursors(t *testing.T) {
	s, _ := ledger(t, 4)
	page, err := s.Events(store.Query{Limit: 1})
	require.NoError(t, err)
	for name, q := range map[string]store.Query{
		"one that is not base64":     {Cursor: "%"},
		"one that is too short":      {Cursor: "aa"},
		"one of another query":       {Cursor: page.Next, Tenant: "acme"},
		"one that somebody made up":  {Cursor: "AAAAAAAAAAAAAAAAAAAAAA"},
		"one with another limit, ok": {Cursor: page.Next, Limit: 3},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.Events(q)
			if q.Limit > 0 {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, store.ErrCursor)
		})
	}
	t.Run("one of the ledger is refused by the dead-letter list", func(t *testing.T) {
		_, err := s.DeadLetters(store.LetterQuery{Cursor: page.Next})
		require.ErrorIs(t, err, store.ErrCursor)
	})
}

func TestFindID(t *testing.T) {
	s, log := storetest.Open(t), &storetest.Log{}
	for i, tenant := range []string{"acme", "globex", "acme"} {
		ref := storetest.Ref(tenant, i)
		ref.ID = "order-42"
		log.Record(ref, event.Claimed{})
	}
	storetest.Apply(t, s, log.Lines...)

	t.Run("an id may belong to several events, newest first", func(t *testing.T) {
		rows, err := s.FindID("order-42", "")
		require.NoError(t, err)
		require.Len(t, rows, 3)
		require.Equal(t, storetest.Ref("acme", 2).Key, rows[0].Key)
	})
	t.Run("a tenant sees its own", func(t *testing.T) {
		rows, err := s.FindID("order-42", "globex")
		require.NoError(t, err)
		require.Len(t, rows, 1)
	})
	t.Run("an id that never came is not found", func(t *testing.T) {
		_, err := s.FindID("order-43", "")
		require.ErrorIs(t, err, store.ErrNotFound)
	})
}

func TestNotFound(t *testing.T) {
	s, _ := ledger(t, 1)
	key := storetest.Ref("acme", 77).Key
	ask := map[string]func() error{
		"event":       func() error { _, err := s.Event(key); return err },
		"messages":    func() error { _, err := s.Messages(key); return err },
		"history":     func() error { _, err := s.History(key, 0, 0); return err },
		"dead letter": func() error { _, err := s.DeadLetter(key); return err },
		"half a key":  func() error { _, err := s.History(storetest.Ref("acme", 0).Key[:5], 0, 0); return err },
	}
	for name, err := range ask {
		t.Run(name, func(t *testing.T) { require.ErrorIs(t, err(), store.ErrNotFound) })
	}
}

func TestHistory(t *testing.T) {
	s, log := storetest.Open(t), &storetest.Log{}
	ref := storetest.Ref("acme", 0)
	log.Record(ref, event.Claimed{Limit: 64})
	log.Record(storetest.Ref("acme", 1), event.Claimed{})
	log.Duplicate(ref, "n1")
	log.Record(ref, event.Planned{Nothing: event.NoRecipient}, event.Settled{})
	storetest.Apply(t, s, log.Lines...)

	t.Run("it is what happened to the event, in order, with where that left it", func(t *testing.T) {
		entries, err := s.History(ref.Key, 0, 0)
		require.NoError(t, err)
		require.Len(t, entries, 3)
		require.Equal(t, []event.Kind{event.KindClaimed, event.KindDuplicate, event.KindSettled},
			[]event.Kind{entries[0].Kind, entries[1].Kind, entries[2].Kind})
		require.Equal(t, event.Claimed{Limit: 64}, entries[0].Facts[0])
		require.Equal(t, &store.Redelivery{
			Stage: event.StageBridge, Stream: "EVENTS", Sequence: ref.Sequence, Delivery: "amqp queue orders", Count: 1,
		}, entries[1].Redelivery)
		require.Equal(t, event.NoRecipient, entries[2].Outcome)
		require.Equal(t, 2, entries[2].Revision)
	})
	t.Run("it goes on after a sequence", func(t *testing.T) {
		entries, err := s.History(ref.Key, 1, 1)
		require.NoError(t, err)
		require.Len(t, entries, 1)
		require.Equal(t, uint64(3), entries[0].Sequence)
		entries, err = s.History(ref.Key, 1<<64-1, 0)
		require.NoError(t, err)
		require.Empty(t, entries)
	})
	t.Run("the audit is that of all events", func(t *testing.T) {
		entries, err := s.Audit(1, 2)
		require.NoError(t, err)
		require.Equal(t, []uint64{2, 3}, []uint64{entries[0].Sequence, entries[1].Sequence})
	})
}

func TestOverdue(t *testing.T) {
	s, log := storetest.Open(t), &storetest.Log{}
	due := storetest.Start.Add(time.Hour)
	waiting, claimed, settled := storetest.Ref("acme", 0), storetest.Ref("acme", 1), storetest.Ref("acme", 2)
	log.Record(waiting, event.Claimed{})
	log.Record(waiting, event.Waiting{Round: 1, Due: due, Reason: event.WaitRetry})
	log.Record(claimed, event.Claimed{})
	log.Record(settled, event.Settled{})
	storetest.Apply(t, s, log.Lines...)
	ids := func(now time.Time, age time.Duration, limit int) []string {
		rows, err := s.Overdue(now, age, limit)
		require.NoError(t, err)
		ids := []string{}
		for _, r := range rows {
			ids = append(ids, r.EventID)
		}
		return ids
	}

	t.Run("nobody is overdue before the time", func(t *testing.T) {
		require.Empty(t, ids(due, 2*time.Hour, 10))
	})
	t.Run("a waiting event is overdue once it was due", func(t *testing.T) {
		require.Equal(t, []string{"order-0"}, ids(due.Add(time.Nanosecond), 2*time.Hour, 10))
	})
	t.Run("a claimed event is overdue when it did not change for the given age", func(t *testing.T) {
		require.Equal(t, []string{"order-1"}, ids(due, time.Minute, 10))
	})
	t.Run("the longest overdue comes first, and limit holds", func(t *testing.T) {
		require.Equal(t, []string{"order-1", "order-0"}, ids(due.Add(time.Hour), time.Minute, 10))
		require.Equal(t, []string{"order-1"}, ids(due.Add(time.Hour), time.Minute, 1))
		require.Empty(t, ids(due.Add(time.Hour), time.Minute, 0))
	})
}

func TestCounts(t *testing.T) {
	s, log := ledger(t, 3)
	before := len(log.Lines)
	log.Record(storetest.Ref("acme", 3), event.Claimed{})
	log.Duplicate(storetest.Ref("acme", 3), "a")
	log.Duplicate(storetest.Ref("acme", 4), "a")
	storetest.Apply(t, s, log.Lines[before:]...)
	c, err := s.Counts()
	require.NoError(t, err)
	require.Equal(t, store.Counts{
		Outcomes: map[event.Outcome]int{
			event.NoTemplate: 3, event.Processed: 0, event.Failed: 0, event.Suppressed: 0, event.NoRecipient: 0, event.Stale: 0,
		},
		Open:       map[event.Phase]int{event.PhaseClaimed: 1, event.PhaseOpen: 0, event.PhaseWaiting: 0},
		Duplicates: 2,
	}, c)
	require.Equal(t, 4, c.Events())

	before = len(log.Lines)
	test := storetest.Ref("acme", 5)
	test.Source, test.Key = event.TestSource, event.TestKey("acme", test.ID)
	log.Record(test, event.Claimed{})
	log.Record(test, event.Settled{})
	storetest.Apply(t, s, log.Lines[before:]...)
	after, err := s.Counts()
	require.NoError(t, err)
	require.Equal(t, 1, after.Tests, "once, whatever became of it")
	after.Tests = 0
	require.Equal(t, c, after, "and nowhere else")
}
