package api_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"tidings/cmd/internal/api"
	"tidings/dispatcher"
	"tidings/dispatcher/letters"
	"tidings/dispatcher/plan"
	"tidings/store"
	"tidings/store/storetest"
	"tidings/streams"
	"tidings/streams/event"
)

// newDesk returns a world with a desk.
func newDesk(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	desk := letters.New(letters.Options{
		Outcomes: w.stream.Outcomes, Letters: w.stream.DeadLetters, Events: w.stream.Events, Waker: w.stream.Retries,
		Planner: planner(func(event.Envelope) (plan.Plan, error) {
			return plan.Plan{Fact: planned, Messages: []plan.Message{{PlannedMessage: message}}}, nil
		}),
		Suppressions: dispatcher.SuppressionList(nil),
	})
	w.options.Desk = func() *letters.Desk { return desk }
	w.serve()
	w.client.Operator = "ann"
	return w
}

// planner plans what the test wants.
type planner func(event.Envelope) (plan.Plan, error)

func (p planner) Plan(_ event.Key, e event.Envelope) (plan.Plan, error) { return p(e) }

// dead makes a dead letter of an event, in log and ledger, and returns the letter's ETag.
func (w *world) dead(ref event.Ref) (etag string) {
	w.t.Helper()
	var state event.State
	var at uint64
	append := func(facts ...event.Fact) {
		r := event.NewRecord(ref, state, storetest.Start, facts...)
		p, err := w.stream.Outcomes.Append(w.t.Context(), r, at)
		require.NoError(w.t, err)
		state, at = r.State, p.Sequence
		require.NoError(w.t, w.ledger.Update(func(tx *store.Tx) error { return tx.Record(store.Place{Sequence: at, Time: storetest.Start}, r) }))
	}
	append(claimed)
	append(planned, event.Tried{Message: "m1", Try: 1, Result: event.TryTransient, Started: storetest.Start, Ended: storetest.Start},
		event.GaveUp{Message: "m1", Reason: "rounds_exhausted"}, claimed)
	before := state
	w.letter(event.Letter{
		Schema: event.Schema, Kind: event.LetterEvent, Key: ref.Key, Tenant: ref.Tenant, Cause: event.CauseRoundsExhausted,
		Stage: event.StageDispatcher, At: storetest.Start, Event: &ref, State: &before, Data: []byte(`{"n":1}`),
		Envelope: &event.Envelope{Tenant: ref.Tenant, ID: ref.ID, Type: ref.Type, ContentType: "application/json"},
	})
	append(event.Dead{Cause: event.CauseRoundsExhausted})
	res := w.ask(http.MethodGet, "/v1/deadletters/"+string(ref.Key), "")
	require.Equal(w.t, http.StatusOK, res.StatusCode)
	return res.Header.Get("ETag")
}

func TestRequeueOfADeadLetter(t *testing.T) {
	w := newDesk(t)
	ref := storetest.Ref("a", 1)
	tag := w.dead(ref)
	path := "/v1/deadletters/" + string(ref.Key) + "/requeue"
	t.Run("needs a name", func(t *testing.T) {
		require.Contains(t, problem(t, w.ask(http.MethodPost, path, `{}`, "Content-Type", "application/json"), http.StatusBadRequest),
			"name the operator (header Tidings-Operator)")
	})
	t.Run("of another letter than the one that was looked at fails", func(t *testing.T) {
		require.Contains(t, problem(t, w.ask(http.MethodPost, path, `{}`, "Tidings-Operator", "ann", "If-Match", `"99"`), http.StatusPreconditionFailed),
			"it is another letter than the one that was looked at")
		problem(t, w.ask(http.MethodPost, path, `{}`, "Tidings-Operator", "ann", "If-Match", `"x"`), http.StatusBadRequest)
	})
	t.Run("is done once, and the second is told by whom", func(t *testing.T) {
		res := w.ask(http.MethodPost, path, `{"reason":"it is back"}`, "Tidings-Operator", "ann", "If-Match", tag)
		require.Equal(t, http.StatusOK, res.StatusCode)
		var done api.Requeued
		require.NoError(t, json.Unmarshal([]byte(text(t, res)), &done))
		require.Equal(t, ref.Key, done.Event.Key)
		require.Equal(t, 1, done.Generation)
		last, err := w.stream.Outcomes.Last(t.Context(), "a", ref.Key)
		require.NoError(t, err)
		require.Equal(t, event.Facts{event.Requeued{Generation: 1, Operator: "ann", Reason: "it is back"}}, last.Record.Facts)

		body := problem(t, w.ask(http.MethodPost, path, `{}`, "Tidings-Operator", "bob", "If-Match", tag), http.StatusConflict)
		require.Contains(t, body, "urn:tidings:conflict")
		var told struct {
			Errors []struct {
				Location string       `json:"location"`
				Value    letters.Deed `json:"value"`
			} `json:"errors"`
		}
		require.NoError(t, json.Unmarshal([]byte(body), &told))
		require.Equal(t, "ann", told.Errors[0].Value.Operator)
		require.Equal(t, 1, told.Errors[0].Value.Generation)
		_, err = w.client.Requeue(t.Context(), ref.Key, "")
		require.ErrorContains(t, err, "ann requeued it as generation 1 at ")
		require.ErrorContains(t, err, "(it is back); it is about to be taken in hand")
	})
	t.Run("that is nowhere is not found", func(t *testing.T) {
		problem(t, w.ask(http.MethodPost, "/v1/deadletters/"+string(event.NewKey("x"))+"/requeue", `{}`, "Tidings-Operator", "ann"), http.StatusNotFound)
	})
	t.Run("before the log is open has to wait", func(t *testing.T) {
		w.options.Desk = nil
		w.serve()
		res := w.ask(http.MethodPost, path, `{}`, "Tidings-Operator", "ann")
		problem(t, res, http.StatusServiceUnavailable)
		require.NotEmpty(t, res.Header.Get("Retry-After"))
	})
}

func TestTheListSaysWhatIsHappeningAboutALetter(t *testing.T) {
	w := newDesk(t)
	ref := storetest.Ref("a", 1)
	w.dead(ref)
	list := func() []api.LetterLine {
		page, err := w.client.DeadLetters(t.Context(), store.LetterQuery{})
		require.NoError(t, err)
		return page.Items
	}
	then := func(facts ...event.Fact) {
		last, err := w.stream.Outcomes.Last(t.Context(), "a", ref.Key)
		require.NoError(t, err)
		r := event.NewRecord(ref, last.Record.State, storetest.Start, facts...)
		p, err := w.stream.Outcomes.Append(t.Context(), r, last.Sequence)
		require.NoError(t, err)
		require.NoError(t, w.ledger.Update(func(tx *store.Tx) error {
			return tx.Record(store.Place{Sequence: p.Sequence, Time: storetest.Start}, r)
		}))
	}
	require.Equal(t, api.LetterDead, list()[0].Status)
	then(event.Requeued{Generation: 1, Operator: "ann"})
	require.Equal(t, api.LetterRequeued, list()[0].Status)
	require.Equal(t, event.PhaseOpen, list()[0].Phase)
	then(event.Claimed{Generation: 1, LeaseMS: 1})
	require.Equal(t, event.PhaseClaimed, list()[0].Phase)
	then(event.Settled{})
	require.Empty(t, list(), "nothing is to be done about it any more, whether it is removed yet or not")
}

func data(d []byte) api.Change { return api.Change{Data: &d} }

func TestEditOfADeadLetter(t *testing.T) {
	w := newDesk(t)
	ref := storetest.Ref("a", 1)
	ref.Digest = event.Digest([]byte(`{"n":1}`))
	tag := w.dead(ref)
	path := "/v1/deadletters/" + string(ref.Key) + "/edit"
	t.Run("wants to know which letter was edited", func(t *testing.T) {
		problem(t, w.ask(http.MethodPost, path, `{"data_base64":"e30="}`, "Tidings-Operator", "ann"), http.StatusPreconditionRequired)
	})
	t.Run("is previewed, as is a requeue without an edit", func(t *testing.T) {
		for _, change := range []api.Change{{}, data([]byte(`{"n":2}`))} {
			p, err := w.client.Preview(t.Context(), ref.Key, tag, change)
			require.NoError(t, err)
			require.Equal(t, 1, p.Sends())
			require.Equal(t, "m1", p.Messages[0].ID)
		}
	})
	t.Run("of what is no JSON is refused, and so is an empty one", func(t *testing.T) {
		for _, text := range []string{"{", ""} {
			_, err := w.client.Edit(t.Context(), ref.Key, tag, "", data([]byte(text)))
			require.ErrorContains(t, err, "it is no JSON")
			_, err = w.client.Preview(t.Context(), ref.Key, tag, data([]byte(text)))
			require.ErrorContains(t, err, "it is no JSON")
		}
		problem(t, w.ask(http.MethodPost, path, `{}`, "Tidings-Operator", "ann", "If-Match", tag), http.StatusUnprocessableEntity)
	})
	t.Run("of eight megabytes is taken", func(t *testing.T) {
		large := append([]byte(`{"n":2}`), bytes.Repeat([]byte(" "), 8<<20-7)...)
		done, err := w.client.Edit(t.Context(), ref.Key, tag, "the total was wrong", data(large))
		require.NoError(t, err)
		require.Equal(t, 1, done.Generation)
		letter, _, err := w.stream.DeadLetters.Get(t.Context(), "a", ref.Key)
		require.NoError(t, err)
		require.True(t, bytes.Equal(large, letter.Edit.Data))
	})
	t.Run("of a letter that somebody else has edited fails", func(t *testing.T) {
		_, err := w.client.Edit(t.Context(), ref.Key, tag, "", data([]byte(`{"n":3}`)))
		require.ErrorContains(t, err, "it is another letter than the one that was looked at; ann requeued it as generation 1")
		refused(t, err, http.StatusPreconditionFailed, "changed")
	})
}

func TestDiscardOfADeadLetter(t *testing.T) {
	w := newDesk(t)
	ref := storetest.Ref("a", 1)
	tag := w.dead(ref)
	path := "/v1/deadletters/" + string(ref.Key) + "/discard"
	t.Run("wants to know which letter was looked at", func(t *testing.T) {
		require.Contains(t, problem(t, w.ask(http.MethodPost, path, `{"reason":"a test"}`, "Tidings-Operator", "ann"), http.StatusPreconditionRequired),
			"If-Match")
	})
	t.Run("wants a reason", func(t *testing.T) {
		problem(t, w.ask(http.MethodPost, path, `{}`, "Tidings-Operator", "ann", "If-Match", tag), http.StatusUnprocessableEntity)
		problem(t, w.ask(http.MethodPost, path, `{"reason":" "}`, "Tidings-Operator", "ann", "If-Match", tag), http.StatusBadRequest)
	})
	t.Run("of another letter fails", func(t *testing.T) {
		_, err := w.client.Discard(t.Context(), ref.Key, `"99"`, "a test")
		refused(t, err, http.StatusPreconditionFailed, "changed")
		require.ErrorContains(t, err, "it is another letter than the one that was looked at")
	})
	t.Run("removes it, and a second finds it gone", func(t *testing.T) {
		done, err := w.client.Discard(t.Context(), ref.Key, tag, "a test")
		require.NoError(t, err)
		require.Equal(t, ref.Key, done.Key)
		_, err = w.client.Discard(t.Context(), ref.Key, tag, "a test")
		require.ErrorContains(t, err, "it was dealt with")
		problem(t, w.ask(http.MethodGet, "/v1/deadletters/"+string(ref.Key), ""), http.StatusNotFound)
	})
}

func TestRetryOfAMessage(t *testing.T) {
	w := newDesk(t)
	ref := storetest.Ref("a", 1)
	stored, err := w.stream.Events.Publish(t.Context(), streams.Incoming{Envelope: event.Envelope{
		Tenant: ref.Tenant, Source: ref.Source, ID: ref.ID, IDSource: ref.IDSource, Type: ref.Type, Data: []byte(`{"n":1}`),
	}})
	require.NoError(t, err)
	ref.Key, ref.Sequence = stored.Key, stored.Sequence
	w.dead(ref)
	path := "/v1/events/" + string(ref.Key) + "/messages/"
	t.Run("wants a reason, and a message that there is", func(t *testing.T) {
		problem(t, w.ask(http.MethodPost, path+"m1/retry", `{}`, "Tidings-Operator", "ann"), http.StatusUnprocessableEntity)
		require.Contains(t, problem(t, w.ask(http.MethodPost, path+"m2/retry", `{"reason":"x"}`, "Tidings-Operator", "ann"), http.StatusNotFound),
			"the event has no such message")
	})
	t.Run("is recorded for that message alone, and for an event named by its id", func(t *testing.T) {
		res := w.ask(http.MethodPost, "/v1/events/"+ref.ID+"/messages/m1/retry", `{"reason":"the mailbox is back"}`, "Tidings-Operator", "ann")
		require.Equal(t, http.StatusOK, res.StatusCode, text(t, res))
		last, err := w.stream.Outcomes.Last(t.Context(), "a", ref.Key)
		require.NoError(t, err)
		require.Equal(t, event.Facts{event.Requeued{
			Generation: 1, Operator: "ann", Reason: "the mailbox is back", Messages: []string{"m1"},
		}}, last.Record.Facts)
	})
	t.Run("of an uncertain one says that it may be a repeat", func(t *testing.T) {
		last, err := w.stream.Outcomes.Last(t.Context(), "a", ref.Key)
		require.NoError(t, err)
		r := event.NewRecord(ref, last.Record.State, storetest.Start, event.Tried{Message: "m1", Try: 1, Result: event.TryUnknown},
			event.GaveUp{Message: "m1", Reason: "held"}, event.Dead{Cause: event.CauseUncertain})
		_, err = w.stream.Outcomes.Append(t.Context(), r, last.Sequence)
		require.NoError(t, err)
		_, err = w.client.RetryMessage(t.Context(), ref.Key, "m1", "not in their mailbox", false)
		var may *api.ProblemError
		require.ErrorAs(t, err, &may)
		require.Equal(t, "may-repeat", may.Name)
		done, err := w.client.RetryMessage(t.Context(), ref.Key, "m1", "not in their mailbox", true)
		require.NoError(t, err)
		require.Equal(t, 2, done.Generation)
	})
}

func refused(t *testing.T, err error, status int, name string) {
	t.Helper()
	var p *api.ProblemError
	require.ErrorAs(t, err, &p)
	require.Equal(t, status, p.Status)
	require.Equal(t, name, p.Name)
}
