package dispatcher_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/dispatcher"
	"tidings/dispatcher/channel"
	"tidings/dispatcher/plan"
	"tidings/streams/event"
	"tidings/streams/streamstest"
)

// What users of such systems have reported.

func TestTriesAreCountedInTheRecordsAndNotInMemory(t *testing.T) {
	r := newRig(t, newLog(t), nil)
	hook := r.o.Channels["hook"]
	hook.Policy.Tries, hook.Policy.Rounds = 2, []time.Duration{50 * time.Millisecond, 50 * time.Millisecond}
	r.o.Channels["hook"] = hook
	var key event.Key
	for round := range 3 { // each in a process of its own
		r.o.Owner.Boot = event.NewNonce()
		_, stop := run(t, r.o)
		if round == 0 {
			key = r.publish(r.order("1", "/always500"))
		}
		r.until("the round is over", func(h history) bool { return h.state(key).Tries() == 2*(round+1) })
		require.NoError(t, stop())
	}
	r.start(r.o)
	s := r.ended(key).state(key)
	require.Equal(t, event.CauseRoundsExhausted, s.Cause)
	require.Equal(t, 6, r.calls("/always500"))
	require.Equal(t, 6, s.Tries())
}

func TestACallIsNotLostBecauseTheLogIsGoneWhenItIsToBeRecorded(t *testing.T) {
	// refused returns a rig whose provider answers 500 and takes the log away.
	refused := func(t *testing.T) (*rig, *streamstest.Server, *dispatcher.Dispatcher, func() error, event.Key) {
		server := streamstest.NewServer(t)
		r := newRig(t, server.Log(), nil)
		hook := r.o.Channels["hook"]
		real, first := hook.Sender, true
		hook.Policy.Tries, hook.Policy.Rounds = 1, []time.Duration{time.Millisecond}
		hook.Sender = channel.SenderFunc(func(ctx context.Context, m channel.Message) (channel.Receipt, error) {
			receipt, err := real.Send(ctx, m)
			if first {
				first = false
				server.Stop()
			}
			return receipt, err
		})
		r.o.Channels["hook"] = hook
		r.o.Consume.Drain = 10 * time.Millisecond
		d, stop := run(t, r.o)
		key := r.publish(r.order("1", "/always500"))
		require.Eventually(t, inTrouble(d), 20*time.Second, time.Millisecond)
		return r, server, d, stop, key
	}
	t.Run("it is recorded when the log is back", func(t *testing.T) {
		r, server, _, stop, key := refused(t)
		server.Start()
		h := r.ended(key)
		require.Equal(t, []string{
			"claimed", "planned tried:transient waiting",
			"claimed", "tried:transient gave_up claimed", "dead",
		}, h.facts(key))
		require.Equal(t, 2, r.calls("/always500"))
		require.NoError(t, stop())
	})
	t.Run("and if the process ends before that, the next one says that it may have been", func(t *testing.T) {
		r, server, _, stop, key := refused(t)
		_ = stop()
		server.Start()
		r.o.Owner.Boot = event.NewNonce()
		r.start(r.o)
		require.NoError(t, r.log.Retries.Wake(r.within(10*time.Second), wakeupOf(key))) // as the steward does at start
		h := r.ended(key)
		require.Equal(t, []string{
			"claimed", "crashed claimed", "planned claimed", "tried:transient waiting",
			"claimed", "tried:transient gave_up claimed", "dead",
		}, h.facts(key))
		require.Equal(t, event.MessageUncertain, h.state(key).Messages[0].State)
		require.Equal(t, 1, h.state(key).Crashes)
	})
}

func TestADestinationThatIsRemovedWhileItsMessageWaits(t *testing.T) {
	compile := func(t *testing.T, routes ...plan.Route) dispatcher.Planner {
		p, err := plan.Compile(plan.Rules{Routes: routes}, nil, plan.Options{
			Secret: testSecret, Channels: map[string]plan.Channel{"hook": {Kind: plan.Webhook}},
		})
		require.NoError(t, err)
		return p
	}
	for name, c := range map[string]struct {
		remove func(*testing.T, *rig)
		reason string
	}{
		"its channel": {func(_ *testing.T, r *rig) { delete(r.o.Channels, "hook") }, "no_channel"},
		"its route":   {func(t *testing.T, r *rig) { r.o.Planner = compile(t) }, "not_in_plan"},
		"its recipient": {func(t *testing.T, r *rig) {
			r.o.Planner = compile(t, plan.Route{Name: "hook", Event: "order.*", Channel: "hook", Recipients: "[]"})
		}, "not_in_plan"},
	} {
		t.Run(name+": the message is given up by that name, and an operator is told", func(t *testing.T) {
			r := newRig(t, newLog(t), nil)
			hook := r.o.Channels["hook"]
			hook.Policy.Tries, hook.Policy.Rounds = 1, []time.Duration{100 * time.Millisecond}
			r.o.Channels["hook"] = hook
			_, stop := run(t, r.o)
			key := r.publish(r.order("1", "/always500"))
			r.until("it waits", func(h history) bool { return h.state(key).Phase == event.PhaseWaiting })
			require.NoError(t, stop())
			c.remove(t, r)
			r.start(r.o)
			h := r.ended(key)
			s := h.state(key)
			require.Equal(t, event.PhaseDead, s.Phase)
			require.Equal(t, c.reason, s.Messages[0].Reason, "%q", h.facts(key))
			require.Equal(t, 1, r.calls("/always500"), "nothing is sent to whom nobody may be sent to any more")
			letter, _, err := r.log.DeadLetters.Get(r.within(10*time.Second), "acme", key)
			require.NoError(t, err)
			require.NotEmpty(t, letter.Data)
		})
	}
}
