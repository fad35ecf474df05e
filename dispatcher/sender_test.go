package dispatcher_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/dispatcher"
	"tidings/dispatcher/channel"
	"tidings/streams/event"
)

// sends replaces the sender of hooks.
func (r *rig) sends(policy dispatcher.Policy, send channel.SenderFunc) {
	r.o.Channels = map[string]dispatcher.Channel{"hook": {Sender: send, Policy: policy}}
}

func TestARateLimitOfNoTimeWorthNamingDoesNotLoop(t *testing.T) {
	var calls atomic.Int32
	r := newRig(t, newLog(t), nil)
	r.sends(dispatcher.Policy{}, func(context.Context, channel.Message) (channel.Receipt, error) {
		if calls.Add(1) == 3 {
			return channel.Receipt{Code: "ok"}, nil
		}
		return channel.Receipt{}, channel.RateLimited("http_429", time.Nanosecond, nil)
	})
	r.start(r.o)
	key := r.publish(r.order("1", "/x"))
	h := r.ended(key)
	require.Equal(t, []string{
		"claimed", "planned tried:rate_limited waiting",
		"claimed", "tried:rate_limited waiting",
		"claimed", "tried:delivered settled",
	}, h.facts(key))
	require.Positive(t, h.state(key).DeferredMS, "what is waited counts against the day that rate limits may take")
}

func TestATransientAnswerThatNamesAShortTimeIsWaitedForInPlace(t *testing.T) {
	const after = 300 * time.Millisecond
	var calls atomic.Int32
	r := newRig(t, newLog(t), nil)
	r.sends(dispatcher.Policy{Base: time.Millisecond}, func(context.Context, channel.Message) (channel.Receipt, error) {
		if calls.Add(1) == 1 {
			e := channel.Transient("http_503", nil)
			e.After = after
			return channel.Receipt{}, e
		}
		return channel.Receipt{Code: "ok"}, nil
	})
	r.start(r.o)
	key := r.publish(r.order("1", "/x"))
	h := r.ended(key)
	require.Equal(t, []string{"claimed", "planned tried:transient tried:delivered settled"}, h.facts(key))
	first, second := h.records[1].Facts[1].(event.Tried), h.records[1].Facts[2].(event.Tried)
	require.GreaterOrEqual(t, second.Started.Sub(first.Ended), after)
}

func TestSendersThatMisbehave(t *testing.T) {
	for name, c := range map[string]struct {
		policy dispatcher.Policy
		send   func(call int32) error
		facts  []string
	}{
		"a panic is an unknown fate, said before the repeat": {
			dispatcher.Policy{}, func(n int32) error {
				if n == 1 {
					panic("boom")
				}
				return nil
			}, []string{"claimed", "planned tried:unknown claimed", "tried:delivered settled"},
		},
		"an error of no class is an unknown fate": {
			dispatcher.Policy{}, func(n int32) error {
				if n == 1 {
					return context.DeadlineExceeded
				}
				return nil
			}, []string{"claimed", "planned tried:unknown claimed", "tried:delivered settled"},
		},
		"a rate limit without a time burns a try": {
			dispatcher.Policy{Tries: 1},
			func(int32) error { return channel.RateLimited("http_429", 0, nil) },
			[]string{"claimed", "planned tried:transient gave_up claimed", "dead"},
		},
		"a negative time is none": {
			dispatcher.Policy{Tries: 1},
			func(int32) error { return channel.RateLimited("http_429", -time.Hour, nil) },
			[]string{"claimed", "planned tried:transient gave_up claimed", "dead"},
		},
		"unknown ends burn tries until none is left": {
			dispatcher.Policy{Tries: 2},
			func(int32) error { return channel.Unknown("timeout", nil) },
			[]string{"claimed", "planned tried:unknown claimed", "tried:unknown gave_up claimed", "dead"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int32
			r := newRig(t, newLog(t), nil)
			c.policy.Base = time.Millisecond
			r.sends(c.policy, func(context.Context, channel.Message) (channel.Receipt, error) {
				return channel.Receipt{}, c.send(calls.Add(1))
			})
			r.start(r.o)
			key := r.publish(r.order("1", "/x"))
			require.Equal(t, c.facts, r.ended(key).facts(key))
		})
	}
}

func TestAChannelThatThePlanKnowsAndTheDispatcherDoesNot(t *testing.T) {
	r := newRig(t, newLog(t), nil)
	r.o.Channels = map[string]dispatcher.Channel{"mail": r.o.Channels["mail"]}
	r.start(r.o)
	key := r.publish(r.order("1", "/x"))
	h := r.ended(key)
	require.Equal(t, "no_channel", h.state(key).Messages[0].Reason)
	require.Equal(t, event.PhaseDead, h.state(key).Phase)
}
