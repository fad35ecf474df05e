package replay_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"tidings/dispatcher"
	"tidings/dispatcher/channel/channeltest/sink"
	"tidings/dispatcher/channel/webhook"
	"tidings/dispatcher/letters"
	"tidings/dispatcher/plan"
	"tidings/dispatcher/replay"
	"tidings/streams"
	"tidings/streams/event"
	"tidings/streams/streamstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a log, a dispatcher on it, a partner that can be down, and n dead letters
// of the time when it was.
type rig struct {
	*testing.T
	log     *streams.Log
	sink    *sink.HTTP
	down    atomic.Bool
	desk    *letters.Desk
	keys    []event.Key
	letters []event.ReplayLetter
}

func newRig(t *testing.T, n int) *rig {
	t.Helper()
	r := &rig{T: t, log: streamstest.New(t)}
	s, err := sink.StartHTTP(sink.HTTPOptions{Keep: 10_000, Handle: map[string]http.HandlerFunc{
		"/partner": func(w http.ResponseWriter, _ *http.Request) {
			if r.down.Load() {
				w.WriteHeader(http.StatusInternalServerError)
			}
		},
		"/never": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
	}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	r.sink = s
	planner, err := plan.Compile(plan.Rules{Routes: []plan.Route{{Name: "hook", Event: "**", Channel: "hook", Recipients: "data.to"}}}, nil, plan.Options{
		Secret: []byte("0123456789abcdef0123456789abcdef"), Channels: map[string]plan.Channel{"hook": {Kind: plan.Webhook, OnUnknown: event.Resend}},
	})
	require.NoError(t, err)
	hooks, err := webhook.New(webhook.Config{AllowPrivate: true, Secrets: []string{webhook.NewSecret()}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = hooks.Close() })
	d, err := dispatcher.New(dispatcher.Options{
		Log: r.log, Planner: planner, Owner: event.Owner{Instance: "here", Boot: event.NewNonce()},
		Channels: map[string]dispatcher.Channel{"hook": {Sender: hooks, Policy: dispatcher.Policy{
			Tries: 1, Base: time.Millisecond, Rounds: []time.Duration{}, Failures: 1 << 30,
		}}},
	})
	require.NoError(t, err)
	streamstest.Run(t, d.Run)
	r.desk = letters.New(letters.Options{Outcomes: r.log.Outcomes, Letters: r.log.DeadLetters, Events: r.log.Events, Waker: r.log.Retries, Planner: planner})
	r.down.Store(true)
	for i := range n {
		r.bury(fmt.Sprint(i), "/partner")
	}
	return r
}

// bury makes a dead letter of an event that goes to a path.
func (r *rig) bury(id, path string) event.Key {
	r.Helper()
	body, err := json.Marshal(map[string]any{"to": r.sink.URL(path)})
	require.NoError(r, err)
	got, err := r.log.Events.Publish(r.Context(), streams.Incoming{Nonce: event.NewNonce(), Envelope: event.Envelope{
		Tenant: "acme", Source: "shop", ID: id, IDSource: event.IDMessageID, Type: "order.placed", ContentType: "application/json", Data: body,
	}})
	require.NoError(r, err)
	r.eventually("a dead letter", func() bool { return r.state(got.Key).Phase == event.PhaseDead })
	_, at, err := r.log.DeadLetters.Get(r.Context(), "acme", got.Key)
	require.NoError(r, err)
	r.keys = append(r.keys, got.Key)
	r.letters = append(r.letters, event.ReplayLetter{Tenant: "acme", Key: got.Key, Sequence: at})
	return got.Key
}

func (r *rig) state(key event.Key) event.State {
	last, _ := r.log.Outcomes.Last(r.Context(), "acme", key)
	return last.Record.State
}

func (r *rig) eventually(what string, ok func() bool) {
	r.Helper()
	require.Eventually(r, ok, 30*time.Second, 5*time.Millisecond, what)
}

func (r *rig) replayer(desk replay.Desk) *replay.Replayer {
	return replay.New(replay.Options{Log: r.log.Outcomes, Desk: desk, Look: 5 * time.Millisecond})
}

func order() event.ReplayOrder {
	return event.ReplayOrder{Operator: "ann", Reason: "the partner is back"}
}

// over waits until a plan is over.
func (r *rig) over(p *replay.Replayer, id string) replay.State {
	r.Helper()
	var s replay.State
	r.eventually("the plan is over", func() bool {
		var err error
		s, err = p.Get(r.Context(), id)
		return err == nil && s.Over()
	})
	return s
}

// deliveries counts the calls that the partner answered well, by webhook-id.
func (r *rig) deliveries() map[string]int {
	n := map[string]int{}
	for _, req := range r.sink.Requests() {
		if strings.HasPrefix(req.Path, "/partner") && req.Status == http.StatusOK {
			n[req.ID]++
		}
	}
	return n
}

func TestAPlanRequeuesItsLettersAndReports(t *testing.T) {
	r := newRig(t, 5)
	never := r.bury("never", "/never")
	r.down.Store(false)
	p := r.replayer(r.desk)
	streamstest.Run(t, p.Run)
	_, err := r.desk.Requeue(t.Context(), letters.Target{Tenant: "acme", Key: r.keys[1]}, letters.Word{Operator: "bob", Reason: "faster"})
	require.NoError(t, err)
	r.eventually("bob's is settled", func() bool { return r.state(r.keys[1]).Phase == event.PhaseSettled })

	made, err := p.Create(t.Context(), order(), r.letters)
	require.NoError(t, err)
	require.Equal(t, replay.Running, made.Phase)
	s := r.over(p, made.ID)
	require.Equal(t, replay.Ended, s.Phase, "it ends, although a letter failed again")
	require.Equal(t, event.ReplayProgress{Done: 6, Requeued: 5, Skipped: 1, Delivered: 4, Dead: 1}, s.Progress)
	for _, n := range r.deliveries() {
		require.Equal(t, 1, n)
	}
	require.Equal(t, 1, r.state(never).Generation, "and gets no second generation of the plan")

	listed, err := p.List(t.Context())
	require.NoError(t, err)
	require.Len(t, listed, 1)
	require.Equal(t, s, listed[0])
	_, err = p.Stop(t.Context(), made.ID, "ann", "too late")
	require.ErrorIs(t, err, replay.ErrOver)
}

func TestACanaryThatFailsStopsThePlan(t *testing.T) {
	r := newRig(t, 4)
	p := r.replayer(r.desk)
	streamstest.Run(t, p.Run)
	o := order()
	o.Canary = 2
	made, err := p.Create(t.Context(), o, r.letters) // the partner is still down
	require.NoError(t, err)
	s := r.over(p, made.ID)
	require.Equal(t, replay.Stopped, s.Phase)
	require.Contains(t, s.Reason, "the canary failed")
	require.Equal(t, event.ReplayProgress{Done: 2, Requeued: 2, Dead: 2}, s.Progress)
	require.Zero(t, r.state(r.keys[3]).Generation, "the rest is as it was")
}

func TestACanaryThatEndsWellLetsTheRestFollow(t *testing.T) {
	r := newRig(t, 3)
	r.down.Store(false)
	p := r.replayer(r.desk)
	streamstest.Run(t, p.Run)
	o := order()
	o.Canary, o.Rate = 1, 1000
	made, err := p.Create(t.Context(), o, r.letters)
	require.NoError(t, err)
	require.Equal(t, event.ReplayProgress{Done: 3, Requeued: 3, Delivered: 3}, r.over(p, made.ID).Progress)
}

// dying is a desk whose process dies at the n-th letter: before or after the log has
// the requeue.
type dying struct {
	replay.Desk
	at     int
	after  bool
	calls  int
	killed context.CancelFunc
}

func (d *dying) Requeue(ctx context.Context, t letters.Target, w letters.Word) (letters.Requeued, error) {
	if d.calls++; d.calls == d.at {
		if d.after {
			_, _ = d.Desk.Requeue(context.WithoutCancel(ctx), t, w)
		}
		d.killed()
		return letters.Requeued{}, context.Canceled
	}
	return d.Desk.Requeue(ctx, t, w)
}

func TestAPlanGoesOnAfterACrash(t *testing.T) {
	for name, after := range map[string]bool{"before a letter is requeued": false, "after it was, and before that is noted": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 5)
			r.down.Store(false)
			ctx, cancel := context.WithCancel(t.Context())
			first := r.replayer(&dying{Desk: r.desk, at: 3, after: after, killed: cancel})
			made, err := first.Create(t.Context(), order(), r.letters)
			require.NoError(t, err)
			require.NoError(t, first.Run(ctx))

			second := r.replayer(r.desk)
			streamstest.Run(t, second.Run)
			s := r.over(second, made.ID)
			require.Equal(t, event.ReplayProgress{Done: 5, Requeued: 5, Delivered: 5}, s.Progress)
			require.Len(t, r.deliveries(), 5)
			for _, key := range r.keys {
				require.Equal(t, 1, r.state(key).Generation, "each letter got one generation")
			}
			for _, n := range r.deliveries() {
				require.Equal(t, 1, n)
			}
		})
	}
}

func TestAPlanThatWasCutOffWhileItWasMadeIsStoppedAndSaysSo(t *testing.T) {
	r := newRig(t, 2)
	ctx, cut := context.WithCancel(t.Context())
	defer cut()
	log := &cutOff{Outcomes: r.log.Outcomes, after: 1, cut: cut}
	first := replay.New(replay.Options{Log: log, Desk: r.desk})
	_, err := first.Create(ctx, order(), r.letters)
	require.ErrorIs(t, err, context.Canceled)
	plans, err := first.List(t.Context())
	require.NoError(t, err)
	require.Len(t, plans, 1)
	require.Equal(t, replay.Listing, plans[0].Phase)

	second := r.replayer(r.desk)
	streamstest.Run(t, second.Run)
	end := r.over(second, plans[0].ID)
	require.Equal(t, replay.Stopped, end.Phase)
	require.Equal(t, "it was cut off when 0 of its 2 letters were written down, and has done nothing: make it again", end.Reason)
	for _, key := range r.keys {
		require.Equal(t, event.PhaseDead, r.state(key).Phase)
	}
}

// cutOff is a log that is lost after so many entries.
type cutOff struct {
	*streams.Outcomes
	after int
	cut   context.CancelFunc
}

func (c *cutOff) AppendReplay(ctx context.Context, e event.Replay, after uint64) (uint64, error) {
	if c.after--; c.after < 0 {
		c.cut()
		return 0, ctx.Err()
	}
	return c.Outcomes.AppendReplay(ctx, e, after)
}

func TestAnOperatorStopsAPlan(t *testing.T) {
	r := newRig(t, 3)
	r.down.Store(false)
	p := r.replayer(r.desk)
	streamstest.Run(t, p.Run)
	o := order()
	o.Rate = 0.001 // one now, and the next much later
	made, err := p.Create(t.Context(), o, r.letters)
	require.NoError(t, err)
	r.eventually("the first is requeued", func() bool { return r.state(r.keys[0]).Generation == 1 })
	s, err := p.Stop(t.Context(), made.ID, "bob", "wrong filter")
	require.NoError(t, err)
	require.Equal(t, replay.Stopped, s.Phase)
	require.Equal(t, "bob", s.Operator)
	require.Equal(t, "wrong filter", s.Reason)
	require.Zero(t, r.state(r.keys[2]).Generation)
}

func TestWhatIsNoPlanIsRefused(t *testing.T) {
	r := newRig(t, 0)
	p := r.replayer(r.desk)
	one := []event.ReplayLetter{{Tenant: "acme", Key: event.NewKey("x")}}
	for name, c := range map[string]struct {
		order   event.ReplayOrder
		letters []event.ReplayLetter
		want    string
	}{
		"without letters":    {order(), nil, "no dead letter is chosen"},
		"with too many":      {order(), make([]event.ReplayLetter, replay.MaxLetters+1), "choose fewer"},
		"without a reason":   {event.ReplayOrder{Operator: "ann"}, one, "an operator and a reason"},
		"of nobody":          {event.ReplayOrder{Reason: "why"}, one, "an operator and a reason"},
		"at a negative rate": {event.ReplayOrder{Operator: "ann", Reason: "why", Rate: -1}, one, "not negative"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := p.Create(t.Context(), c.order, c.letters)
			require.ErrorIs(t, err, replay.ErrOrder)
			require.ErrorContains(t, err, c.want)
		})
	}
	_, err := p.Get(t.Context(), event.NewNonce())
	require.ErrorIs(t, err, streams.ErrNotFound)
	_, err = p.Get(t.Context(), "../x")
	require.ErrorIs(t, err, streams.ErrNotFound)
}
