package dispatcher_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/dispatcher"
	"tidings/dispatcher/plan"
	"tidings/streams"
	"tidings/streams/event"
)

func TestADeadMailServerDoesNotDelayTheHooks(t *testing.T) {
	const n = 1000
	r := newRig(t, newLog(t, relaxed), nil)
	host, port := silent(t)
	r.mails(dispatcher.Policy{Concurrency: 16, Timeout: 30 * time.Second}, host, port)
	r.o.Consume.Drain = time.Millisecond // there is nothing to wait for at the end
	for i := range n {                   // before a single one could be taken
		r.publish(letterTo(fmt.Sprint("mail", i)))
		r.publish(r.order(fmt.Sprint("hook", i), "/ok"))
	}
	r.running(t)
	settled := 0
	h := r.until("the hooks have ended", func(h history) bool {
		if last := h.records[len(h.records)-1]; last.Kind == event.KindSettled {
			settled++
		}
		return settled == n
	})
	require.Equal(t, n, r.sink.Count())
	for _, rec := range h.records {
		if rec.Event.Type == "mail.x" {
			require.Zero(t, rec.State.Tries(), "no call of the mail server has ended")
		}
	}
}

func TestWhatOneChannelHasNoRoomForIsSentOnTheOther(t *testing.T) {
	var mail down
	mail.Store(true)
	r := newRig(t, newLog(t), nil)
	r.o.Channels["mail"] = dispatcher.Channel{
		Sender: mail.sender("smtp_421"),
		Policy: dispatcher.Policy{Tries: 2, Base: time.Millisecond, Rounds: []time.Duration{time.Millisecond}, Failures: 2, OpenFor: time.Second},
	}
	d := r.running(t)
	first := r.publish(letterTo("shuts it"))
	r.until("it is shut", func(h history) bool {
		return h.state(first).Waits == event.WaitBusy && channelStatus(d, "mail").Breaker == dispatcher.BreakerOpen
	})
	key := r.publish(r.both("1", "/ok"))
	h := r.until("it waits", func(h history) bool { return h.state(key).Phase == event.PhaseWaiting })
	require.Equal(t, []string{"claimed", "planned claimed", "tried:delivered waiting"}, h.facts(key))
	waits := h.state(key)
	require.Equal(t, event.WaitBusy, waits.Waits)
	require.Zero(t, waits.Round)
	named := h.records[slices.IndexFunc(h.records, func(rec event.Record) bool { return rec.State.Planned && rec.Event.Key == key })].State.Claim.Messages
	require.Len(t, named, 1, "no mail is left in doubt")

	mail.Store(false)
	h = r.ended(key, first)
	require.Equal(t, []string{"claimed", "planned claimed", "tried:delivered waiting", "claimed", "tried:delivered settled"}, h.facts(key))
	require.Equal(t, event.Counts{Created: 2, Delivered: 2}, h.state(key).Counts())
	require.Equal(t, 1, r.sink.Count())
}

func TestWhileAProviderIsDownItsEventsWaitAndBurnNothing(t *testing.T) {
	const n = 200
	var mail down
	mail.Store(true)
	r := newRig(t, newLog(t, relaxed), nil)
	r.o.Channels["mail"] = dispatcher.Channel{
		Sender: mail.sender("smtp_421"),
		Policy: dispatcher.Policy{Base: time.Millisecond, Rounds: []time.Duration{time.Millisecond}, Concurrency: 8, Failures: 5, OpenFor: 100 * time.Millisecond},
	}
	d := r.running(t)
	var keys []event.Key
	for i := range n {
		keys = append(keys, r.publish(letterTo(fmt.Sprint(i))))
	}
	h := r.until("all wait", func(h history) bool {
		return !slices.ContainsFunc(keys, func(k event.Key) bool { return h.state(k).Phase != event.PhaseWaiting })
	})
	require.Eventually(t, func() bool { return r.aside("mail") >= n-8 }, 20*time.Second, 10*time.Millisecond)
	before := mail.calls.Load()
	shut := channelStatus(d, "mail")
	require.NotEqual(t, dispatcher.BreakerClosed, shut.Breaker)
	require.Equal(t, "smtp_421", shut.Code)
	require.LessOrEqual(t, int(before), 5+8+20, "five failures, what was under way, and some trials")
	untried := 0
	for _, k := range keys {
		require.Zero(t, h.state(k).Round, "%q", h.facts(k))
		if h.state(k).Revision == 1 { // set aside before it was claimed
			require.Equal(t, []string{"waiting"}, h.facts(k))
			untried++
		}
	}
	require.Greater(t, untried, n-50)

	mail.Store(false)
	h = r.ended(keys...)
	for _, k := range keys {
		require.Equal(t, event.Processed, h.state(k).Outcome)
		require.LessOrEqual(t, len(h.facts(k)), 12, "%q", h.facts(k))
	}
	r.emptied()
	require.Equal(t, dispatcher.BreakerClosed, channelStatus(d, "mail").Breaker)
}

// A provider that fails for two seconds, as it may while it restarts.
func TestAHiccupDeadLettersNothing(t *testing.T) {
	const n = 100
	var hook down
	r := newRig(t, newLog(t, relaxed), nil)
	r.o.Channels["hook"] = dispatcher.Channel{
		Sender: hook.sender("http_503"),
		Policy: dispatcher.Policy{Rounds: []time.Duration{time.Second}, OpenFor: 500 * time.Millisecond},
	}
	r.running(t)
	hook.Store(true)
	time.AfterFunc(2*time.Second, func() { hook.Store(false) })
	var keys []event.Key
	for i := range n {
		keys = append(keys, r.publish(r.order(fmt.Sprint(i), "/x")))
	}
	h := r.ended(keys...)
	for _, k := range keys {
		require.Equal(t, event.PhaseSettled, h.state(k).Phase, "%q", h.facts(k))
	}
	require.Positive(t, hook.calls.Load())
	letters, err := r.log.DeadLetters.Info(t.Context())
	require.NoError(t, err)
	require.Zero(t, letters.Messages)
}

func TestARateIsKeptAndNothingIsLostByIt(t *testing.T) {
	const n, perSecond = 30, 20
	r := newRig(t, newLog(t, relaxed), nil)
	hook := r.o.Channels["hook"]
	hook.Policy.Rate = perSecond
	r.o.Channels["hook"] = hook
	d := r.running(t)
	var keys []event.Key
	for i := range n {
		keys = append(keys, r.publish(r.order(fmt.Sprint(i), "/ok")))
	}
	h := r.ended(keys...)
	require.Equal(t, n, r.sink.Count())
	var first, last time.Time
	for _, k := range keys {
		for _, rec := range h.records {
			for _, f := range rec.Facts {
				if tried, ok := f.(event.Tried); ok && rec.Event.Key == k {
					if first.IsZero() || tried.Started.Before(first) {
						first = tried.Started
					}
					if tried.Started.After(last) {
						last = tried.Started
					}
				}
			}
		}
	}
	require.GreaterOrEqual(t, last.Sub(first), (n-2)*time.Second/perSecond)
	require.Positive(t, channelStatus(d, "hook").Throttled)
}

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
		Sender: mail.sender("smtp_421"), Policy: dispatcher.Policy{Tries: 1, Rounds: []time.Duration{time.Hour}, Failures: 1, OpenFor: 3 * time.Second},
	}
	d := r.running(t)
	first := r.publish(letterTo("shuts it"))
	r.until("it waits", func(h history) bool { return h.state(first).Phase == event.PhaseWaiting })
	key := r.publish(letterTo("1"))
	h := r.until("it waits", func(h history) bool { return h.state(key).Waits == event.WaitBusy })
	wake := streams.Wakeup{Tenant: "acme", Key: key, Sequence: h.records[len(h.records)-1].Event.Sequence}
	retries, err := js.Stream(t.Context(), streams.RetriesStream)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		info, err := retries.Info(t.Context())
		return err == nil && info.State.Msgs == 2
	}, 10*time.Second, time.Millisecond)
	require.NoError(t, retries.Purge(t.Context()), "as if they were lost")
	for range 3 {
		steps := d.Status().Steps
		require.NoError(t, r.log.Retries.Wake(t.Context(), wake))
		require.Eventually(t, func() bool { return d.Status().Steps > steps }, 10*time.Second, time.Millisecond)
		require.Equal(t, 1, r.aside("mail"), "it is made up for")
	}
	require.Equal(t, []string{"waiting"}, r.all().facts(key))
	mail.Store(false)
	require.Equal(t, []string{"waiting", "claimed", "planned tried:delivered settled"}, r.ended(key).facts(key))
	r.emptied()
	require.Equal(t, []string{"waiting", "claimed", "planned tried:delivered settled"}, r.all().facts(key))
}

func TestFewEventsArePlannedWhileTheirMailHasNoRoom(t *testing.T) {
	var mail down
	mail.Store(true)
	r := newRig(t, newLog(t, relaxed), map[string]http.HandlerFunc{})
	r.o.Channels["mail"] = dispatcher.Channel{
		Sender: mail.sender("smtp_421"), Policy: dispatcher.Policy{Tries: 1, Rounds: []time.Duration{time.Hour}, Concurrency: 2, Failures: 1, OpenFor: time.Hour},
	}
	inside, release := make(chan struct{}, 100), make(chan struct{})
	planner, held := r.o.Planner, atomic.Bool{}
	r.o.Planner = plannerFunc{planner, func(key event.Key, e event.Envelope) (plan.Plan, error) {
		if held.Load() {
			inside <- struct{}{}
			<-release
		}
		return planner.Plan(key, e)
	}}
	r.running(t)
	first := r.publish(letterTo("shuts it"))
	r.until("it waits", func(h history) bool { return h.state(first).Phase == event.PhaseWaiting })
	held.Store(true)
	var keys []event.Key
	for i := range 20 {
		keys = append(keys, r.publish(r.both(fmt.Sprint(i), "/ok")))
	}
	<-inside
	<-inside
	hook := r.publish(r.order("passes by", "/ok"))
	<-inside // planned beside them
	claims := 0
	for _, k := range append(keys, hook) {
		claims += len(r.all().facts(k))
	}
	require.Equal(t, 3, claims, "two that leave mail in doubt, and one that needs none")
	close(release)
	r.until("the hooks are called", func(h history) bool {
		return !slices.ContainsFunc(keys, func(k event.Key) bool { return h.state(k).Counts().Delivered == 0 })
	})
}

// What is in hand is bounded in bytes too: large events of a provider that is dead
// must not be all of them.
func TestLargeEventsOfADeadProviderDoNotDelayTheOthers(t *testing.T) {
	const large, n = 120, 50
	r := newRig(t, newLog(t, relaxed), nil)
	host, port := silent(t)
	r.mails(dispatcher.Policy{Concurrency: 200, Timeout: 30 * time.Second}, host, port)
	r.o.Consume.Drain = time.Millisecond
	for i := range large {
		e := newEvent(fmt.Sprint("large", i), "mail.x", map[string]any{"to": "ada@example.com", "name": "Ada", "more": strings.Repeat("x", 1<<20)})
		r.publish(e)
	}
	for i := range n {
		r.publish(r.order(fmt.Sprint("hook", i), "/ok"))
	}
	d := r.running(t)
	settled := 0
	r.until("the hooks have ended", func(h history) bool {
		if last := h.records[len(h.records)-1]; last.Kind == event.KindSettled {
			settled++
		}
		return settled == n
	})
	require.Equal(t, dispatcher.BreakerClosed, channelStatus(d, "mail").Breaker, "no call has ended yet")
}
