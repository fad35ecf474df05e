package api_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/cmd/internal/api"
	"tidings/store/storetest"
	"tidings/streams/event"
)

func TestCounts(t *testing.T) {
	w := newWorld(t)
	hour := storetest.Start.Truncate(time.Hour)
	for n := range 9 {
		ref := storetest.Ref([]string{"a", "b", "a"}[n%3], n)
		ref.ReceivedAt = hour.Add(time.Duration(n) * 20 * time.Minute) // three in an hour
		w.record(ref, claimed, planned, delivered)
		if n > 0 {
			w.record(ref, event.Settled{})
		}
	}
	test := storetest.Ref("a", 100)
	test.Source = event.TestSource
	w.record(test, claimed, planned, delivered, event.Settled{})

	t.Run("in all: by tenant and outcome, without tests, what has not ended last", func(t *testing.T) {
		page, err := w.client.Counts(t.Context(), api.HourQuery{}, api.ByTotal)
		require.NoError(t, err)
		require.Equal(t, []api.Count{
			{Tenant: "a", Outcome: event.Processed, Events: 5}, {Tenant: "a", Events: 1}, {Tenant: "b", Outcome: event.Processed, Events: 3},
		}, page.Items)
		require.Empty(t, page.Next)
	})
	t.Run("of a tenant, an outcome and a time", func(t *testing.T) {
		page, err := w.client.Counts(t.Context(), api.HourQuery{
			Tenant: "a", Outcome: event.Processed, Since: hour.Add(time.Hour), Until: hour.Add(2 * time.Hour),
		}, api.ByTotal)
		require.NoError(t, err)
		require.Equal(t, []api.Count{{Tenant: "a", Outcome: event.Processed, Events: 2}}, page.Items)
	})
	t.Run("by hour, newest first, page by page", func(t *testing.T) {
		var all []api.Count
		for q := (api.HourQuery{Limit: 2}); ; {
			page, err := w.client.Counts(t.Context(), q, api.ByHour)
			require.NoError(t, err)
			require.LessOrEqual(t, len(page.Items), 2)
			all = append(all, page.Items...)
			if q.Cursor = page.Next; q.Cursor == "" {
				break
			}
		}
		require.Len(t, all, 7)
		sum := 0
		for i, c := range all {
			sum += c.Events
			require.True(t, i == 0 || !c.Hour.After(all[i-1].Hour))
		}
		require.Equal(t, 9, sum)
		require.Equal(t, hour.Add(2*time.Hour).UTC(), all[0].Hour)
	})
	t.Run("of nothing are none", func(t *testing.T) {
		require.JSONEq(t, `{"items":[]}`, text(t, w.ask(http.MethodGet, "/v1/counts?tenant=nobody", "")))
		require.JSONEq(t, `{"items":[]}`, text(t, w.ask(http.MethodGet, "/v1/counts?by=hour&tenant=nobody", "")))
		require.JSONEq(t, `{"items":[]}`, text(t, w.ask(http.MethodGet, "/v1/deadletters/causes", "")))
	})
	t.Run("with the cursor of something else are refused", func(t *testing.T) {
		for _, query := range []string{"cursor=abc", "by=hour&cursor=abc"} {
			require.Contains(t, problem(t, w.ask(http.MethodGet, "/v1/counts?"+query, ""), http.StatusBadRequest), "urn:tidings:cursor")
		}
		problem(t, w.ask(http.MethodGet, "/v1/counts?by=minute", ""), http.StatusUnprocessableEntity)
	})
	t.Run("of every outcome can be asked for, and change their ETag", func(t *testing.T) {
		for _, o := range api.Outcomes() {
			require.Equal(t, http.StatusOK, w.ask(http.MethodGet, "/v1/counts?outcome="+string(o), "").StatusCode, o)
		}
		tag := w.ask(http.MethodGet, "/v1/counts", "").Header.Get("ETag")
		require.Equal(t, http.StatusNotModified, w.ask(http.MethodGet, "/v1/counts", "", "If-None-Match", tag).StatusCode)
		w.record(storetest.Ref("b", 200), claimed)
		require.Equal(t, http.StatusOK, w.ask(http.MethodGet, "/v1/counts", "", "If-None-Match", tag).StatusCode)
	})
}

func TestCauses(t *testing.T) {
	w := newWorld(t)
	for n, cause := range []event.Cause{event.CauseUndecodable, event.CauseOversize, event.CauseUndecodable} {
		w.letter(event.Letter{
			Schema: event.Schema, Kind: event.LetterDelivery, Tenant: []string{"a", "a", "b"}[n], Key: event.NewKey(string(cause), string(rune('0'+n))),
			Cause: cause, Stage: event.StageBridge, At: storetest.Start.Add(time.Duration(n) * time.Minute),
		})
	}
	counts, err := w.client.Causes(t.Context(), "")
	require.NoError(t, err)
	got, err := json.Marshal(counts)
	require.NoError(t, err)
	start, later := storetest.Start.UTC().Format(time.RFC3339), func(n int) string {
		return storetest.Start.Add(time.Duration(n) * time.Minute).UTC().Format(time.RFC3339)
	}
	require.JSONEq(t, `{"items":[
		{"cause":"undecodable","dead_letters":2,"oldest":"`+start+`","newest":"`+later(2)+`"},
		{"cause":"oversize","dead_letters":1,"oldest":"`+later(1)+`","newest":"`+later(1)+`"}]}`, string(got))
	counts, err = w.client.Causes(t.Context(), "b")
	require.NoError(t, err)
	require.Len(t, counts.Items, 1)
	require.Equal(t, 1, counts.Items[0].Letters)
}
