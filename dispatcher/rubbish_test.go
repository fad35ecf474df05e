package dispatcher_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"tidings/dispatcher"
	"tidings/streams"
	"tidings/streams/event"
	"tidings/streams/streamstest"
)

// newStranger returns a rig, and a client that writes to its streams without asking.
func newStranger(t testing.TB, opts ...streamstest.Option) (*rig, *streamstest.Server, jetstream.JetStream) {
	t.Helper()
	server := streamstest.NewServer(t, opts...)
	js, err := jetstream.New(server.Connect())
	require.NoError(t, err)
	return newRig(t, server.Log(), nil), server, js
}

// put writes a message past Tidings.
func (r *rig) put(js jetstream.JetStream, subject string, h nats.Header, data string) {
	r.Helper()
	_, err := js.PublishMsg(r.within(10*time.Second), &nats.Msg{Subject: subject, Header: h, Data: []byte(data)})
	require.NoError(r, err)
}

// emptied waits until nothing is left in a stream of wake-ups.
func (r *rig) emptied() {
	r.Helper()
	require.Eventually(r, func() bool {
		info, err := r.log.Retries.Info(context.Background())
		return err == nil && info.Messages == 0
	}, 10*time.Second, 10*time.Millisecond, "wake-ups are left")
}

func TestRubbishAmongWakeUpsIsPutAway(t *testing.T) {
	key := string(event.NewKey("nobody"))
	one := string(event.Identity{}.Key(newEvent("1", "order.placed", nil)))
	for name, h := range map[string]nats.Header{
		"without headers":                     nil,
		"with a key that is none":             {streams.HeaderKey: {"no/key"}, streams.HeaderTenant: {"acme"}, streams.HeaderSequence: {"1"}},
		"without a sequence":                  {streams.HeaderKey: {key}, streams.HeaderTenant: {"acme"}},
		"with a sequence that does not exist": {streams.HeaderKey: {key}, streams.HeaderTenant: {"acme"}, streams.HeaderSequence: {"99"}},
		"for a copy of another event":         {streams.HeaderKey: {key}, streams.HeaderTenant: {"acme"}, streams.HeaderSequence: {"1"}},
		"for the event of another tenant":     {streams.HeaderKey: {one}, streams.HeaderTenant: {"evil"}, streams.HeaderSequence: {"1"}},
		"for a copy that is no event":         {streams.HeaderKey: {key}, streams.HeaderTenant: {"acme"}, streams.HeaderSequence: {"2"}},
	} {
		t.Run(name, func(t *testing.T) {
			r, _, js := newStranger(t)
			first := r.publish(r.order("1", "/ok"))
			r.put(js, "events.acme.rubbish", nil, "not an event")
			r.put(js, "retries.acme.x", h, "")
			r.start(r.o)
			r.emptied()
			r.ended(first)
			require.Equal(t, 1, r.sink.Count())
			second := r.publish(r.order("2", "/ok"))
			r.ended(second)
		})
	}
}

func TestRubbishAmongEventsBecomesADeadLetterEach(t *testing.T) {
	one, two := string(event.NewKey("one")), string(event.NewKey("two"))
	r, _, js := newStranger(t)
	r.put(js, "events.a", nil, "")
	r.put(js, "events.b.c", nil, "no headers")
	r.put(js, "events.b.d", nats.Header{jetstream.MsgIDHeader: {"no/key"}, streams.HeaderTenant: {"acme"}}, "wrong key")
	r.put(js, "events.b.e", nats.Header{jetstream.MsgIDHeader: {one}}, "no tenant")
	r.put(js, "events.b.f", nats.Header{jetstream.MsgIDHeader: {two}, streams.HeaderTenant: {"acme"}, "ce-time": {"yesterday"}}, "no time")
	r.put(js, "events.b.g", nats.Header{"X": {strings.Repeat("x", 60<<10)}}, "huge headers")
	r.start(r.o)
	r.ended(r.publish(r.order("1", "/ok")))
	require.Equal(t, 1, r.sink.Count())
	causes, enough := map[event.Cause]int{}, errors.New("enough")
	err := r.log.DeadLetters.Follow(r.within(5*time.Second), 1, func(e streams.Entry) error {
		causes[event.Cause(e.Header.Get(streams.HeaderCause))]++
		if causes[event.CauseUndecodable] == 6 {
			return enough
		}
		return nil
	})
	require.ErrorIs(t, err, enough, "%v", causes)
}

func TestRubbishInAHistoryHoldsNobodyUp(t *testing.T) {
	one := event.Identity{}.Key(newEvent("1", "order.placed", nil))
	r, _, js := newStranger(t)
	r.unchecked = true
	r.put(js, "outcomes.acme."+string(one), nil, "not a record")
	r.o.Workers = 1
	r.o.Consume.AckWait = 100 * time.Millisecond
	d, err := dispatcher.New(r.o)
	require.NoError(t, err)
	streamstest.Run(t, d.Run)
	r.publish(r.order("1", "/ok"))
	for _, id := range []string{"2", "3"} {
		key := r.publish(r.order(id, "/ok"))
		require.Eventually(t, func() bool {
			last, err := r.log.Outcomes.Last(context.Background(), "acme", key)
			return err == nil && last.Record.Final()
		}, 10*time.Second, 10*time.Millisecond)
	}
	require.Equal(t, 2, r.sink.Count(), "what may have been done about the first is not known, so nothing is")
}

func TestRecordsOfALaterVersion(t *testing.T) {
	r, _, js := newStranger(t)
	key := r.leftBehind(r.order("1", "/ok"), gone)
	last, err := r.log.Outcomes.Last(r.within(5*time.Second), "acme", key)
	require.NoError(t, err)
	data := asJSON(event.NewRecord(last.Record.Event, last.Record.State, time.Now(), event.UnknownFact{Kind: "pondered", Raw: []byte(`{"fact":"pondered"}`)}))
	data = strings.Replace(data, `"schema":1`, `"schema":99,"mood":"new"`, 1)
	r.put(js, "outcomes.acme."+string(key), nil, data)
	r.start(r.o)
	h := r.ended(key)
	require.Equal(t, []string{"claimed", "pondered", "crashed claimed", "planned claimed", "tried:delivered settled"}, h.facts(key))
}

func TestARecordOfAKindOfALaterVersionIsNotActedOn(t *testing.T) {
	r, _, js := newStranger(t)
	r.unchecked = true
	key := r.leftBehind(r.order("1", "/ok"), gone)
	last, err := r.log.Outcomes.Last(r.within(5*time.Second), "acme", key)
	require.NoError(t, err)
	next := event.NewRecord(last.Record.Event, last.Record.State, time.Now(), event.Settled{})
	next.Kind = "pondered"
	r.put(js, "outcomes.acme."+string(key), nil, asJSON(next))
	_, err = r.log.Outcomes.Last(r.within(5*time.Second), "acme", key)
	require.ErrorIs(t, err, streams.ErrForeign)
	require.ErrorContains(t, err, `the kind "pondered", which this version does not know`)
	r.start(r.o)
	r.ended(r.publish(r.order("2", "/ok")))
	require.Equal(t, 1, r.sink.Count(), "of the second")
}

func TestRubbishThatFitsInNoLetterIsKeptAsAnObject(t *testing.T) {
	r, _, js := newStranger(t)
	const size = 10 << 20 // as base64 more than the server takes
	r.put(js, "events.a", nil, strings.Repeat("x", size))
	r.start(r.o)
	letter := waitForLetter(t, r, event.DeliveryKey(event.DefaultTenant, streams.EventsStream, "events.a", "", bytes.Repeat([]byte("x"), size)))
	require.Empty(t, letter.Data)
	require.EqualValues(t, size, letter.PayloadObject.Size)
	payload, err := r.log.DeadLetters.Payload(t.Context(), letter)
	require.NoError(t, err)
	data, err := io.ReadAll(payload)
	require.NoError(t, err)
	require.True(t, bytes.Equal(bytes.Repeat([]byte("x"), size), data))
}
