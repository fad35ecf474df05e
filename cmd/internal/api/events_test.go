package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/cmd/internal/api"
	"tidings/store"
	"tidings/store/storetest"
	"tidings/streams/event"
)

func TestEvents(t *testing.T) {
	w := newWorld(t)
	for n := range 6 {
		ref := storetest.Ref([]string{"a", "b"}[n%2], n)
		w.record(ref, claimed, planned, delivered)
		if n%3 != 0 {
			w.record(ref, event.Settled{})
		}
	}
	list := func(q api.EventQuery) []string {
		page, err := w.client.Events(t.Context(), q)
		require.NoError(t, err)
		ids := []string{}
		for _, r := range page.Items {
			ids = append(ids, r.EventID)
		}
		return ids
	}
	t.Run("the list is newest first, and every filter counts", func(t *testing.T) {
		require.Len(t, list(api.EventQuery{}), 6)
		require.Equal(t, []string{"order-4", "order-2", "order-0"}, list(api.EventQuery{Query: store.Query{Tenant: "a"}}))
		require.Equal(t, []string{"order-4", "order-1"}, list(api.EventQuery{Query: store.Query{Type: "order.type1"}}))
		require.Equal(t, []string{"order-3", "order-0"}, list(api.EventQuery{Query: store.Query{Phase: event.PhaseClaimed}}))
		require.Len(t, list(api.EventQuery{Query: store.Query{Outcome: event.Processed}}), 4)
		require.Empty(t, list(api.EventQuery{Query: store.Query{Outcome: event.Stale}}))
		require.ElementsMatch(t, []string{"order-5", "order-4"}, list(api.EventQuery{Query: store.Query{Since: storetest.Start.Add(2 * time.Second)}}))
		require.ElementsMatch(t, []string{"order-1", "order-0"}, list(api.EventQuery{Query: store.Query{Until: storetest.Start.Add(time.Second)}}))
		require.Equal(t, []string{"order-3"}, list(api.EventQuery{Query: store.Query{ID: "order-3"}}))
		require.Empty(t, list(api.EventQuery{Query: store.Query{ID: "order-3", Outcome: event.Processed}}))
		require.Empty(t, list(api.EventQuery{Query: store.Query{ID: "order-3", Tenant: "a"}}))
		require.Equal(t, []string{"order-3"}, list(api.EventQuery{Query: store.Query{Text: "DER-3"}}))
		require.Empty(t, list(api.EventQuery{Query: store.Query{Source: "nowhere"}}))
		require.Empty(t, list(api.EventQuery{Query: store.Query{CorrelationID: "none"}}))
	})
	t.Run("pages follow each other without gap or repeat", func(t *testing.T) {
		seen := map[string]bool{}
		q := api.EventQuery{Query: store.Query{Limit: 4}}
		for {
			page, err := w.client.Events(t.Context(), q)
			require.NoError(t, err)
			for _, r := range page.Items {
				require.False(t, seen[r.EventID])
				seen[r.EventID] = true
			}
			if q.Cursor = page.Next; q.Cursor == "" {
				break
			}
		}
		require.Len(t, seen, 6)
	})
	t.Run("a list of nothing is [] and not null", func(t *testing.T) {
		require.JSONEq(t, `{"items":[]}`, text(t, w.ask(http.MethodGet, "/v1/events?tenant=nobody", "")))
		require.JSONEq(t, `{"items":[]}`, text(t, w.ask(http.MethodGet, "/v1/events?id=none", "")))
		require.JSONEq(t, `{"items":[]}`, text(t, w.ask(http.MethodGet, "/v1/deadletters", "")))
	})
	t.Run("what is asked wrongly is refused with a reason", func(t *testing.T) {
		for path, want := range map[string]string{
			"/v1/events?outcom=failed":         "query.outcom",
			"/v1/events?outcome=lost":          "query.outcome",
			"/v1/events?limit=0":               "query.limit",
			"/v1/events?limit=100000":          "query.limit",
			"/v1/events?since=yesterday":       "query.since",
			"/v1/deadletters?kind=letter":      "query.kind",
			"/v1/deadletters?cause=exhaused":   "query.cause",
			"/v1/events/x/history?after=first": "query.after",
		} {
			body := problem(t, w.ask(http.MethodGet, path, ""), http.StatusUnprocessableEntity)
			require.Contains(t, body, want)
			require.Contains(t, body, "urn:tidings:invalid")
		}
		for _, path := range []string{"/v1/events?cursor=abc", "/v1/deadletters?cursor=abc"} {
			require.Contains(t, problem(t, w.ask(http.MethodGet, path, ""), http.StatusBadRequest), "urn:tidings:cursor")
		}
	})
}

// The enumerations of the description are those of the vocabulary: what is
// described is what is accepted.
func TestEveryNameCanBeAskedFor(t *testing.T) {
	w := newWorld(t)
	ask := func(t *testing.T, list, parameter, name string) {
		res := w.ask(http.MethodGet, list+"?"+parameter+"="+name, "")
		require.Equal(t, http.StatusOK, res.StatusCode, name)
	}
	for _, o := range api.Outcomes() {
		ask(t, "/v1/events", "outcome", string(o))
	}
	for _, p := range api.Phases() {
		ask(t, "/v1/events", "phase", string(p))
	}
	for _, c := range api.Causes() {
		ask(t, "/v1/deadletters", "cause", string(c))
	}
	for _, k := range api.LetterKinds() {
		ask(t, "/v1/deadletters", "kind", string(k))
	}
}

func TestAnIDThatIsAPathIsAnID(t *testing.T) {
	w := newWorld(t)
	for _, id := range []string{".", "..", "../status", "a/history", "%2e%2e", "?", "#", " "} {
		ref := storetest.Ref("c", 100)
		ref.ID, ref.Key = id, event.NewKey("path", id)
		w.record(ref, claimed, event.Settled{})
		found, err := w.client.Event(t.Context(), id, "")
		require.NoError(t, err, id)
		require.Equal(t, id, found.Event.EventID)
	}
}

func TestEvent(t *testing.T) {
	w := newWorld(t)
	ref := storetest.Ref("a", 1)
	w.record(ref, claimed, planned, delivered, event.Settled{})
	d := w.log.Duplicate(ref, "n")
	storetest.Apply(t, w.ledger, w.log.Lines[len(w.log.Lines)-1])

	t.Run("an event is found by its key and by its id", func(t *testing.T) {
		for _, id := range []string{string(ref.Key), ref.ID} {
			found, err := w.client.Event(t.Context(), id, "")
			require.NoError(t, err)
			require.Equal(t, ref.Key, found.Event.Key)
			require.Equal(t, event.Processed, found.Event.Outcome)
			require.Equal(t, 1, found.Event.Duplicates)
			require.Len(t, found.Messages, 1)
			require.Equal(t, "a…@example.com", found.Messages[0].Recipient.Mask)
		}
	})
	t.Run("an id that looks like a key is found", func(t *testing.T) {
		odd := storetest.Ref("a", 2)
		odd.ID = string(event.NewKey("derived"))
		w.record(odd, claimed)
		found, err := w.client.Event(t.Context(), odd.ID, "")
		require.NoError(t, err)
		require.Equal(t, odd.Key, found.Event.Key)
		require.Empty(t, found.Messages)
		require.Contains(t, text(t, w.ask(http.MethodGet, "/v1/events/"+odd.ID, "")), `"messages":[]`)
	})
	t.Run("an id with every kind of character is found", func(t *testing.T) {
		for n, id := range []string{"a/b", "a b", "ä?&=#%41", "../x", "<script>", "a//b"} {
			odd := storetest.Ref("a", 100+n)
			odd.ID = id
			w.record(odd, claimed)
			found, err := w.client.Event(t.Context(), id, "")
			require.NoError(t, err, id)
			require.Equal(t, odd.Key, found.Event.Key, id)
		}
	})
	t.Run("of several events with one id the keys are listed to choose from", func(t *testing.T) {
		other := storetest.Ref("b", 1)
		w.record(other, claimed)
		_, err := w.client.Event(t.Context(), ref.ID, "")
		var p *api.ProblemError
		require.ErrorAs(t, err, &p)
		require.Equal(t, http.StatusConflict, p.Status)
		require.Equal(t, "ambiguous", p.Name)
		require.ErrorContains(t, err, fmt.Sprintf("%s  order.type1 of tenant \"a\" from \"shop\"", ref.Key))
		require.ErrorContains(t, err, string(other.Key))
		found, err := w.client.Event(t.Context(), ref.ID, "b")
		require.NoError(t, err)
		require.Equal(t, other.Key, found.Event.Key)
	})
	t.Run("an event that is not there is said to be not there", func(t *testing.T) {
		for _, id := range []string{"nothing", string(event.NewKey("nothing"))} {
			_, err := w.client.Event(t.Context(), id, "")
			var p *api.ProblemError
			require.ErrorAs(t, err, &p)
			require.Equal(t, "not-found", p.Name)
			require.ErrorContains(t, err, "it never came, is not in the ledger yet, is beyond the horizon, or was no event")
		}
		problem(t, w.ask(http.MethodGet, "/v1/events/nothing/history", ""), http.StatusNotFound)
	})
	t.Run("its history holds every record and duplicate in order, over any number of pages", func(t *testing.T) {
		entries, err := w.client.History(t.Context(), ref.Key)
		require.NoError(t, err)
		require.Len(t, entries, 5)
		require.Equal(t, event.Facts{delivered}, entries[2].Facts)
		require.Equal(t, d.ID, entries[4].ID)

		path := "/v1/events/" + url.PathEscape(ref.ID) + "/history?tenant=a&limit=2"
		var part api.History
		var got []store.Entry
		for after := uint64(0); ; after = part.Next {
			part = api.History{}
			body := text(t, w.ask(http.MethodGet, fmt.Sprintf("%s&after=%d", path, after), ""))
			require.NoError(t, json.Unmarshal([]byte(body), &part))
			got = append(got, part.Items...)
			if part.Next == 0 {
				break
			}
		}
		require.Equal(t, entries, got)
	})
}
