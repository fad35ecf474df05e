package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/cmd/internal/api"
	"tidings/store/storetest"
	"tidings/streams/event"
)

func decoded[T any](t *testing.T, res *http.Response) T {
	t.Helper()
	var v T
	body := text(t, res)
	require.NoError(t, json.Unmarshal([]byte(body), &v), body)
	return v
}

func TestWhy(t *testing.T) {
	w := newWorld(t)
	ref := storetest.Ref("a", 1)
	w.record(ref, claimed, event.Planned{Nothing: event.NoRecipient, Routes: []event.RouteDecision{{
		Route: "r", Verdict: "no_recipient", Detail: "recipients (data.to) gave nothing", Needed: "recipients must give an e-mail address: data.to", Missing: []string{"data.to"},
	}}}, event.Settled{})
	t.Run("an event without messages says what would have been needed", func(t *testing.T) {
		story := decoded[api.Story](t, w.ask(http.MethodGet, "/v1/events/"+ref.ID+"/why", ""))
		require.Contains(t, story.Title, "no_recipient")
		require.Equal(t, "received", story.Lines[0].What)
		require.Equal(t, []string{`route "r": recipients must give an e-mail address: data.to; the event has no data.to`}, story.Lines[2].Needed)
		require.Zero(t, story.Next)
	})
	t.Run("a later part goes on, and knows the messages", func(t *testing.T) {
		sent := storetest.Ref("a", 2)
		w.record(sent, claimed, planned, delivered, event.Settled{})
		path := "/v1/events/" + string(sent.Key) + "/why?limit=2"
		first := decoded[api.Story](t, w.ask(http.MethodGet, path, ""))
		require.NotZero(t, first.Next)
		rest := decoded[api.Story](t, w.ask(http.MethodGet, fmt.Sprint(path, "&after=", first.Next), ""))
		require.Equal(t, "tried", rest.Lines[0].What)
		require.Contains(t, rest.Lines[0].Text, "mail to a…@example.com: delivered (smtp_250)")
	})
	t.Run("of an event that is not there is a problem", func(t *testing.T) {
		problem(t, w.ask(http.MethodGet, "/v1/events/nothing/why", ""), http.StatusNotFound)
		problem(t, w.ask(http.MethodGet, "/v1/events/nothing/messages", ""), http.StatusNotFound)
	})
}

func TestMessagesAndTheirTries(t *testing.T) {
	w := newWorld(t)
	ref := storetest.Ref("a", 1)
	second := message
	second.ID = "m2"
	failed := event.Tried{Message: "m1", Try: 1, Started: storetest.Start, Ended: storetest.Start.Add(time.Second), Result: event.TryTransient, Code: "smtp_451"}
	again := delivered
	again.Try = 2
	w.record(ref, claimed, event.Planned{Messages: []event.PlannedMessage{message, second}}, failed, again)

	t.Run("every call is there, with result and times, in order", func(t *testing.T) {
		page, err := w.client.Tries(t.Context(), ref.Key, "")
		require.NoError(t, err)
		require.Len(t, page.Items, 2)
		require.Equal(t, event.MessageDelivered, page.Items[0].State)
		require.Equal(t, []event.Tried{failed, again}, page.Items[0].Tried)
		require.Equal(t, event.MessagePending, page.Items[1].State)
	})
	t.Run("page by page, and what was not tried has none", func(t *testing.T) {
		path := "/v1/events/" + ref.ID + "/messages?limit=1"
		page := decoded[api.MessagePage](t, w.ask(http.MethodGet, path, ""))
		require.Equal(t, "m1", page.Items[0].ID)
		require.Contains(t, text(t, w.ask(http.MethodGet, path+"&cursor="+page.Next, "")), `"tried":[]`)
		page = decoded[api.MessagePage](t, w.ask(http.MethodGet, path+"&cursor="+page.Next, ""))
		require.Equal(t, "m2", page.Items[0].ID)
		require.Empty(t, page.Next)
		problem(t, w.ask(http.MethodGet, path+"&cursor=m3", ""), http.StatusBadRequest)
	})
	t.Run("none before it is planned", func(t *testing.T) {
		early := storetest.Ref("a", 2)
		w.record(early, claimed)
		require.JSONEq(t, `{"items":[]}`, text(t, w.ask(http.MethodGet, "/v1/events/"+early.ID+"/messages", "")))
	})
}
