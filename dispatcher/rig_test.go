package dispatcher_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/dispatcher"
	"tidings/dispatcher/channel"
	"tidings/dispatcher/channel/channeltest/sink"
	"tidings/dispatcher/channel/webhook"
	"tidings/dispatcher/plan"
	"tidings/streams"
	"tidings/streams/event"
	"tidings/streams/streamstest"
)

// testSecret keys the recipients' hashes.
var testSecret = []byte("0123456789abcdef0123456789abcdef")

// rules send each event of type order.* to the URLs it names.
var rules = plan.Rules{Routes: []plan.Route{
	{Name: "hook", Event: "order.*", Channel: "hook", Recipients: "data.urls", When: "data.quiet != true"},
	{Name: "mail", Event: "mail.*", Channel: "mail", Recipients: "data.to", Template: "letter"},
	{Name: "both-mail", Event: "both.*", Channel: "mail", Recipients: "data.to", Template: "letter"},
	{Name: "both-hook", Event: "both.*", Channel: "hook", Recipients: "data.urls"},
	{Name: "blank", Event: "blank.*", Channel: "mail", Recipients: "data.to", Template: "missing"},
}}

var templates = fstest.MapFS{
	"letter/subject.txt": {Data: []byte("About {{.data.name}}")},
	"letter/text.txt":    {Data: []byte("Hello {{.data.name}}")},
}

func mustPlanner(tb testing.TB) dispatcher.Planner {
	tb.Helper()
	p, err := newPlanner()
	require.NoError(tb, err)
	return p
}

func newPlanner() (dispatcher.Planner, error) {
	return plan.Compile(rules, fs.FS(templates), plan.Options{
		Secret: testSecret,
		Channels: map[string]plan.Channel{
			"hook": {Kind: plan.Webhook, OnUnknown: event.Resend},
			"mail": {Kind: plan.Email, OnUnknown: event.Hold},
		},
	})
}

// rig is a dispatcher's surroundings: a real log and a real HTTP receiver.
type sinkRequest = sink.Request

type rig struct {
	testing.TB
	log  *streams.Log
	sink *sink.HTTP
	o    dispatcher.Options
	// unchecked: the log holds what the dispatcher did not write.
	unchecked bool
}

// newRig returns a rig whose dispatcher calls the sink for hooks, with handle
// answering paths beside those that the sink knows.
func newRig(tb testing.TB, log *streams.Log, handle map[string]http.HandlerFunc) *rig {
	tb.Helper()
	s, err := sink.StartHTTP(sink.HTTPOptions{Handle: handle})
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = s.Close() })
	hooks, err := webhook.New(webhook.Config{AllowPrivate: true, Secrets: []string{webhook.NewSecret()}})
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = hooks.Close() })
	policy := dispatcher.Policy{Base: time.Millisecond, Failures: 1 << 30} // breakers have tests of their own
	r := &rig{TB: tb, log: log, sink: s, o: dispatcher.Options{
		Log: log, Planner: mustPlanner(tb), Staleness: 168 * time.Hour,
		Owner: event.Owner{Instance: "here", Boot: event.NewNonce()},
		Channels: map[string]dispatcher.Channel{
			"hook": {Sender: hooks, Policy: policy},
			"mail": {Sender: channel.SenderFunc(lostAnswer), Policy: policy},
		},
	}}
	tb.Cleanup(r.checkRecords)
	return r
}

// lostAnswer is a mail server whose answer after DATA never comes.
func lostAnswer(context.Context, channel.Message) (channel.Receipt, error) {
	return channel.Receipt{}, channel.Unknown("connection_lost", nil)
}

// start runs a dispatcher until the test ends or the returned function is called.
func (r *rig) start(o dispatcher.Options) (stop func()) {
	r.Helper()
	d, err := dispatcher.New(o)
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

// order returns an event that is sent to the given paths of the sink.
func (r *rig) order(id string, paths ...string) event.Envelope {
	urls := make([]string, len(paths))
	for i, p := range paths {
		urls[i] = r.sink.URL(p)
	}
	return newEvent(id, "order.placed", map[string]any{"urls": urls})
}

// calls returns how often a path of the sink was called, whatever it answered.
func (r *rig) calls(path string) int {
	n := 0
	for _, req := range r.sink.Requests() {
		if req.Path == path {
			n++
		}
	}
	return n
}

func newEvent(id, typ string, data any) event.Envelope {
	body, _ := json.Marshal(data)
	return event.Envelope{
		Tenant: "acme", Source: "shop", ID: id, IDSource: event.IDMessageID, Type: typ,
		ContentType: "application/json", Data: body,
	}
}

func (r *rig) publish(e event.Envelope) event.Key {
	r.Helper()
	e.Identify()
	got, err := r.log.Events.Publish(r.within(10*time.Second), streams.Incoming{Envelope: e, Nonce: event.NewNonce()})
	require.NoError(r, err)
	return got.Key
}

// within returns a context that bounds a wait.
func (r *rig) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	r.Cleanup(cancel)
	return ctx
}

// until follows OUTCOMES from its beginning until ok, and returns all entries.
func (r *rig) until(what string, ok func(history) bool) history {
	r.Helper()
	var h history
	enough := fmt.Errorf("enough")
	err := r.log.Outcomes.Follow(r.within(60*time.Second), 1, func(e streams.Entry) error {
		h.add(r, e)
		if ok(h) {
			return enough
		}
		return nil
	})
	require.ErrorIs(r, err, enough, "waiting until %s; seen so far:\n%s", what, h)
	return h
}

// all returns what OUTCOMES holds now.
func (r *rig) all() history {
	r.Helper()
	info, err := r.log.Outcomes.Info(r.within(10 * time.Second))
	require.NoError(r, err)
	if info.Last == 0 {
		return history{}
	}
	return r.until("all is read", func(h history) bool { return len(h.records)+len(h.duplicates) == int(info.Last) })
}

// ended waits until each of the events has ended.
func (r *rig) ended(keys ...event.Key) history {
	r.Helper()
	return r.until("the events have ended", func(h history) bool {
		for _, k := range keys {
			if !h.state(k).Ended() {
				return false
			}
		}
		return true
	})
}

// history is what OUTCOMES holds, in order.
type history struct {
	records    []event.Record
	duplicates []event.Duplicate
}

func (h *history) add(tb testing.TB, e streams.Entry) {
	if e.Header.Get(streams.HeaderKind) == string(event.KindDuplicate) {
		var d event.Duplicate
		require.NoError(tb, json.Unmarshal(e.Data, &d))
		h.duplicates = append(h.duplicates, d)
		return
	}
	rec, err := event.DecodeRecord(e.Data)
	require.NoError(tb, err)
	h.records = append(h.records, rec)
}

func (h history) state(k event.Key) event.State {
	var s event.State
	for _, r := range h.records {
		if r.Event.Key == k {
			s = r.State
		}
	}
	return s
}

// facts returns the kinds of an event's facts, a record to a line.
func (h history) facts(k event.Key) []string {
	var lines []string
	for _, r := range h.records {
		if r.Event.Key != k {
			continue
		}
		line := ""
		for _, f := range r.Facts {
			if line != "" {
				line += " "
			}
			line += string(f.FactKind())
			if t, ok := f.(event.Tried); ok {
				line += ":" + string(t.Result)
			}
		}
		lines = append(lines, line)
	}
	return lines
}

func (h history) String() string {
	out, seen := "", map[event.Key]bool{}
	for _, r := range h.records {
		if !seen[r.Event.Key] {
			seen[r.Event.Key] = true
			out += fmt.Sprintf("%s: %q\n", r.Event.ID, h.facts(r.Event.Key))
		}
	}
	return out + fmt.Sprintf("%d duplicates", len(h.duplicates))
}

// newLog returns a log that forgets after 100 ms which ids it has seen, so that
// a second copy of an event can be stored without waiting two minutes.
func newLog(tb testing.TB, opts ...streamstest.Option) *streams.Log {
	forgetful := func(o *streams.Options) { o.DuplicateWindow = 100 * time.Millisecond }
	return streamstest.New(tb, append(opts, forgetful)...)
}

func relaxed(*streams.Options) {}

// publishAgain stores another copy of an event beside those that are there: it
// publishes it until the duplicate window has forgotten the copy before.
func publishAgain(tb testing.TB, log *streams.Log, e event.Envelope) (sequence uint64) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	e.Identify()
	for {
		got, err := log.Events.Publish(ctx, streams.Incoming{Envelope: e, Nonce: event.NewNonce(), Again: true})
		require.NoError(tb, err)
		if !got.Duplicate {
			return got.Sequence
		}
	}
}

// waitForLetter waits until there is a dead letter under the key.
func waitForLetter(tb testing.TB, r *rig, key event.Key) event.Letter {
	tb.Helper()
	var letter event.Letter
	found := fmt.Errorf("found")
	err := r.log.DeadLetters.Follow(r.within(30*time.Second), 1, func(e streams.Entry) error {
		if err := json.Unmarshal(e.Data, &letter); err != nil || letter.Key != key {
			return err
		}
		return found
	})
	require.ErrorIs(tb, err, found)
	return letter
}
