package bridge_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"tidings/bridge"
	"tidings/bridge/bridgetest"
	"tidings/streams"
	"tidings/streams/event"
	"tidings/streams/streamstest"
)

// world is a queue on a real broker, a real log, and what a bridge between them
// is made of.
type world struct {
	*testing.T
	vhost   *bridgetest.Vhost
	log     *streams.Log
	said    *recorder
	config  bridge.Config
	door    bridge.DoorOptions
	options bridge.Options
	bridge  *bridge.Bridge
	stop    func()
}

// newWorld makes all but the queue. Change what it holds before start.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, vhost: bridgetest.Private(t).Vhost(t), log: streamstest.New(t), said: &recorder{}}
	w.config = bridge.Config{
		URL: w.vhost.URL, Queue: "orders",
		Reconnect: bridge.Reconnect{Initial: 20 * time.Millisecond, Max: 200 * time.Millisecond, CrashLoop: 200 * time.Millisecond},
	}
	w.door = bridge.DoorOptions{Events: w.log.Events, Letters: w.log.DeadLetters, Audit: w.log.Outcomes}
	w.options = bridge.Options{Log: slog.New(w.said), LookEvery: 100 * time.Millisecond}
	return w
}

// withQueue also makes the queue, a quorum queue.
func withQueue(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.declare(w.config.Queue)
	return w
}

func (w *world) declare(queue string) {
	w.Helper()
	w.declareWith(queue, amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeQuorum})
}

func (w *world) declareWith(queue string, args amqp.Table) {
	w.Helper()
	_, err := w.channel().QueueDeclare(queue, true, false, false, false, args)
	require.NoError(w, err)
}

// start runs the bridge until the test ends or stop is called.
func (w *world) start() {
	w.Helper()
	var err error
	w.bridge, err = bridge.New(w.config, bridge.NewDoor(w.door), w.options)
	require.NoError(w, err)
	w.stop = streamstest.Run(w, w.bridge.Run)
}

// channel returns a channel of the test's own, which confirms.
func (w *world) channel() *amqp.Channel {
	w.Helper()
	conn, err := amqp.Dial(w.vhost.URL)
	require.NoError(w, err)
	w.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	require.NoError(w, err)
	require.NoError(w, ch.Confirm(false))
	return ch
}

// publish puts messages into the queue and returns when they are there.
func (w *world) publish(messages ...amqp.Publishing) {
	w.Helper()
	ch := w.channel()
	var confirms []*amqp.DeferredConfirmation
	for _, m := range messages {
		m.DeliveryMode = amqp.Persistent
		c, err := ch.PublishWithDeferredConfirm("", w.config.Queue, true, false, m)
		require.NoError(w, err)
		confirms = append(confirms, c)
	}
	for _, c := range confirms {
		acked, err := c.WaitContext(w.Context())
		require.NoError(w, err)
		require.True(w, acked)
	}
}

// eventually waits for something that nobody tells.
func (w *world) eventually(what string, holds func() bool) {
	w.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !holds() {
		if time.Now().After(deadline) {
			require.FailNow(w, "never came: "+what, "%+v\n%s", w.bridge.Status(), w.said.all())
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// settled waits until n events are in the log and everything is acknowledged,
// stops the bridge, and returns the events. Nothing is left in the queue then.
func (w *world) settled(n int) []streams.StoredEvent {
	w.Helper()
	w.eventually("events in the log", func() bool { return w.stored() >= n })
	w.acknowledged()
	events := w.events()
	require.Len(w, events, n)
	return events
}

// acknowledged waits until nothing is to be done, stops the bridge, and makes
// sure that the queue is empty.
func (w *world) acknowledged() {
	w.Helper()
	ch := w.channel()
	w.eventually("acknowledgements", func() bool { return w.bridge.Status().InHand == 0 && w.waiting(ch) == 0 })
	w.stop()
	require.Zero(w, w.waiting(ch), "left in the queue")
}

// stored returns the number of events, or -1 if the log does not answer.
func (w *world) stored() int {
	w.Helper()
	info, err := w.log.Events.Info(w.Context())
	if errors.Is(err, streams.ErrUnavailable) {
		return -1
	}
	require.NoError(w, err)
	return int(info.Messages)
}

// waiting returns the number of messages ready in the queue.
func (w *world) waiting(ch *amqp.Channel) int { return w.look(ch).Messages }

// back waits until n messages are ready in the queue: they come back a moment
// after the bridge has let go of them.
func (w *world) back(n int) {
	w.Helper()
	ch := w.channel()
	w.eventually("messages in the queue", func() bool { return w.waiting(ch) == n })
}

func (w *world) look(ch *amqp.Channel) amqp.Queue {
	w.Helper()
	q, err := ch.QueueDeclarePassive(w.config.Queue, true, false, false, false, nil)
	require.NoError(w, err)
	return q
}

func (w *world) events() []streams.StoredEvent {
	w.Helper()
	info, err := w.log.Events.Info(w.Context())
	require.NoError(w, err)
	var events []streams.StoredEvent
	for seq := max(info.First, 1); seq <= info.Last; seq++ {
		e, err := w.log.Events.Get(w.Context(), seq)
		require.NoError(w, err)
		events = append(events, e)
	}
	return events
}

func (w *world) ids() map[string]int {
	w.Helper()
	ids := map[string]int{}
	for _, e := range w.events() {
		ids[e.Envelope.ID]++
	}
	return ids
}

func (w *world) letters() []event.Letter {
	w.Helper()
	info, err := w.log.DeadLetters.Info(w.Context())
	require.NoError(w, err)
	var letters []event.Letter
	for seq := max(info.First, 1); seq <= info.Last; seq++ {
		entry, err := w.log.DeadLetters.Entry(w.Context(), seq)
		if errors.Is(err, streams.ErrNotFound) { // it was removed, or replaced
			continue
		}
		require.NoError(w, err)
		var l event.Letter
		require.NoError(w, json.Unmarshal(entry.Data, &l))
		letters = append(letters, l)
	}
	return letters
}

// payload returns the bytes that a letter keeps, wherever they are.
func (w *world) payload(l event.Letter) []byte {
	w.Helper()
	r, err := w.log.DeadLetters.Payload(w.Context(), l)
	require.NoError(w, err)
	data, err := io.ReadAll(r)
	require.NoError(w, err)
	return data
}

func (w *world) duplicates() []event.Duplicate {
	w.Helper()
	info, err := w.log.Outcomes.Info(w.Context())
	require.NoError(w, err)
	var duplicates []event.Duplicate
	for seq := max(info.First, 1); seq <= info.Last; seq++ {
		entry, err := w.log.Outcomes.Entry(w.Context(), seq)
		require.NoError(w, err)
		var d event.Duplicate
		require.NoError(w, json.Unmarshal(entry.Data, &d))
		duplicates = append(duplicates, d)
	}
	return duplicates
}

// plain is a message with an id.
func plain(id string) amqp.Publishing {
	return amqp.Publishing{MessageId: id, Type: "order.placed", ContentType: "application/json", Body: []byte(`{"n":1}`)}
}

// recorder keeps what is logged, one line a record.
type recorder struct {
	mu    sync.Mutex
	lines []string
}

func (r *recorder) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

func (r *recorder) Handle(_ context.Context, record slog.Record) error {
	line := record.Level.String() + " " + record.Message
	record.Attrs(func(a slog.Attr) bool { line += " " + a.String(); return true })
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, line)
	return nil
}

func (r *recorder) WithAttrs([]slog.Attr) slog.Handler { return r }
func (r *recorder) WithGroup(string) slog.Handler      { return r }

// count returns how many lines hold a text.
func (r *recorder) count(text string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, line := range r.lines {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

func (r *recorder) all() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.lines, "\n")
}
