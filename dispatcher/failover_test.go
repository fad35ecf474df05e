package dispatcher_test

import (
	"context"
	"io/fs"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/dispatcher"
	"tidings/dispatcher/channel"
	"tidings/dispatcher/plan"
	"tidings/streams/event"
)

// script is a provider whose calls end one after the other as it says; the last
// answer counts for all that follow.
type script struct {
	mu      sync.Mutex
	answers []error
	calls   []time.Time
	keys    []string
}

func says(answers ...error) *script { return &script{answers: answers} }

func (s *script) Send(_ context.Context, m channel.Message) (channel.Receipt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := s.answers[min(len(s.calls), len(s.answers)-1)]
	s.calls, s.keys = append(s.calls, time.Now()), append(s.keys, m.ID)
	return channel.Receipt{Provider: "smtp.example.com:25"}, answer
}

func (s *script) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.calls)
}

// vias returns which providers were called for an event, in order, and how that ended.
func (h history) vias(k event.Key) (vias []string) {
	for _, r := range h.records {
		if r.Event.Key != k {
			continue
		}
		for _, f := range r.Facts {
			if t, ok := f.(event.Tried); ok {
				vias = append(vias, t.Via+":"+string(t.Result))
			}
		}
	}
	return vias
}

// through has mail leave by the providers a and b.
func (r *rig) through(policy dispatcher.Policy, a, b channel.Sender) {
	r.o.Channels["mail"] = dispatcher.Channel{Policy: policy, Providers: []dispatcher.Provider{
		{Name: "a", Sender: a, Policy: policy}, {Name: "b", Sender: b, Policy: policy},
	}}
}

func TestWhichProviderTakesAMessage(t *testing.T) {
	soft := channel.Transient("smtp_421", nil)
	later := channel.RateLimited("http_429", time.Hour, nil)
	inAMoment := channel.RateLimited("http_429", 1100*time.Millisecond, nil)
	full := &channel.Error{Result: event.TryTransient, Code: "smtp_452_4.2.2", OfMessage: true}
	refused := channel.Permanent("smtp_550_5.1.1", nil)
	unknown := channel.Unknown("connection_lost", nil)
	rounds := []time.Duration{time.Millisecond}
	for name, c := range map[string]struct {
		a, b   *script
		tries  int
		rounds []time.Duration
		vias   []string
		end    event.Outcome
	}{
		"the first, if it does": {
			a: says(nil), b: says(nil), vias: []string{"a:delivered"}, end: event.Processed,
		},
		"the second at once, if the first does not take it": {
			a: says(soft), b: says(nil), vias: []string{"a:transient", "b:delivered"}, end: event.Processed,
		},
		"the second at once, if the first wants to be left alone": {
			a: says(later), b: says(nil), vias: []string{"a:rate_limited", "b:delivered"}, end: event.Processed,
		},
		"the second, although a round has one try": {
			a: says(soft), b: says(nil), tries: 1, vias: []string{"a:transient", "b:delivered"}, end: event.Processed,
		},
		"each in turn, as long as the round has tries": {
			a: says(soft), b: says(soft), vias: []string{"a:transient", "b:transient", "a:transient"}, end: event.Failed,
		},
		"from the first again in each round": {
			a: says(soft, soft, nil), b: says(soft), tries: 2, rounds: rounds,
			vias: []string{"a:transient", "b:transient", "a:transient", "b:transient"}, end: event.Failed,
		},
		"nobody else, if the message is refused": {
			a: says(refused), b: says(nil), vias: []string{"a:permanent"}, end: event.Failed,
		},
		"nobody else, if the mailbox is full": {
			a: says(full, full, nil), b: says(nil), vias: []string{"a:transient", "a:transient", "a:delivered"}, end: event.Processed,
		},
		"nobody else, if the first may have it": {
			a: says(unknown), b: says(nil), vias: []string{"a:unknown"}, end: event.Failed,
		},
		"nobody else, if the second may have it": {
			a: says(soft, nil), b: says(unknown), vias: []string{"a:transient", "b:unknown"}, end: event.Failed,
		},
		"the first when its time has come, if both want to be left alone": {
			a: says(inAMoment, nil), b: says(later), vias: []string{"a:rate_limited", "b:rate_limited", "a:delivered"}, end: event.Processed,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, newLog(t, relaxed), nil)
			r.through(dispatcher.Policy{Tries: c.tries, Base: time.Millisecond, Rounds: c.rounds, Failures: 1 << 30}, c.a, c.b)
			r.running(t)
			key := r.publish(letterTo("1"))
			h := r.ended(key)
			require.Equal(t, c.vias, h.vias(key), "%q", h.facts(key))
			require.Equal(t, c.end, h.state(key).Outcome)
			require.Equal(t, len(c.vias), h.state(key).Tries(), "every call is a try")
			require.Equal(t, len(c.vias), c.a.count()+c.b.count())
		})
	}
}

func TestWhileTheBreakerOfOneProviderIsOpenTheOtherIsCalled(t *testing.T) {
	var a, b down
	a.Store(true)
	r := newRig(t, newLog(t, relaxed), nil)
	r.through(dispatcher.Policy{Base: time.Millisecond, Failures: 1, OpenFor: 300 * time.Millisecond}, a.sender("smtp_421"), b.sender("smtp_421"))
	d := r.running(t)
	first := r.publish(letterTo("1"))
	require.Equal(t, []string{"a:transient", "b:delivered"}, r.ended(first).vias(first))
	second := r.publish(letterTo("2"))
	require.Equal(t, []string{"b:delivered"}, r.ended(second).vias(second), "nobody asks whom does not get through")
	status := channelStatus(d, "mail")
	require.Equal(t, dispatcher.BreakerClosed, status.Breaker, "the channel gets through")
	require.NotEqual(t, dispatcher.BreakerClosed, status.Providers[0].Breaker)
	require.Equal(t, "smtp_421", status.Providers[0].Code)
	require.Equal(t, dispatcher.BreakerClosed, status.Providers[1].Breaker)

	b.Store(true)
	third := r.publish(letterTo("3"))
	h := r.until("it waits for one of them", func(h history) bool { return h.state(third).Waits == event.WaitBusy })
	require.Zero(t, h.state(third).Round)
	require.Equal(t, "mail", channelStatus(d, "mail").Channel)

	a.Store(false)
	h = r.ended(third)
	vias := h.vias(third)
	require.Equal(t, "a:delivered", vias[len(vias)-1], "%q", vias)
	r.emptied()
}

// One mail of unknown fate, which may be sent again: by the provider that may have
// it, and by nobody else.
func TestWhatAProviderMayHaveIsForNobodyElse(t *testing.T) {
	resend := func(r *rig) event.Envelope { return r.order("1", "/x") }
	hook := func(r *rig, providers ...dispatcher.Provider) {
		for i := range providers {
			providers[i].Policy = dispatcher.Policy{Failures: 1, OpenFor: 200 * time.Millisecond}
		}
		r.o.Channels["hook"] = dispatcher.Channel{Providers: providers, Policy: dispatcher.Policy{Base: time.Millisecond}}
	}
	t.Run("not even while its breaker is open", func(t *testing.T) {
		r := newRig(t, newLog(t, relaxed), nil)
		a, b := says(channel.Unknown("connection_lost", nil), nil), says(nil)
		hook(r, dispatcher.Provider{Name: "a", Sender: a}, dispatcher.Provider{Name: "b", Sender: b})
		r.running(t)
		key := r.publish(resend(r))
		h := r.ended(key)
		require.Equal(t, []string{"a:unknown", "a:delivered"}, h.vias(key), "%q", h.facts(key))
		require.Equal(t, "a", h.state(key).Messages[0].Via)
		require.Zero(t, b.count())
		require.Equal(t, a.keys[0], a.keys[1], "with the same idempotency key")
	})
	t.Run("not even if it is not configured any more", func(t *testing.T) {
		r := newRig(t, newLog(t, relaxed), nil)
		a, b := says(channel.Unknown("connection_lost", nil)), says(nil)
		hook(r, dispatcher.Provider{Name: "a", Sender: a})
		_, stop := run(t, r.o)
		key := r.publish(resend(r))
		r.until("it is uncertain", func(h history) bool { return h.state(key).Waits == event.WaitBusy })
		require.NoError(t, stop())
		hook(r, dispatcher.Provider{Name: "b", Sender: b})
		r.running(t)
		h := r.ended(key)
		require.Equal(t, event.CauseUncertain, h.state(key).Cause, "%q", h.facts(key))
		require.Zero(t, b.count())
	})
}

func TestATenantThatHasSendersOfItsOwnNeverHasAnothers(t *testing.T) {
	other := func(id string) event.Envelope { e := letterTo(id); e.Tenant = "other"; return e }
	soft := channel.Transient("smtp_535", nil)
	t.Run("each is sent by its own", func(t *testing.T) {
		r := newRig(t, newLog(t, relaxed), nil)
		all, own := says(nil), says(nil)
		r.o.Channels["mail"] = dispatcher.Channel{Sender: all}
		r.o.Tenants = map[string]dispatcher.Tenant{"acme": {Channels: map[string]dispatcher.Channel{"mail": {Sender: own}}}}
		r.running(t)
		r.ended(r.publish(letterTo("1")), r.publish(other("2")), r.publish(other("3")))
		require.Equal(t, 1, own.count())
		require.Equal(t, 2, all.count())
	})
	t.Run("and its wrong password shuts nobody else's way", func(t *testing.T) {
		r := newRig(t, newLog(t, relaxed), nil)
		all, own := says(nil), says(soft)
		policy := dispatcher.Policy{Base: time.Millisecond, Failures: 1, OpenFor: time.Hour}
		r.o.Channels["mail"] = dispatcher.Channel{Sender: all, Policy: policy}
		r.o.Tenants = map[string]dispatcher.Tenant{"acme": {Channels: map[string]dispatcher.Channel{"mail": {Sender: own, Policy: policy}}}}
		d := r.running(t)
		mine := r.publish(letterTo("1"))
		r.until("it waits", func(h history) bool { return h.state(mine).Waits == event.WaitBusy })
		yours := r.publish(other("2"))
		h := r.ended(yours)
		require.Equal(t, event.Processed, h.state(yours).Outcome)
		require.Equal(t, event.PhaseWaiting, h.state(mine).Phase, "and nobody else sends it")
		require.Equal(t, 1, all.count())
		status := d.Status().Channels
		last := status[len(status)-1]
		require.Equal(t, "acme", last.Tenant)
		require.Equal(t, dispatcher.BreakerOpen, last.Breaker)
		require.Equal(t, dispatcher.BreakerClosed, channelStatus(d, "mail").Breaker)
	})
}

// A route that uses one provider only waits for that one, and the others go on.
func TestAnOrderOfARoute(t *testing.T) {
	var a, b down
	r := newRig(t, newLog(t, relaxed), nil)
	r.through(dispatcher.Policy{Base: time.Millisecond, Failures: 1, OpenFor: 300 * time.Millisecond}, a.sender("smtp_421"), b.sender("smtp_421"))
	planner, err := plan.Compile(plan.Rules{Routes: []plan.Route{
		{Name: "mail", Event: "mail.*", Channel: "mail", Recipients: "data.to", Template: "letter", Providers: []string{"b"}},
		{Name: "turned", Event: "turned.*", Channel: "mail", Recipients: "data.to", Template: "letter", Providers: []string{"b", "a"}},
	}}, fs.FS(templates), plan.Options{
		Secret: testSecret, Channels: map[string]plan.Channel{"mail": {Kind: plan.Email, Providers: []string{"a", "b"}}},
	})
	require.NoError(t, err)
	r.o.Planner = planner
	_, stop := run(t, r.o)
	first := r.publish(letterTo("1"))
	require.Equal(t, []string{"b:delivered"}, r.ended(first).vias(first))

	b.Store(true)
	second := r.publish(letterTo("2"))
	r.until("it waits for b", func(h history) bool { return h.state(second).Waits == event.WaitBusy })
	turned := letterTo("3")
	turned.Type = "turned.x"
	third := r.publish(turned)
	h := r.ended(third)
	require.Equal(t, event.Processed, h.state(third).Outcome)
	require.Contains(t, h.vias(third), "a:delivered")
	require.NoError(t, stop())
	require.Equal(t, 1, r.aside("mail:b"))

	r.running(t) // what waits outlasts the process
	b.Store(false)
	h = r.ended(second)
	vias := h.vias(second)
	require.Equal(t, "b:delivered", vias[len(vias)-1], "%q", vias)
	require.NotContains(t, vias, "a:delivered")
	r.emptied()
}
