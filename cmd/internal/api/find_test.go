package api_test

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"tidings/cmd/internal/api"
	"tidings/dispatcher/plan"
	"tidings/store"
	"tidings/store/storetest"
	"tidings/streams/event"
)

func TestEventsAreFound(t *testing.T) {
	w := newTrial(t)
	rules := w.options.Planner.(*plan.Planner)
	told := func(n int, source, correlation string, addresses ...string) event.Ref {
		ref := storetest.Ref("a", n)
		ref.Source, ref.CorrelationID = source, correlation
		var p event.Planned
		for i, address := range addresses {
			p.Messages = append(p.Messages, event.PlannedMessage{
				ID: fmt.Sprint("m", i), Route: "r", Channel: "mail", OnUnknown: event.Hold, Recipient: rules.Recipient(address),
			})
		}
		w.record(ref, claimed, p)
		return ref
	}
	told(1, "checkout", "c-1", "ann@example.com", "https://partner.example/Hook")
	told(2, "checkout", "c-2", "bob@example.com")
	told(3, "warehouse", "c-1", "ann@example.com")
	list := func(q api.EventQuery) []string {
		page, err := w.client.Events(t.Context(), q)
		require.NoError(t, err)
		ids := []string{}
		for _, r := range page.Items {
			ids = append(ids, r.EventID)
		}
		return ids
	}
	t.Run("by source, correlation id and text", func(t *testing.T) {
		require.Equal(t, []string{"order-2", "order-1"}, list(api.EventQuery{Query: store.Query{Source: "checkout"}}))
		require.Equal(t, []string{"order-3", "order-1"}, list(api.EventQuery{Query: store.Query{CorrelationID: "c-1"}}))
		require.Equal(t, []string{"order-1"}, list(api.EventQuery{Query: store.Query{CorrelationID: "c-1", Source: "checkout"}}))
		require.Equal(t, []string{"order-3"}, list(api.EventQuery{Query: store.Query{Text: "WAREHOUSE"}}))
	})
	t.Run("by the address of a recipient, however it is written", func(t *testing.T) {
		for _, address := range []string{"ann@example.com", " ANN@example.com ", `"Ann, of sales" <ann@example.com>`} {
			require.Equal(t, []string{"order-3", "order-1"}, list(api.EventQuery{Address: address}), address)
		}
		require.Equal(t, []string{"order-1"}, list(api.EventQuery{Address: "https://partner.example/Hook"}))
		require.Empty(t, list(api.EventQuery{Address: "https://partner.example/hook"}), "paths differ in case")
		require.Empty(t, list(api.EventQuery{Address: "nobody@example.com"}))
		require.Empty(t, list(api.EventQuery{Address: "ann@example.com", Query: store.Query{Source: "elsewhere"}}))
	})
	t.Run("the address is in no URL, no cursor and no error", func(t *testing.T) {
		page, err := w.client.Events(t.Context(), api.EventQuery{Address: "ann@example.com", Query: store.Query{Limit: 1}})
		require.NoError(t, err)
		require.NotEmpty(t, page.Next)
		body := problem(t, w.ask(http.MethodGet, "/v1/events?cursor="+url.QueryEscape(page.Next), "", api.RecipientHeader, "bob@example.com"), http.StatusBadRequest)
		require.NotContains(t, body, "bob@")
		next, err := w.client.Events(t.Context(), api.EventQuery{Address: "Ann@example.com", Query: store.Query{Limit: 1, Cursor: page.Next}})
		require.NoError(t, err)
		require.Equal(t, "order-1", next.Items[0].EventID)
		problem(t, w.ask(http.MethodGet, "/v1/events?recipient=ann@example.com", ""), http.StatusUnprocessableEntity)
	})
	t.Run("not by an address where nobody can hash it", func(t *testing.T) {
		w := newWorld(t)
		problem(t, w.ask(http.MethodGet, "/v1/events", "", api.RecipientHeader, "ann@example.com"), http.StatusServiceUnavailable)
	})
}
