package letters_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/dispatcher/channel"
	"tidings/dispatcher/letters"
	"tidings/streams"
	"tidings/streams/event"
)

// ended returns the key and the state of an event that has ended, and that nobody
// is working on.
func (r *rig) ended(phase event.Phase, id string, paths ...string) (event.Key, event.State) {
	r.Helper()
	stop := r.dispatch()
	defer stop()
	key := r.order(id, paths...)
	return key, r.reaches(key, 0, phase)
}

func message(key event.Key, s event.State, i int) letters.Message {
	return letters.Message{Tenant: "acme", Key: key, ID: s.Messages[i].ID}
}

func TestRetry(t *testing.T) {
	t.Run("tries one message of a dead letter, and the others stay as they ended", func(t *testing.T) {
		r := newRig(t)
		r.down.Store(true)
		key, s := r.ended(event.PhaseDead, "1", "/ok", "/flaky", "/flaky?2")
		r.down.Store(false)
		r.dispatch()
		done, err := r.desk.Retry(t.Context(), message(key, s, 1), ann, false)
		require.NoError(t, err)
		require.Equal(t, 1, done.Generation)
		after := r.reaches(key, 1, event.PhaseDead)
		require.Equal(t, event.MessageDelivered, after.Messages[1].State)
		require.Equal(t, event.MessageFailed, after.Messages[2].State, "so it is a dead letter still")
		require.Equal(t, s.Messages[2].Tries, after.Messages[2].Tries)
		_, err = r.desk.Retry(t.Context(), message(key, s, 2), ann, false)
		require.NoError(t, err)
		r.reaches(key, 2, event.PhaseSettled)
		r.noLetter(key)
		require.Len(t, r.calls("/ok"), 1)
	})
	t.Run("tries a message that was refused for good, of an event that settled", func(t *testing.T) {
		r := newRig(t)
		key, s := r.ended(event.PhaseSettled, "1", "/ok", "/status/410")
		require.Equal(t, "permanent", s.Messages[1].Reason)
		r.dispatch()
		_, err := r.desk.Retry(t.Context(), message(key, s, 1), ann, false)
		require.NoError(t, err)
		after := r.reaches(key, 1, event.PhaseSettled)
		require.Equal(t, s.Messages[1].Tries+1, after.Messages[1].Tries)
		require.Len(t, r.calls("/ok"), 1)
		last, err := r.log.Outcomes.Last(t.Context(), "acme", key)
		require.NoError(t, err)
		require.Equal(t, event.Processed, last.Record.State.Outcome)
	})
	t.Run("of an uncertain one wants to hear that it may come twice", func(t *testing.T) {
		r := newRig(t)
		stop := r.dispatch()
		key := r.publish("1", "mail.sent", map[string]any{"to": []string{"a@example.com"}, "name": "Ann"})
		s := r.reaches(key, 0, event.PhaseDead)
		stop()
		_, err := r.desk.Retry(t.Context(), message(key, s, 0), ann, false)
		require.ErrorIs(t, err, letters.ErrMayRepeat)
		_, err = r.desk.Retry(t.Context(), message(key, s, 0), ann, true)
		require.NoError(t, err)
		require.Equal(t, 1, r.reaches(key, 1, event.PhaseOpen).Generation)
	})
	t.Run("is refused where there is nothing to try", func(t *testing.T) {
		r := newRig(t)
		r.down.Store(true)
		key, s := r.ended(event.PhaseDead, "1", "/ok", "/flaky")
		_, err := r.desk.Retry(t.Context(), message(key, s, 0), ann, true)
		require.ErrorContains(t, err, "the message was delivered; it is a dead letter (rounds_exhausted) of generation 0")
		_, err = r.desk.Retry(t.Context(), letters.Message{Tenant: "acme", Key: key, ID: "nobody"}, ann, true)
		require.ErrorIs(t, err, letters.ErrNoMessage)
		_, err = r.desk.Retry(t.Context(), letters.Message{Tenant: "acme", Key: event.NewKey("nobody")}, ann, true)
		require.ErrorIs(t, err, streams.ErrNotFound)
		_, err = r.desk.Retry(t.Context(), message(key, s, 1), letters.Word{Operator: "ann"}, true)
		require.ErrorIs(t, err, letters.ErrWord)
		_, err = r.desk.Retry(t.Context(), message(key, s, 1), ann, true)
		require.NoError(t, err)
		_, err = r.desk.Retry(t.Context(), message(key, s, 1), letters.Word{Operator: "bob", Reason: "me too"}, true)
		require.ErrorContains(t, err, "the event has not ended; ann@desk requeued it as generation 1")
	})
	t.Run("is refused where it would not be sent", func(t *testing.T) {
		r := newRig(t)
		policy := r.o.Channels["mail"].Policy
		mails := r.o.Channels["mail"]
		mails.Sender, mails.Policy = channel.SenderFunc(refused), policy
		r.o.Channels["mail"] = mails
		stop := r.dispatch()
		key := r.publish("1", "mail.sent", map[string]any{"to": []string{"zoe@example.com"}, "name": "Zoe"})
		s := r.reaches(key, 0, event.PhaseSettled)
		stop()
		_, err := r.desk.Retry(t.Context(), message(key, s, 0), ann, true)
		require.ErrorContains(t, err, "the message would not be sent (suppress): unsubscribed")

		key = r.publish("2", "mail.sent", map[string]any{"to": []string{"ann@example.com"}, "name": "Ann"})
		stop = r.dispatch()
		s = r.reaches(key, 0, event.PhaseSettled)
		stop()
		require.NoError(t, r.log.Events.Trim(t.Context(), 3))
		_, err = r.desk.Retry(t.Context(), message(key, s, 0), ann, true)
		require.ErrorIs(t, err, streams.ErrNotFound, "the payload is nowhere any more")
	})
	t.Run("of one among several that were not tried to their end is refused", func(t *testing.T) {
		r := newRig(t)
		ref := event.Ref{Key: event.NewKey("1"), Tenant: "acme", ID: "1", Type: "order.placed", Sequence: 1}
		open := event.NewRecord(ref, event.State{}, time.Now(), event.Claimed{LeaseMS: 1},
			event.Planned{Messages: []event.PlannedMessage{{ID: "a"}, {ID: "b"}}}, event.Dead{Cause: event.CauseCrashes})
		_, err := r.log.Outcomes.Append(t.Context(), open, 0)
		require.NoError(t, err)
		_, err = r.desk.Retry(t.Context(), message(ref.Key, open.State, 0), ann, true)
		require.ErrorContains(t, err, "requeue the event, which tries all of them")
	})
}
