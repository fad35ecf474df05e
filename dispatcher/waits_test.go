package dispatcher_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/dispatcher"
	"tidings/streams"
	"tidings/streams/event"
)

func TestWhenTooManyWaitNoMoreAreTaken(t *testing.T) {
	const n, most = 200, 10
	var mail down
	mail.Store(true)
	r := newRig(t, newLog(t, relaxed), nil)
	r.o.Channels["mail"] = dispatcher.Channel{
		Sender: mail.sender("smtp_421"), Policy: dispatcher.Policy{Tries: 1, Rounds: []time.Duration{time.Millisecond}, Failures: 1, OpenFor: 500 * time.Millisecond},
	}
	r.o.Workers, r.o.MaxWaiting = 8, most
	r.o.Consume.Workers = 8
	d := r.running(t)
	var keys []event.Key
	for i := range n {
		keys = append(keys, r.publish(letterTo(fmt.Sprint(i))))
	}
	require.Eventually(t, func() bool { return d.Status().Full() }, 20*time.Second, 10*time.Millisecond)
	hook := r.publish(r.order("stands behind", "/ok"))
	h := r.until("ten wait", func(h history) bool { return len(h.records) >= most })
	require.Zero(t, h.state(hook).Revision)
	info, err := r.log.Retries.Info(t.Context())
	require.NoError(t, err)
	require.Less(t, int(info.Messages), n/2, "the others stay in EVENTS")

	mail.Store(false)
	r.ended(append(keys, hook)...)
	require.Eventually(t, func() bool { return !d.Status().Full() }, 20*time.Second, 10*time.Millisecond)
}

func TestWhatIsSetAsideOutlastsTheProcess(t *testing.T) {
	// aside returns a rig with an event that waits for mail, whose dispatcher has stopped.
	aside := func(t *testing.T) (*rig, *down, event.Key) {
		mail := &down{}
		mail.Store(true)
		r := newRig(t, newLog(t), nil)
		r.o.Channels["mail"] = dispatcher.Channel{
			Sender: mail.sender("smtp_421"), Policy: dispatcher.Policy{Tries: 1, Rounds: []time.Duration{time.Hour}, Failures: 1, OpenFor: time.Hour},
		}
		_, stop := run(t, r.o)
		first := r.publish(letterTo("shuts it"))
		r.until("it waits", func(h history) bool { return h.state(first).Phase == event.PhaseWaiting })
		key := r.publish(letterTo("1"))
		r.until("it waits", func(h history) bool { return h.state(key).Waits == event.WaitBusy })
		require.NoError(t, stop())
		return r, mail, key
	}
	t.Run("and goes on with the next", func(t *testing.T) {
		r, mail, key := aside(t)
		mail.Store(false)
		r.running(t)
		require.Equal(t, []string{"waiting", "claimed", "planned tried:delivered settled"}, r.ended(key).facts(key))
	})
	t.Run("and however many processes: that counts against nothing", func(t *testing.T) {
		r, mail, key := aside(t)
		r.o.Consume.MaxDeliver = 2
		var keys []event.Key
		for i := range 10 {
			keys = append(keys, r.publish(letterTo(fmt.Sprint("behind", i))))
		}
		calls := mail.calls.Load()
		for n := range 5 {
			d, stop := run(t, r.o)
			require.Eventually(t, func() bool { return channelStatus(d, "mail").Breaker == dispatcher.BreakerOpen }, 10*time.Second, time.Millisecond)
			require.EqualValues(t, n+1, mail.calls.Load()-calls, "each shows it by one call")
			require.Eventually(t, func() bool { return r.aside("mail") == 10-n }, 10*time.Second, time.Millisecond)
			require.NoError(t, stop())
		}
		mail.Store(false)
		r.running(t)
		r.until("those that were not tried yet are sent", func(h history) bool {
			sent := 0
			for _, k := range append(keys, key) {
				sent += h.state(k).Counts().Delivered
			}
			return sent == 6
		})
	})
	t.Run("if its channel is gone, it ends as the plan says", func(t *testing.T) {
		r, _, key := aside(t)
		delete(r.o.Channels, "mail")
		r.running(t)
		h := r.ended(key)
		require.Equal(t, "no_channel", h.state(key).Messages[0].Reason)
		require.Equal(t, event.CauseRoundsExhausted, h.state(key).Cause)
	})
	t.Run("if it has become stale, nobody is told", func(t *testing.T) {
		r, mail, key := aside(t)
		mail.Store(false)
		r.o.Now = func() time.Time { return time.Now().Add(r.o.Staleness + time.Minute) }
		r.running(t)
		h := r.ended(key)
		require.Equal(t, []string{"waiting", "expired settled"}, h.facts(key))
		require.Equal(t, event.Stale, h.state(key).Outcome)
	})
}

func TestAnEventThatIsTooOldToWaitForTheRestGoesToAnOperator(t *testing.T) {
	var mail down
	mail.Store(true)
	r := newRig(t, newLog(t), nil)
	r.o.Channels["mail"] = dispatcher.Channel{
		Sender: mail.sender("smtp_421"), Policy: dispatcher.Policy{Tries: 1, Rounds: []time.Duration{time.Hour}, Failures: 1, OpenFor: 10 * r.o.Staleness},
	}
	var later atomic.Int64
	r.o.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	r.running(t)
	first := r.publish(letterTo("shuts it"))
	r.until("it waits", func(h history) bool { return h.state(first).Phase == event.PhaseWaiting })
	key := r.publish(r.both("1", "/ok"))
	h := r.until("its mail waits", func(h history) bool { return h.state(key).Waits == event.WaitBusy })
	require.Equal(t, 1, h.state(key).Counts().Delivered)

	later.Store(int64(r.o.Staleness + time.Minute))
	require.NoError(t, r.log.Retries.Wake(t.Context(), streams.Wakeup{Tenant: "acme", Key: key, Sequence: h.records[len(h.records)-1].Event.Sequence}))
	h = r.ended(key)
	require.Equal(t, []string{"claimed", "planned claimed", "tried:delivered waiting", "claimed", "gave_up claimed", "dead"}, h.facts(key))
	s := h.state(key)
	require.Equal(t, event.CauseRoundsExhausted, s.Cause)
	require.Equal(t, event.Processed, s.Outcome, "a part was sent")
	require.Contains(t, []string{s.Messages[0].Reason, s.Messages[1].Reason}, "deferral_exhausted")
}

func TestAWakeUpTooManyOfAnEventThatIsSetAsideChangesNothing(t *testing.T) {
	var mail down
	mail.Store(true)
	r, _, js := newStranger(t)
	r.o.Channels["mail"] = dispatcher.Channel{
		Sender: mail.sender("smtp_421"), Policy: dispatcher.Policy{Tries: 1, Rounds: []time.Duration{time.Hour}, Failures: 1, OpenFor: time.Hour},
	}
	d, stop := run(t, r.o)
	first := r.publish(letterTo("shuts it"))
	r.until("it waits", func(h history) bool { return h.state(first).Phase == event.PhaseWaiting })
	key := r.publish(letterTo("1"))
	h := r.until("it waits", func(h history) bool { return h.state(key).Waits == event.WaitBusy })
	wake := streams.Wakeup{Tenant: "acme", Key: key, Sequence: h.records[len(h.records)-1].Event.Sequence}
	retries, err := js.Stream(t.Context(), streams.RetriesStream)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return d.Status().Steps == 2 }, 10*time.Second, time.Millisecond) // both are put away
	require.NoError(t, retries.Purge(t.Context()), "as if they were lost")
	for range 3 {
		steps := d.Status().Steps
		require.NoError(t, r.log.Retries.Wake(t.Context(), wake))
		require.Eventually(t, func() bool { return d.Status().Steps > steps }, 10*time.Second, time.Millisecond)
		require.Equal(t, 1, r.aside("mail"), "it is made up for")
	}
	require.Equal(t, []string{"waiting"}, r.all().facts(key))
	require.NoError(t, stop())
	mail.Store(false)
	r.running(t)
	require.Equal(t, []string{"waiting", "claimed", "planned tried:delivered settled"}, r.ended(key).facts(key))
	r.emptied()
	require.Equal(t, []string{"waiting", "claimed", "planned tried:delivered settled"}, r.all().facts(key))
}
