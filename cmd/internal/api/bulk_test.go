package api_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/cmd/internal/api"
	"tidings/store"
	"tidings/store/storetest"
	"tidings/streams/event"
)

// raw puts a dead letter of a delivery, the n-th, a minute after the one before.
func (w *world) raw(n int, cause event.Cause, data string) event.Letter {
	w.t.Helper()
	l := event.Letter{
		Schema: event.Schema, Kind: event.LetterDelivery, Key: event.NewKey("raw", fmt.Sprint(n)), Tenant: "a", Cause: cause,
		Stage: event.StageBridge, Detail: fmt.Sprintf("number %d", n), At: storetest.Start.Add(time.Duration(n) * time.Minute),
		Delivery: &event.Delivery{Queue: "orders"}, Data: []byte(data),
	}
	w.letter(l)
	return l
}

func TestDeadLettersAreGrouped(t *testing.T) {
	w := newDesk(t)
	for n := range 3 {
		w.raw(n, event.CauseUndecodable, "x")
	}
	w.raw(3, event.CauseFuture, "x")
	w.dead(storetest.Ref("a", 1))
	w.dead(storetest.Ref("a", 2))
	_, err := w.client.Requeue(t.Context(), storetest.Ref("a", 1).Key, "")
	require.NoError(t, err)
	last, err := w.stream.Outcomes.Last(t.Context(), "a", storetest.Ref("a", 1).Key)
	require.NoError(t, err)
	require.NoError(t, w.ledger.Update(func(tx *store.Tx) error {
		return tx.Record(store.Place{Sequence: last.Sequence, Time: last.Time}, last.Record)
	}))
	got, err := w.client.GroupLetters(t.Context(), store.LetterQuery{}, "cause")
	require.NoError(t, err)
	minute := func(n int) time.Time { return storetest.Start.Add(time.Duration(n) * time.Minute) }
	require.Equal(t, []api.LetterGroup{
		{Value: "undecodable", Letters: 3, Oldest: minute(0), Newest: minute(2)},
		{Value: "rounds_exhausted", Letters: 2, Requeued: 1, Oldest: minute(0), Newest: minute(0)},
		{Value: "future", Letters: 1, Oldest: minute(3), Newest: minute(3)},
	}, got.Items)
	got, err = w.client.GroupLetters(t.Context(), store.LetterQuery{Text: "NUMBER 2"}, "stage")
	require.NoError(t, err)
	require.Equal(t, []api.LetterGroup{{Value: "bridge", Letters: 1, Oldest: minute(2), Newest: minute(2)}}, got.Items)
	problem(t, w.ask(http.MethodGet, "/v1/deadletters/groups?by=colour", ""), http.StatusUnprocessableEntity)
}

func TestDeadLettersAreDiscardedInBulk(t *testing.T) {
	w := newDesk(t)
	var of []api.LetterAt
	for n := range 40 {
		l := w.raw(n, event.CauseUndecodable, "x")
		_, at, err := w.stream.DeadLetters.Get(t.Context(), "a", l.Key)
		require.NoError(t, err)
		of = append(of, api.LetterAt{Key: l.Key, Sequence: at})
	}
	ref := storetest.Ref("a", 1)
	w.dead(ref)
	of = append(of, api.LetterAt{Key: ref.Key, Sequence: 41})
	changed, gone := of[0], of[1]
	of[0].Sequence = 99
	require.NoError(t, w.stream.DeadLetters.Remove(t.Context(), gone.Sequence))

	got, err := w.client.DiscardLetters(t.Context(), "noise", of)
	require.NoError(t, err)
	require.Equal(t, 39, got.Discarded)
	skipped := map[event.Key]string{}
	for _, s := range got.Skipped {
		skipped[s.Key] = s.Why
	}
	require.Contains(t, skipped[changed.Key], "it is another letter than the one that was looked at")
	require.Equal(t, "it is gone", skipped[gone.Key])
	info, err := w.stream.DeadLetters.Info(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, info.Messages)
	last, err := w.stream.Outcomes.Last(t.Context(), "a", ref.Key)
	require.NoError(t, err)
	require.True(t, last.Record.State.Discarded)
	t.Run("and a reason and letters are needed", func(t *testing.T) {
		for _, body := range []string{`{"letters":[{"key":"x","sequence":1}]}`, `{"reason":"noise","letters":[]}`, `{"reason":"noise"}`} {
			problem(t, w.ask(http.MethodPost, "/v1/deadletters/discard", body, "Tidings-Operator", "ann"), http.StatusUnprocessableEntity)
		}
		_, err := w.client.DiscardLetters(t.Context(), " ", of)
		require.ErrorContains(t, err, "give a reason")
	})
}

func TestDeadLettersAreExported(t *testing.T) {
	w := newDesk(t)
	var want []event.Letter
	for n := range 5 {
		data := "\x00<" + fmt.Sprint(n)
		if n == 3 {
			data = strings.Repeat("x", 6<<20) // two such are more than one answer has
		}
		want = append([]event.Letter{w.raw(n, event.CauseUndecodable, data)}, want...)
	}
	w.raw(5, event.CauseFuture, "x")
	var got []event.Letter
	answers := 0
	for q := (store.LetterQuery{Cause: event.CauseUndecodable, Limit: 2}); ; answers++ {
		lines, next, err := w.client.ExportLetters(t.Context(), q)
		require.NoError(t, err)
		scan := bufio.NewScanner(strings.NewReader(string(lines)))
		scan.Buffer(nil, 32<<20)
		for scan.Scan() {
			var l event.Letter
			require.NoError(t, json.Unmarshal(scan.Bytes(), &l))
			got = append(got, l)
		}
		if q.Cursor = next; next == "" {
			break
		}
	}
	require.Equal(t, want, got)
	require.Equal(t, 2, answers)

	t.Run("in smaller answers where they are large", func(t *testing.T) {
		w.raw(6, event.CauseOversize, strings.Repeat("y", 5<<20))
		w.raw(7, event.CauseOversize, strings.Repeat("z", 5<<20))
		lines, next, err := w.client.ExportLetters(t.Context(), store.LetterQuery{Cause: event.CauseOversize})
		require.NoError(t, err)
		require.Equal(t, 1, strings.Count(string(lines), "\n"))
		require.NotEmpty(t, next)
	})
	t.Run("as JSON Lines, and without what is gone", func(t *testing.T) {
		_, at, err := w.stream.DeadLetters.Get(t.Context(), "a", want[0].Key)
		require.NoError(t, err)
		require.NoError(t, w.stream.DeadLetters.Remove(t.Context(), at))
		res := w.ask(http.MethodGet, "/v1/deadletters/export?cause=undecodable&limit=1", "")
		require.Equal(t, "application/jsonl", res.Header.Get("Content-Type"))
		require.NotEmpty(t, res.Header.Get("Tidings-Next"))
		require.Empty(t, text(t, res))
		problem(t, w.ask(http.MethodGet, "/v1/deadletters/export?cursor=x", ""), http.StatusBadRequest)
	})
}
