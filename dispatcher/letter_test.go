package dispatcher_test

import (
	"bytes"
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/dispatcher"
	"tidings/dispatcher/channel"
	"tidings/dispatcher/plan"
	"tidings/streams"
	"tidings/streams/event"
)

// What a process leaves behind that dies on the way to a dead letter: results under
// a renewed claim, then the letter, then the record.
func TestAPanicIsSaidWithItsStack(t *testing.T) {
	t.Run("of planning, in the letter, and not in the history", func(t *testing.T) {
		r := newRig(t, newLog(t), nil)
		r.o.Planner = plannerFunc{r.o.Planner, func(event.Key, event.Envelope) (plan.Plan, error) { panic("no such thing") }}
		r.start(r.o)
		key := r.publish(r.order("1", "/ok"))
		h := r.ended(key)
		letter := waitForLetter(t, r, key)
		require.Equal(t, event.CausePanic, letter.Cause)
		require.Contains(t, letter.Detail, "planning: no such thing\n")
		require.Contains(t, letter.Detail, "dispatcher_test.TestAPanicIsSaidWithItsStack")
		dead := h.records[len(h.records)-1].Facts[0].(event.Dead)
		require.Equal(t, "planning: no such thing", dead.Detail)
	})
	t.Run("of a sender, in the log", func(t *testing.T) {
		r := newRig(t, newLog(t), nil)
		var said bytes.Buffer
		r.o.Logger = slog.New(slog.NewJSONHandler(&said, nil))
		var calls atomic.Int32
		r.sends(dispatcher.Policy{}, func(context.Context, channel.Message) (channel.Receipt, error) {
			if calls.Add(1) == 1 {
				panic("no such thing")
			}
			return channel.Receipt{}, nil
		})
		stop := r.start(r.o)
		r.ended(r.publish(r.order("1", "/ok")))
		stop()
		require.Contains(t, said.String(), `"msg":"a sender panicked: its message may be sent"`)
		require.Contains(t, said.String(), "dispatcher_test.TestAPanicIsSaidWithItsStack")
	})
}

func TestThereIsOneLetterWhereverItsWriterDied(t *testing.T) {
	type left struct {
		rig    *rig
		key    event.Key
		letter func(detail string)
	}
	died := func(t *testing.T) left {
		r := newRig(t, newLog(t), nil)
		key := r.leftBehind(r.order("1", "/ok"), gone)
		stored, err := r.log.Events.Get(t.Context(), 1)
		require.NoError(t, err)
		p, err := r.o.Planner.Plan(key, stored.Envelope)
		require.NoError(t, err)
		id := p.Messages[0].ID
		r.appendLate(key, p.Fact, event.Tried{Message: id, Try: 1, Result: event.TryTransient, Started: time.Now(), Ended: time.Now()},
			event.GaveUp{Message: id, Reason: "rounds_exhausted"}, event.Claimed{Owner: gone, LeaseMS: 60_000, Limit: 64})
		last, err := r.log.Outcomes.Last(t.Context(), "acme", key)
		require.NoError(t, err)
		return left{r, key, func(detail string) {
			_, _, err := r.log.DeadLetters.Put(t.Context(), event.Letter{
				Schema: event.Schema, Kind: event.LetterEvent, Key: key, Tenant: "acme", Cause: event.CauseRoundsExhausted,
				Stage: event.StageDispatcher, Detail: detail, At: time.Now(), Event: &stored.Ref, State: &last.Record.State,
				Envelope: &stored.Envelope, Data: stored.Envelope.Data,
			})
			require.NoError(t, err)
		}}
	}
	// ends starts a process, and returns the letter when the event is dead.
	ends := func(t *testing.T, l left) event.Letter {
		l.rig.start(l.rig.o)
		require.NoError(t, l.rig.log.Retries.Wake(t.Context(), streams.Wakeup{Tenant: "acme", Key: l.key, Sequence: 1}))
		h := l.rig.until("it is dead", func(h history) bool { return h.state(l.key).Phase == event.PhaseDead })
		dead := 0
		for _, r := range h.records {
			for _, f := range r.Facts {
				if _, is := f.(event.Dead); is {
					dead++
				}
			}
		}
		require.Equal(t, 1, dead)
		letter := waitForLetter(t, l.rig, l.key)
		info, err := l.rig.log.DeadLetters.Info(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 1, info.Messages)
		require.Equal(t, event.CauseRoundsExhausted, letter.Cause)
		require.Equal(t, 0, letter.Generation)
		require.Zero(t, l.rig.sink.Count(), "nothing is sent again")
		return letter
	}
	t.Run("after the results, before the letter", func(t *testing.T) {
		l := died(t)
		require.NotEmpty(t, ends(t, l).Detail)
	})
	t.Run("after the letter, before the record: it stays as it is", func(t *testing.T) {
		l := died(t)
		l.letter("by the one that died")
		require.Equal(t, "by the one that died", ends(t, l).Detail)
	})
	t.Run("after the record, if the letter is not there all the same", func(t *testing.T) {
		l := died(t)
		l.rig.appendLate(l.key, event.Dead{Cause: event.CauseRoundsExhausted})
		require.JSONEq(t, string(l.rig.order("1", "/ok").Data), string(ends(t, l).Data))
	})
}
