package dispatcher_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"tidings/streams"
	"tidings/streams/event"
)

func TestWakeUpsOfAWaitingEvent(t *testing.T) {
	const round = 400 * time.Millisecond
	// waiting returns a rig with an event that waits for its second round.
	waiting := func(t *testing.T) (*rig, jetstream.JetStream, streams.Wakeup, event.State) {
		r, _, js := newStranger(t)
		hook := r.o.Channels["hook"]
		hook.Policy.Tries, hook.Policy.Rounds = 1, []time.Duration{round}
		r.o.Channels["hook"] = hook
		r.start(r.o)
		key := r.publish(r.order("1", "/flaky"))
		h := r.until("it waits", func(h history) bool { return h.state(key).Phase == event.PhaseWaiting })
		return r, js, streams.Wakeup{Tenant: "acme", Key: key, Sequence: 1}, h.state(key)
	}
	twoRounds := []string{
		"claimed", "planned tried:transient waiting",
		"claimed", "tried:transient gave_up claimed", "dead",
	}
	wake := func(r *rig, w streams.Wakeup) { require.NoError(r, r.log.Retries.Wake(r.within(10*time.Second), w)) }

	t.Run("early and many: nothing is tried before it is due, and then once", func(t *testing.T) {
		r, _, w, s := waiting(t)
		for time.Now().Before(s.Due.Add(-round / 4)) {
			wake(r, w)
		}
		h := r.ended(w.Key)
		require.Equal(t, twoRounds, h.facts(w.Key))
		require.False(t, h.records[3].Facts[0].(event.Tried).Started.Before(s.Due))
	})
	t.Run("lost: one that the steward makes up for brings it on", func(t *testing.T) {
		r, js, w, s := waiting(t)
		retries, err := js.Stream(r.within(5*time.Second), streams.RetriesStream)
		require.NoError(t, err)
		require.NoError(t, retries.Purge(r.within(5*time.Second)))
		<-time.After(time.Until(s.Due))
		last, err := r.log.Outcomes.Last(r.within(5*time.Second), "acme", w.Key)
		require.NoError(t, err)
		require.Equal(t, event.PhaseWaiting, last.Record.State.Phase, "nobody wakes it")
		wake(r, w)
		require.Equal(t, twoRounds, r.ended(w.Key).facts(w.Key))
	})
	t.Run("twice and more at once when it is due: the round is one", func(t *testing.T) {
		r, js, w, s := waiting(t)
		retries, err := js.Stream(r.within(5*time.Second), streams.RetriesStream)
		require.NoError(t, err)
		require.NoError(t, retries.Purge(r.within(5*time.Second)))
		<-time.After(time.Until(s.Due))
		for range 5 {
			wake(r, w)
		}
		require.Equal(t, twoRounds, r.ended(w.Key).facts(w.Key))
		r.emptied()
		require.Equal(t, twoRounds, r.all().facts(w.Key))
		require.Equal(t, 2, r.calls("/flaky"))
	})
	t.Run("late: an event that has ended stays as it is", func(t *testing.T) {
		r, _, w, _ := waiting(t)
		r.ended(w.Key)
		wake(r, w)
		r.emptied()
		require.Equal(t, twoRounds, r.ended(w.Key).facts(w.Key))
		require.Equal(t, 2, r.calls("/flaky"))
	})
}

// wakeupOf returns a wake-up of the first event in EVENTS.
func wakeupOf(key event.Key) streams.Wakeup {
	return streams.Wakeup{Tenant: "acme", Key: key, Sequence: 1}
}

func TestAWakeUpThatTookThePlaceOfAnotherCopyIsThatCopy(t *testing.T) {
	r := newRig(t, newLog(t), nil)
	first := r.order("1", "/ok")
	other := r.order("1", "/other")
	key := r.publish(first)
	second, third := publishAgain(t, r.log, first), publishAgain(t, r.log, other)
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, r.log.Events.Consume(ctx, streams.ConsumeOptions{Workers: 1}, func(ctx context.Context, d *streams.Delivery) {
		require.NoError(t, d.Ack(ctx)) // as a stop does with what it cannot put back any more
		if d.Sequence() == third {
			cancel()
		}
	}))
	r.start(r.o)
	wake := func(sequence uint64) {
		require.NoError(t, r.log.Retries.Wake(r.within(10*time.Second), streams.Wakeup{Tenant: "acme", Key: key, Sequence: sequence}))
	}
	wake(1)
	r.ended(key)
	wake(second)
	h := r.until("the second is a duplicate", func(h history) bool { return len(h.duplicates) == 1 })
	require.Equal(t, second, h.duplicates[0].Sequence)
	wake(third)
	require.Equal(t, event.CauseIDConflict, waitForLetter(t, r, event.ConflictKey(key, event.Digest(other.Data))).Cause)
	require.Equal(t, 1, r.sink.Count())
}
