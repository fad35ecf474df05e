package letters_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"tidings/dispatcher/letters"
	"tidings/streams"
	"tidings/streams/event"
)

// urls is the payload of an event that is sent to paths of the sink.
func (r *rig) urls(paths ...string) []byte {
	urls := make([]string, len(paths))
	for i, p := range paths {
		urls[i] = r.sink.URL(p)
	}
	data, err := json.Marshal(map[string]any{"urls": urls})
	require.NoError(r, err)
	return data
}

func TestEdit(t *testing.T) {
	t.Run("sends the edited payload under new idempotency keys, and not what was delivered", func(t *testing.T) {
		r := newRig(t)
		key := r.dead("1", "/ok", "/flaky")
		r.dispatch()
		done, err := r.desk.Edit(t.Context(), r.target(key), ann, letters.Change{Data: r.urls("/ok", "/ok/elsewhere")})
		require.NoError(t, err)
		require.Equal(t, 1, done.Generation)
		s := r.reaches(key, 1, event.PhaseSettled)
		require.Len(t, s.Messages, 2)
		require.Len(t, r.calls("/ok"), 1, "it was delivered before")
		require.Equal(t, []string{s.Messages[1].ID + ".g1"}, r.calls("/ok/elsewhere"))
		require.Len(t, r.calls("/flaky"), 3, "it is not in the plan any more")
		r.noLetter(key)
	})
	t.Run("a message that is planned again has a new key, since receivers drop what they have seen", func(t *testing.T) {
		r := newRig(t)
		key := r.dead("1", "/flaky")
		r.down.Store(false)
		r.dispatch()
		before := r.calls("/flaky")[0]
		_, err := r.desk.Edit(t.Context(), r.target(key), ann, letters.Change{Data: append(r.urls("/flaky"), ' ')})
		require.NoError(t, err)
		r.reaches(key, 1, event.PhaseSettled)
		require.Equal(t, before+".g1", r.calls("/flaky")[3])
	})
	t.Run("a second edit after a failed first works, and the letter has the payload that failed", func(t *testing.T) {
		r := newRig(t)
		key := r.dead("1", "/flaky")
		r.dispatch()
		first := append(r.urls("/flaky"), ' ')
		_, err := r.desk.Edit(t.Context(), r.target(key), ann, letters.Change{Data: first})
		require.NoError(t, err)
		r.reaches(key, 1, event.PhaseDead)
		letter, _, err := r.log.DeadLetters.Get(t.Context(), "acme", key)
		require.NoError(t, err)
		require.Equal(t, first, letter.Data)
		require.Nil(t, letter.Edit)

		_, err = r.desk.Edit(t.Context(), r.target(key), ann, letters.Change{Data: r.urls("/ok/elsewhere")})
		require.NoError(t, err)
		s := r.reaches(key, 2, event.PhaseSettled)
		require.Equal(t, event.Processed, s.Outcome)
		require.Equal(t, []string{s.Messages[0].ID + ".g2"}, r.calls("/ok/elsewhere"))
	})
	t.Run("a requeue after a failed edit sends the edited payload again", func(t *testing.T) {
		r := newRig(t)
		key := r.dead("1", "/flaky")
		r.dispatch()
		edited := append(r.urls("/flaky"), ' ')
		_, err := r.desk.Edit(t.Context(), r.target(key), ann, letters.Change{Data: edited})
		require.NoError(t, err)
		s := r.reaches(key, 1, event.PhaseDead)
		r.down.Store(false)
		_, err = r.desk.Requeue(t.Context(), r.target(key), ann)
		require.NoError(t, err)
		r.reaches(key, 2, event.PhaseSettled)
		calls := r.calls("/flaky")
		require.Equal(t, s.Messages[0].ID+".g1", calls[len(calls)-1])
	})
	t.Run("works where EVENTS was trimmed", func(t *testing.T) {
		r := newRig(t)
		key := r.dead("1", "/flaky")
		require.NoError(t, r.log.Events.Trim(t.Context(), 2))
		r.dispatch()
		_, err := r.desk.Edit(t.Context(), r.target(key), ann, letters.Change{Data: r.urls("/ok/elsewhere")})
		require.NoError(t, err)
		require.Equal(t, event.Processed, r.reaches(key, 1, event.PhaseSettled).Outcome)
	})
	t.Run("is refused for a payload that cannot be meant", func(t *testing.T) {
		r := newRig(t)
		key := r.dead("1", "/flaky")
		for name, data := range map[string][]byte{
			"it is no JSON": []byte(`{"urls":[`),
			"it is the one that the event has already":    r.urls("/flaky"),
			"it has 8388609 bytes, at most are 8 MiB":     make([]byte, streams.MaxData+1),
			"it is no JSON: unexpected end of JSON input": {},
		} {
			_, err := r.desk.Edit(t.Context(), r.target(key), ann, letters.Change{Data: data})
			require.ErrorIs(t, err, letters.ErrPayload)
			require.ErrorContains(t, err, name)
		}
		require.Equal(t, 0, r.reaches(key, 0, event.PhaseDead).Generation)
	})
	t.Run("a draft that never came to count changes nothing", func(t *testing.T) {
		r := newRig(t)
		key := r.dead("1", "/flaky")
		o := r.options(r.log.DeadLetters)
		o.Outcomes = brokenOutcomes{r.log.Outcomes}
		_, err := letters.New(o).Edit(t.Context(), r.target(key), ann, letters.Change{Data: r.urls("/ok/elsewhere")})
		require.ErrorIs(t, err, errBroken, "as if the process had died here")
		letter, _, err := r.log.DeadLetters.Get(t.Context(), "acme", key)
		require.NoError(t, err)
		require.NotNil(t, letter.Edit)
		r.down.Store(false)
		r.dispatch()
		_, err = r.desk.Requeue(t.Context(), r.target(key), ann)
		require.NoError(t, err)
		r.reaches(key, 1, event.PhaseSettled)
		require.Len(t, r.calls("/flaky"), 4)
		require.Empty(t, r.calls("/ok/elsewhere"))
	})
}

func TestWhatAFullLogRefusedLeavesTheLetterAsItWas(t *testing.T) {
	r := newRig(t)
	key, delivery := r.dead("1", "/flaky"), r.delivery(`{"id":"1"}`)
	o := r.options(r.log.DeadLetters)
	o.Outcomes = fullOutcomes{r.log.Outcomes}
	full := letters.New(o)
	for range 6 { // more than there may be drafts
		_, err := full.Edit(t.Context(), r.target(key), ann, letters.Change{Data: r.urls("/ok/elsewhere")})
		require.ErrorIs(t, err, streams.ErrFull)
		_, err = full.Discard(t.Context(), r.target(delivery.Key), letters.Word{Operator: "bob", Reason: "noise"})
		require.ErrorIs(t, err, streams.ErrFull)
	}
	letter, _, err := r.log.DeadLetters.Get(t.Context(), "acme", key)
	require.NoError(t, err)
	require.Nil(t, letter.Edit)
	require.Empty(t, letter.Drafts)
	_, err = r.desk.Edit(t.Context(), r.target(key), ann, letters.Change{Data: r.urls("/ok/elsewhere")})
	require.NoError(t, err, "when there is room again")
	_, err = r.desk.Discard(t.Context(), r.target(delivery.Key), letters.Word{Operator: "bob", Reason: "noise"})
	require.NoError(t, err)
}

// fullOutcomes has no room.
type fullOutcomes struct{ letters.Outcomes }

func (fullOutcomes) AppendOperation(context.Context, event.Operation) (uint64, error) {
	return 0, streams.ErrFull
}

func (fullOutcomes) Append(context.Context, event.Record, uint64) (streams.Position, error) {
	return streams.Position{}, streams.ErrFull
}

var errBroken = errors.New("broken")

// brokenOutcomes takes no records.
type brokenOutcomes struct{ letters.Outcomes }

func (brokenOutcomes) AppendOperation(context.Context, event.Operation) (uint64, error) {
	return 0, errBroken
}

func (brokenOutcomes) Append(context.Context, event.Record, uint64) (streams.Position, error) {
	return streams.Position{}, errBroken
}

// Two edits begin with the same letter, and the second one's draft takes the place
// of the first one's after the history has said that the first one counts.
func TestOfTwoEditorsAtOnceOneWinsAndItsPayloadIsSent(t *testing.T) {
	r := newRig(t)
	key := r.dead("1", "/flaky")
	bobLooked, annDrafted, annDone := make(chan struct{}), make(chan struct{}), make(chan struct{})
	annDesk := letters.New(r.options(hooked{DeadLetters: r.log.DeadLetters, after: func() {
		close(annDrafted)
		<-bobLooked
	}}))
	bobDesk := letters.New(r.options(hooked{DeadLetters: r.log.DeadLetters, before: func() {
		close(bobLooked)
		<-annDone
	}}))
	seen := r.target(key)
	annErr, bobErr := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := annDesk.Edit(t.Context(), seen, ann, letters.Change{Data: r.urls("/ok/anns")})
		close(annDone)
		annErr <- err
	}()
	go func() {
		<-annDrafted
		_, err := bobDesk.Edit(t.Context(), r.target(key), letters.Word{Operator: "bob"}, letters.Change{Data: r.urls("/ok/bobs")})
		bobErr <- err
	}()
	require.NoError(t, <-annErr)
	require.ErrorContains(t, <-bobErr, "ann@desk requeued it as generation 1")
	r.dispatch()
	require.Equal(t, event.Processed, r.reaches(key, 1, event.PhaseSettled).Outcome)
	require.Len(t, r.calls("/ok/anns"), 1)
	require.Empty(t, r.calls("/ok/bobs"))
}

// hooked does something before or after a letter is replaced.
type hooked struct {
	*streams.DeadLetters
	before, after func()
}

func (h hooked) Replace(ctx context.Context, l event.Letter, at uint64) (uint64, error) {
	if h.before != nil {
		h.before()
	}
	sequence, err := h.DeadLetters.Replace(ctx, l, at)
	if h.after != nil {
		h.after()
	}
	return sequence, err
}

func TestPreview(t *testing.T) {
	t.Run("says of each message what a requeue would do", func(t *testing.T) {
		r := newRig(t)
		key := r.dead("1", "/ok", "/flaky")
		p, err := r.desk.Preview(t.Context(), r.target(key), letters.Change{})
		require.NoError(t, err)
		require.Equal(t, 1, p.Sends())
		require.Equal(t, letters.WouldStay, p.Messages[0].Would)
		require.Equal(t, event.MessageDelivered, p.Messages[0].Was)
		require.Equal(t, letters.WouldSend, p.Messages[1].Would)
		require.Equal(t, event.MessageFailed, p.Messages[1].Was)
		require.Equal(t, 0, r.reaches(key, 0, event.PhaseDead).Generation, "nothing was done")
	})
	t.Run("of an edited payload plans anew, and says who gets nothing now", func(t *testing.T) {
		r := newRig(t)
		stop := r.dispatch()
		key := r.publish("1", "mail.sent", map[string]any{"to": []string{"a@example.com"}, "name": "Ann"})
		r.reaches(key, 0, event.PhaseDead)
		stop()
		p, err := r.desk.Preview(t.Context(), r.target(key), letters.Change{Data: []byte(`{"to":["b@example.com","zoe@example.com"],"name":"Bob"}`)})
		require.NoError(t, err)
		require.Len(t, p.Messages, 2)
		require.Equal(t, "About Bob", p.Messages[0].Subject)
		require.Equal(t, letters.WouldSend, p.Messages[0].Would)
		require.Equal(t, letters.WouldSuppress, p.Messages[1].Would)
		require.Equal(t, "unsubscribed", p.Messages[1].Why)
	})
	t.Run("says why there would be none", func(t *testing.T) {
		r := newRig(t)
		stop := r.dispatch()
		key := r.publish("1", "mail.sent", map[string]any{"to": []string{"a@example.com"}, "name": "Ann"})
		r.reaches(key, 0, event.PhaseDead)
		stop()
		p, err := r.desk.Preview(t.Context(), r.target(key), letters.Change{Data: []byte(`{"to":[],"name":"Bob"}`)})
		require.NoError(t, err)
		require.Equal(t, event.NoRecipient, p.Nothing)
		require.Equal(t, "no_recipient", p.Routes[0].Verdict)
		p, err = r.desk.Preview(t.Context(), r.target(key), letters.Change{Data: []byte(`{"to":["b@example.com"]}`)})
		require.NoError(t, err)
		require.Contains(t, p.Problem, "template_error: ")
	})
	t.Run("is refused where the requeue would be", func(t *testing.T) {
		r := newRig(t)
		key := r.dead("1", "/flaky")
		_, err := r.desk.Requeue(t.Context(), r.target(key), ann)
		require.NoError(t, err)
		_, err = r.desk.Preview(t.Context(), r.target(key), letters.Change{})
		require.ErrorContains(t, err, "ann@desk requeued it")
	})
}
