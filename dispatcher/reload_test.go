package dispatcher_test

import (
	"context"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/dispatcher"
	"tidings/dispatcher/channel"
	"tidings/dispatcher/plan"
	"tidings/streams/event"
)

// held is a sender that says when it is called, and ends when it is told to.
type held struct {
	inside, release chan struct{}
}

func (h *held) Send(context.Context, channel.Message) (channel.Receipt, error) {
	h.inside <- struct{}{}
	<-h.release
	return channel.Receipt{Code: "old"}, nil
}

func ok(code string) channel.Sender {
	return channel.SenderFunc(func(context.Context, channel.Message) (channel.Receipt, error) {
		return channel.Receipt{Code: code}, nil
	})
}

// otherRules are those of the rig without the route to hooks by its old name.
func otherRules(t *testing.T) dispatcher.Planner {
	t.Helper()
	p, err := plan.Compile(plan.Rules{Routes: []plan.Route{
		{Name: "other", Event: "**", Channel: "hook", Recipients: "data.urls"},
	}}, nil, plan.Options{Secret: testSecret, Channels: map[string]plan.Channel{"hook": {Kind: plan.Webhook, OnUnknown: event.Resend}}})
	require.NoError(t, err)
	return p
}

// setup returns what the rig's dispatcher works by.
func (r *rig) setup() dispatcher.Setup {
	return dispatcher.Setup{Planner: r.o.Planner, Channels: maps.Clone(r.o.Channels), Suppressions: r.o.Suppressions, Staleness: r.o.Staleness}
}

func calledCode(h history, key event.Key) (codes []string) {
	for _, rec := range h.records {
		for _, f := range rec.Facts {
			if tried, ok := f.(event.Tried); ok && rec.Event.Key == key {
				codes = append(codes, tried.Code)
			}
		}
	}
	return codes
}

func claimedBy(h history, key event.Key) (revisions []string) {
	for _, rec := range h.records {
		for _, f := range rec.Facts {
			if c, ok := f.(event.Claimed); ok && rec.Event.Key == key {
				revisions = append(revisions, c.Config)
			}
		}
	}
	return revisions
}

func TestAnotherSetupComesIntoForceWithOneSwap(t *testing.T) {
	r := newRig(t, newLog(t), nil)
	old := &held{inside: make(chan struct{}, 1), release: make(chan struct{})}
	r.o.Channels = map[string]dispatcher.Channel{"hook": {Sender: old}}
	d := r.running(t)
	first := r.publish(r.order("1", "/x"))
	<-old.inside

	next := r.setup()
	next.Planner, next.Channels = otherRules(t), map[string]dispatcher.Channel{"hook": {Sender: ok("new")}}
	ended, err := d.Reload(next)
	require.NoError(t, err)
	second := r.publish(r.order("2", "/x"))
	h := r.ended(second)

	require.Equal(t, []string{next.Planner.Revision()}, claimedBy(h, second), "what is claimed from then on is claimed by it")
	require.Equal(t, []string{"new"}, calledCode(h, second))
	require.Equal(t, "other", h.state(second).Messages[0].Route)
	select {
	case <-ended:
		t.Fatal("the sender before is still calling")
	default:
	}

	close(old.release)
	h = r.ended(first)
	require.Equal(t, []string{r.o.Planner.Revision()}, claimedBy(h, first), "what was in hand is finished by the one before")
	require.Equal(t, []string{"old"}, calledCode(h, first))
	require.Equal(t, event.Processed, h.state(first).Outcome)
	require.Equal(t, "hook", h.state(first).Messages[0].Route)
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		t.Fatal("the setup before does not end")
	}
}

func TestASetupThatCannotWorkChangesNothing(t *testing.T) {
	r := newRig(t, newLog(t), nil)
	d := r.running(t)
	for name, bad := range map[string]dispatcher.Setup{
		"without a planner": {Channels: r.o.Channels},
		"without a sender":  {Planner: r.o.Planner, Channels: map[string]dispatcher.Channel{"hook": {}}},
	} {
		_, err := d.Reload(bad)
		require.Error(t, err, name)
	}
	key := r.publish(r.order("1", "/ok"))
	require.Equal(t, event.Processed, r.ended(key).state(key).Outcome)
	require.Equal(t, 1, r.sink.Count())
}

// refusing is a sender that is the same one from setup to setup.
type refusing struct{ _ int }

func (*refusing) Send(context.Context, channel.Message) (channel.Receipt, error) {
	return channel.Receipt{}, channel.Transient("smtp_421", nil)
}

func TestWhatIsKnownOfAProviderStaysWithItsSender(t *testing.T) {
	r := newRig(t, newLog(t), nil)
	bad, policy := &refusing{}, dispatcher.Policy{Tries: 1, Failures: 1, OpenFor: time.Hour, Rounds: []time.Duration{time.Hour}}
	r.o.Channels["mail"] = dispatcher.Channel{Sender: bad, Policy: policy}
	d := r.running(t)
	first := r.publish(letterTo("1"))
	r.until("the channel is shut", func(h history) bool { return h.state(first).Waits != "" })
	require.Equal(t, dispatcher.BreakerOpen, channelStatus(d, "mail").Breaker)

	_, err := d.Reload(r.setup())
	require.NoError(t, err)
	require.Equal(t, dispatcher.BreakerOpen, channelStatus(d, "mail").Breaker, "the same sender with the same bounds")

	t.Run("also where another provider comes beside it", func(t *testing.T) {
		both := r.setup()
		both.Channels["mail"] = dispatcher.Channel{Policy: policy, Providers: []dispatcher.Provider{
			{Name: "mail", Sender: bad, Policy: policy}, {Name: "backup", Sender: ok("backup"), Policy: policy},
		}}
		_, err := d.Reload(both)
		require.NoError(t, err)
		status := channelStatus(d, "mail").Providers
		require.Equal(t, dispatcher.BreakerOpen, status[0].Breaker)
		require.Equal(t, dispatcher.BreakerClosed, status[1].Breaker)
	})
	t.Run("and what was set aside goes out by the other one", func(t *testing.T) {
		second := r.publish(letterTo("2"))
		require.Equal(t, event.Processed, r.ended(second).state(second).Outcome)
	})
}

func TestWhatWasSetAsideGoesOutWhenItsChannelIsAnotherOne(t *testing.T) {
	r := newRig(t, newLog(t), nil)
	r.o.Channels["mail"] = dispatcher.Channel{Sender: &refusing{}, Policy: dispatcher.Policy{
		Tries: 1, Failures: 1, OpenFor: time.Hour, Rounds: []time.Duration{time.Millisecond},
	}}
	d := r.running(t)
	first := r.publish(letterTo("1"))
	r.until("it was set aside", func(h history) bool { return h.state(first).Waits == event.WaitBusy })
	next := r.setup()
	next.Channels["mail"] = dispatcher.Channel{Sender: ok("smtp_250")}
	_, err := d.Reload(next)
	require.NoError(t, err)
	h := r.ended(first)
	require.Equal(t, event.Processed, h.state(first).Outcome)
	require.Equal(t, []string{"smtp_421", "smtp_250"}, calledCode(h, first))
}

func TestAChannelThatComesWithAReloadIsLookedAfter(t *testing.T) {
	r := newRig(t, newLog(t), nil)
	r.o.Planner = otherRules(t)
	delete(r.o.Channels, "mail")
	d := r.running(t)
	next := r.setup()
	planner, err := newPlanner()
	require.NoError(t, err)
	next.Planner = planner
	var mail down
	mail.Store(true)
	next.Channels["mail"] = dispatcher.Channel{Sender: mail.sender("smtp_421"), Policy: dispatcher.Policy{
		Tries: 1, Failures: 1, OpenFor: 3 * time.Second, Rounds: []time.Duration{time.Millisecond},
	}}
	_, err = d.Reload(next)
	require.NoError(t, err)
	key := r.publish(letterTo("1"))
	r.until("it was set aside", func(h history) bool { return h.state(key).Waits == event.WaitBusy })
	mail.Store(false)
	require.Equal(t, event.Processed, r.ended(key).state(key).Outcome)
}

func TestAnEventThatWaitsKeepsItsFrozenPlan(t *testing.T) {
	planner := func(recipients string) dispatcher.Planner {
		p, err := plan.Compile(plan.Rules{Routes: []plan.Route{{Name: "hook", Event: "**", Channel: "hook", Recipients: recipients}}}, nil,
			plan.Options{Secret: testSecret, Channels: map[string]plan.Channel{"hook": {Kind: plan.Webhook, OnUnknown: event.Resend}}})
		require.NoError(t, err)
		return p
	}
	r := newRig(t, newLog(t), nil)
	r.o.Planner = planner("data.urls[0]")
	r.o.Channels = map[string]dispatcher.Channel{"hook": {Sender: &refusing{}, Policy: dispatcher.Policy{
		Tries: 1, Rounds: []time.Duration{100 * time.Millisecond, time.Hour},
	}}}
	next := r.setup()
	next.Planner = planner("data.urls")
	next.Channels = map[string]dispatcher.Channel{"hook": {Sender: ok("http_200"), Policy: dispatcher.Policy{Rounds: []time.Duration{time.Hour}}}}
	d := r.running(t)
	key := r.publish(r.order("1", "/one", "/two"))
	r.until("it waits", func(h history) bool { return h.state(key).Phase == event.PhaseWaiting })
	_, err := d.Reload(next)
	require.NoError(t, err)
	h := r.ended(key)
	require.Equal(t, event.Counts{Created: 1, Delivered: 1}, h.state(key).Counts(), "nobody is added")
	claims := claimedBy(h, key)
	require.Equal(t, r.o.Planner.Revision(), claims[0])
	require.Equal(t, next.Planner.Revision(), claims[len(claims)-1], "each claim says by what it was made")
}
