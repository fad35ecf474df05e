package dispatcher_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/dispatcher"
	"tidings/dispatcher/channel"
	"tidings/dispatcher/plan"
	"tidings/streams/event"
	"tidings/streams/streamstest"
)

// gone is an owner that will not come back: an earlier boot of this instance.
var gone = event.Owner{Instance: "here", Boot: "earlier"}

// leftBehind stores an event and the claim of an owner that is gone.
func (r *rig) leftBehind(e event.Envelope, owner event.Owner) event.Key {
	r.Helper()
	key := r.publish(e)
	stored, err := r.log.Events.Get(r.within(10*time.Second), 1)
	require.NoError(r, err)
	rec := event.NewRecord(stored.Ref, event.State{}, time.Now(), event.Claimed{Owner: owner, LeaseMS: 60_000, Limit: 64, Config: r.o.Planner.Revision()})
	_, err = r.log.Outcomes.Append(r.within(10*time.Second), rec, 0)
	require.NoError(r, err)
	return key
}

// appendLate appends facts as a late owner does, on top of whatever is there.
func (r *rig) appendLate(key event.Key, facts ...event.Fact) {
	last, err := r.log.Outcomes.Last(r.within(10*time.Second), "acme", key)
	require.NoError(r, err)
	rec := event.NewRecord(last.Record.Event, last.Record.State, time.Now(), facts...)
	_, err = r.log.Outcomes.Append(r.within(10*time.Second), rec, last.Sequence)
	require.NoError(r, err)
}

// plannerFunc is a planner with something to do on the way.
type plannerFunc struct {
	dispatcher.Planner
	plan func(event.Key, event.Envelope) (plan.Plan, error)
}

func (p plannerFunc) Plan(key event.Key, e event.Envelope) (plan.Plan, error) { return p.plan(key, e) }

func TestLateResultsOfAnOwnerThatWasTakenOver(t *testing.T) {
	// late lets the results of the owner before land once while the new one plans.
	late := func(t *testing.T, fault error) (*rig, event.Key) {
		r := newRig(t, newLog(t), nil)
		key := r.leftBehind(r.order("1", "/ok"), gone)
		planner, once := r.o.Planner, sync.Once{}
		r.o.Planner = plannerFunc{planner, func(key event.Key, e event.Envelope) (plan.Plan, error) {
			p, err := planner.Plan(key, e)
			once.Do(func() {
				r.appendLate(key, p.Fact, event.Tried{Message: p.Messages[0].ID, Try: 1, Result: event.TryDelivered, Started: time.Now(), Ended: time.Now()})
			})
			if fault != nil {
				return p, fault
			}
			return p, err
		}}
		r.start(r.o)
		return r, key
	}
	t.Run("are not taken for a crash of the new one, and what they say was sent is not sent again", func(t *testing.T) {
		r, key := late(t, nil)
		h := r.ended(key)
		require.Equal(t, []string{"claimed", "crashed claimed", "planned tried:delivered", "planned claimed", "settled"}, h.facts(key))
		require.Equal(t, 1, h.state(key).Crashes)
		require.Zero(t, r.sink.Count())
	})
	t.Run("are not taken for a crash when it becomes a dead letter", func(t *testing.T) {
		r, key := late(t, &plan.Error{Cause: event.CauseTemplateError, Detail: "changed meanwhile"})
		h := r.ended(key)
		require.Equal(t, []string{"claimed", "crashed claimed", "planned tried:delivered", "dead"}, h.facts(key))
		require.Equal(t, 1, h.state(key).Crashes)
	})
}

// suppressionsFunc are suppressions with something to do on the way.
type suppressionsFunc func()

func (f suppressionsFunc) Suppressed(context.Context, string, string, event.Recipient) (string, bool, error) {
	f()
	return "", false, nil
}

func TestAMessageInDoubtIsLookedUpJustBeforeItIsSentAgain(t *testing.T) {
	r := newRig(t, newLog(t), nil)
	key := r.leftBehind(r.order("1", "/ok"), gone)
	var once sync.Once
	r.o.Suppressions = suppressionsFunc(func() {
		once.Do(func() { // the owner before tells of its call only now
			last, err := r.log.Outcomes.Last(r.within(10*time.Second), "acme", key)
			require.NoError(t, err)
			m := last.Record.State.Messages[0]
			require.Equal(t, event.MessageUncertain, m.State)
			r.appendLate(key, event.Tried{Message: m.ID, Try: 1, Result: event.TryDelivered, Started: time.Now(), Ended: time.Now()})
		})
	})
	r.start(r.o)
	h := r.ended(key)
	require.Equal(t, []string{"claimed", "crashed claimed", "planned claimed", "tried:delivered", "settled"}, h.facts(key))
	require.Zero(t, r.sink.Count(), "what is recorded as delivered is not sent again")
}

func TestResultsWhoseAnswerWasLostAreToldOnce(t *testing.T) {
	server := streamstest.NewServer(t)
	line, log := server.DeafLog()
	r := newRig(t, server.Log(), nil)
	o := r.o
	o.Log = log
	hook := o.Channels["hook"]
	hook.Policy.Tries, hook.Policy.Rounds = 1, []time.Duration{time.Hour}
	real := hook.Sender
	hook.Sender = channel.SenderFunc(func(ctx context.Context, m channel.Message) (channel.Receipt, error) {
		line.DeafFrom("outcomes.acme")
		return real.Send(ctx, m)
	})
	o.Channels = map[string]dispatcher.Channel{"hook": hook}
	d, err := dispatcher.New(o)
	require.NoError(t, err)
	streamstest.Run(t, d.Run)

	key := r.publish(r.order("1", "/always500"))
	r.until("the results are there", func(h history) bool { return h.state(key).Phase == event.PhaseWaiting })
	r.appendLate(key, event.Claimed{Owner: event.Owner{Instance: "elsewhere", Boot: "1"}, LeaseMS: 60_000, Limit: 64})
	line.Repair()
	require.Eventually(t, func() bool { return d.Status().Steps == 1 }, 20*time.Second, 10*time.Millisecond)
	last, err := r.log.Outcomes.Last(r.within(5*time.Second), "acme", key)
	require.NoError(t, err)
	require.Equal(t, 3, last.Record.State.Revision, "nothing is appended behind the other's claim")
	require.Equal(t, 1, last.Record.State.Tries(), "one call is one try")
	require.Equal(t, 1, r.sink.Count())
}

func TestAClaimWhoseAnswerWasLostAndThatOthersResultsFollowIsGoneOnWith(t *testing.T) {
	server := streamstest.NewServer(t)
	line, log := server.DeafLog()
	r := newRig(t, server.Log(), nil)
	o := r.o
	o.Log = log
	var calls atomic.Int32
	o.Channels = map[string]dispatcher.Channel{"hook": {Policy: dispatcher.Policy{Base: time.Millisecond}, Sender: channel.SenderFunc(func(context.Context, channel.Message) (channel.Receipt, error) {
		if calls.Add(1) > 1 {
			return channel.Receipt{Code: "ok"}, nil
		}
		line.DeafFrom("outcomes.acme")
		return channel.Receipt{}, channel.Unknown("timeout", nil)
	})}}
	d, err := dispatcher.New(o)
	require.NoError(t, err)
	streamstest.Run(t, d.Run)

	key := r.publish(r.order("1", "/x"))
	h := r.until("the results are there", func(h history) bool { return h.state(key).Planned })
	r.appendLate(key, event.Tried{Message: h.state(key).Messages[0].ID, Try: 1, Result: event.TryUnknown, Started: time.Now(), Ended: time.Now()})
	line.Repair()
	require.Equal(t, []string{"claimed", "planned tried:unknown claimed", "tried:unknown", "tried:delivered settled"}, r.ended(key).facts(key))
	require.EqualValues(t, 2, calls.Load())
}
