package letters_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"tidings/dispatcher"
	"tidings/dispatcher/channel"
	"tidings/dispatcher/channel/channeltest/sink"
	"tidings/dispatcher/channel/webhook"
	"tidings/dispatcher/letters"
	"tidings/dispatcher/plan"
	"tidings/streams"
	"tidings/streams/event"
	"tidings/streams/streamstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var ann = letters.Word{Operator: "ann@desk", Reason: "the shop is back"}

// rig is a log, a dispatcher on it, a receiver of webhooks that can be down, and
// the operators' desk.
type rig struct {
	*testing.T
	log  *streams.Log
	sink *sink.HTTP
	down atomic.Bool // what is at /flaky answers 500
	o    dispatcher.Options
	desk *letters.Desk
}

func newRig(t *testing.T, opts ...streamstest.Option) *rig {
	t.Helper()
	r := &rig{T: t, log: streamstest.New(t, opts...)}
	s, err := sink.StartHTTP(sink.HTTPOptions{Handle: map[string]http.HandlerFunc{"/flaky": r.flaky}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	r.sink = s
	planner, err := plan.Compile(plan.Rules{Routes: []plan.Route{
		{Name: "hook", Event: "order.*", Channel: "hook", Recipients: "data.urls"},
		{Name: "mail", Event: "mail.*", Channel: "mail", Recipients: "data.to", Template: "letter"},
	}}, fstest.MapFS{
		"letter/subject.txt": {Data: []byte("About {{.data.name}}")},
		"letter/text.txt":    {Data: []byte("Hello {{.data.name}}")},
	}, plan.Options{
		Secret: []byte("0123456789abcdef0123456789abcdef"),
		Channels: map[string]plan.Channel{
			"hook": {Kind: plan.Webhook, OnUnknown: event.Resend}, "mail": {Kind: plan.Email, OnUnknown: event.Hold},
		},
	})
	require.NoError(t, err)
	hooks, err := webhook.New(webhook.Config{AllowPrivate: true, Secrets: []string{webhook.NewSecret()}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = hooks.Close() })
	policy := dispatcher.Policy{Base: time.Millisecond, Rounds: []time.Duration{}, Failures: 1 << 30}
	r.o = dispatcher.Options{
		Log: r.log, Planner: planner, Owner: event.Owner{Instance: "here", Boot: event.NewNonce()},
		Channels: map[string]dispatcher.Channel{
			"hook": {Sender: hooks, Policy: policy}, "mail": {Sender: channel.SenderFunc(lostAnswer), Policy: policy},
		},
	}
	r.desk = letters.New(r.options(r.log.DeadLetters))
	return r
}

func (r *rig) options(store letters.Store) letters.Options {
	return letters.Options{
		Outcomes: r.log.Outcomes, Letters: store, Events: r.log.Events, Waker: r.log.Retries,
		Door: door{r.log.Events}, Planner: r.o.Planner, Suppressions: suppressed{},
	}
}

// suppressed is the one recipient that nothing is sent to.
type suppressed struct{}

func (suppressed) Suppressed(_ context.Context, _, _ string, to event.Recipient) (string, bool, error) {
	return "unsubscribed", strings.HasPrefix(to.Mask, "z"), nil
}

func (r *rig) flaky(w http.ResponseWriter, _ *http.Request) {
	if r.down.Load() {
		w.WriteHeader(http.StatusInternalServerError)
	}
}

// lostAnswer is a mail server whose answer after DATA never comes.
func lostAnswer(context.Context, channel.Message) (channel.Receipt, error) {
	return channel.Receipt{}, channel.Unknown("connection_lost", nil)
}

// dispatch runs a dispatcher until the test ends or stop is called.
func (r *rig) dispatch() (stop func()) {
	r.Helper()
	d, err := dispatcher.New(r.o)
	require.NoError(r, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			cancel()
			require.NoError(r, <-done)
		}
	}
	r.Cleanup(stop)
	return stop
}

// order publishes an event that is sent to paths of the sink.
func (r *rig) order(id string, paths ...string) event.Key {
	r.Helper()
	urls := make([]string, len(paths))
	for i, p := range paths {
		urls[i] = r.sink.URL(p)
	}
	return r.publish(id, "order.placed", map[string]any{"urls": urls})
}

func (r *rig) publish(id, typ string, data any) event.Key {
	r.Helper()
	body, err := json.Marshal(data)
	require.NoError(r, err)
	e := event.Envelope{Tenant: "acme", Source: "shop", ID: id, IDSource: event.IDMessageID, Type: typ, ContentType: "application/json", Data: body}
	got, err := r.log.Events.Publish(r.Context(), streams.Incoming{Envelope: e, Nonce: event.NewNonce()})
	require.NoError(r, err)
	return got.Key
}

// reaches waits until the event's last state is as wanted, and returns it.
func (r *rig) reaches(key event.Key, generation int, phase event.Phase) event.State {
	r.Helper()
	var s event.State
	require.Eventually(r, func() bool {
		last, err := r.log.Outcomes.Last(r.Context(), "acme", key)
		s = last.Record.State
		return err == nil && s.Generation == generation && s.Phase == phase
	}, 30*time.Second, 5*time.Millisecond)
	return s
}

// target names the letter of an event that is there now.
func (r *rig) target(key event.Key) letters.Target {
	r.Helper()
	_, at, err := r.log.DeadLetters.Get(r.Context(), "acme", key)
	require.NoError(r, err)
	return letters.Target{Tenant: "acme", Key: key, Sequence: at}
}

func (r *rig) noLetter(key event.Key) {
	r.Helper()
	require.Eventually(r, func() bool {
		_, _, err := r.log.DeadLetters.Get(r.Context(), "acme", key)
		return err != nil
	}, 30*time.Second, 5*time.Millisecond)
	_, _, err := r.log.DeadLetters.Get(r.Context(), "acme", key)
	require.ErrorIs(r, err, streams.ErrNotFound)
}

// calls returns the webhook-ids of the calls of a path.
func (r *rig) calls(path string) []string {
	var ids []string
	for _, req := range r.sink.Requests() {
		if req.Path == path {
			ids = append(ids, req.ID)
		}
	}
	return ids
}

func isGone(err error) bool { return errors.Is(err, streams.ErrNotFound) }

func asConflict(err error, into *letters.ConflictError) bool {
	c, ok := errors.AsType[*letters.ConflictError](err)
	if ok {
		*into = *c
	}
	return ok
}

// refused is a mail server that refuses for good.
func refused(context.Context, channel.Message) (channel.Receipt, error) {
	return channel.Receipt{}, channel.Permanent("smtp_550", nil)
}
