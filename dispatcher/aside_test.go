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
		Policy: dispatcher.Policy{Tries: 2, Base: time.Millisecond, Rounds: []time.Duration{time.Millisecond}, Failures: 1, OpenFor: time.Hour},
	}
	_, stop := run(t, r.o)
	first := r.publish(letterTo("shuts it"))
	r.until("it is shut", func(h history) bool { return h.state(first).Waits == event.WaitBusy })
	key := r.publish(r.both("1", "/ok"))
	h := r.until("it waits", func(h history) bool { return h.state(key).Phase == event.PhaseWaiting })
	require.Equal(t, []string{"claimed", "planned claimed", "tried:delivered waiting"}, h.facts(key))
	waits := h.state(key)
	require.Equal(t, event.WaitBusy, waits.Waits)
	require.Zero(t, waits.Round)
	named := h.records[slices.IndexFunc(h.records, func(rec event.Record) bool { return rec.State.Planned && rec.Event.Key == key })].State.Claim.Messages
	require.Len(t, named, 1, "no mail is left in doubt")

	require.NoError(t, stop())
	mail.Store(false)
	r.running(t) // sees that it is well
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
		Policy: dispatcher.Policy{
			Tries: 10, // five failures shut it, so none has used up a round by then
			Base:  time.Millisecond, Rounds: []time.Duration{time.Millisecond}, Concurrency: 8, Failures: 5, OpenFor: 100 * time.Millisecond,
		},
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

func TestAProviderThatLimitsUsIsLeftAlone(t *testing.T) {
	const n = 100
	var limited atomic.Bool
	var calls atomic.Int32
	limited.Store(true)
	r := newRig(t, newLog(t, relaxed), map[string]http.HandlerFunc{"/limited": func(w http.ResponseWriter, _ *http.Request) {
		if limited.Load() {
			calls.Add(1)
			w.Header().Set("Retry-After", "2")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}})
	hook := r.o.Channels["hook"]
	hook.Policy.Failures, hook.Policy.Concurrency = 3, 4
	r.o.Channels["hook"] = hook
	d := r.running(t)
	var keys []event.Key
	for i := range n {
		keys = append(keys, r.publish(r.order(fmt.Sprint(i), "/limited")))
	}
	require.Eventually(t, func() bool { return r.aside("hook") >= n-20 }, 20*time.Second, 10*time.Millisecond)
	require.LessOrEqual(t, int(calls.Load()), 3+4+10, "three in a row, what was under way, and some that showed it again")
	require.True(t, channelStatus(d, "hook").RateLimited)
	limited.Store(false)
	h := r.ended(keys...)
	for _, k := range keys {
		require.Equal(t, event.Processed, h.state(k).Outcome)
		require.Zero(t, h.state(k).Round)
	}
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
