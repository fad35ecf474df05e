package bridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// Status says how the bridge is doing.
type Status struct {
	Name      string `json:"name"`   // of the configuration
	Broker    string `json:"broker"` // address and vhost, never credentials
	Queue     string `json:"queue"`
	Connected bool   `json:"connected"` // to the broker
	Consuming bool   `json:"consuming"` // a consumer is registered
	Window    int    `json:"window"`    // deliveries that may be in hand; 1 while one that cannot be read is told from the rest
	InHand    int    `json:"in_hand"`   // deliveries taken and not yet acknowledged
	// Waiting is the number of messages ready in the queue, and Consumers that
	// of its consumers, when last looked at; -1 if it was not.
	Waiting   int `json:"waiting"`
	Consumers int `json:"consumers"`

	// Since the start, in deliveries. Acked holds all that went well: new events,
	// duplicates and dead letters. What the door took and could not be
	// acknowledged comes again, and is counted again.
	Acked       uint64 `json:"acked"`
	Duplicates  uint64 `json:"duplicates"`  // the event was there before
	Quarantined uint64 `json:"quarantined"` // it became a dead letter
	Reconnects  uint64 `json:"reconnects"`  // sessions after the first
	// Zero if there was none.
	LastAck      time.Time `json:"last_ack,omitzero"`
	LastDelivery time.Time `json:"last_delivery,omitzero"`

	// Reason is why no work moves although there may be some. Empty: the bridge
	// is ready.
	Reason string `json:"reason,omitempty"`
}

// Ready reports whether work moves, or there is none.
func (s Status) Ready() bool { return s.Reason == "" }

// phase is what the bridge is about.
type phase string

const (
	phaseIdle       phase = "not started"
	phaseConnecting phase = "connecting"
	phaseConsuming  phase = "consuming"
	phaseFinishing  phase = "finishing"
	phaseDown       phase = "down"
	phaseStopped    phase = "stopped"
)

// tracker keeps the state of a bridge, and logs each change of it once.
type tracker struct {
	log   *slog.Logger
	now   func() time.Time
	stall time.Duration

	mu     sync.Mutex // guards what follows
	phase  phase
	status Status // Broker and Queue never change
	// why nothing moves: the reason of phaseDown and phaseFinishing, or the
	// trouble that a handler has.
	why     string
	logged  string
	version string
	said    map[string]bool // cautions and differences
	// crash is why the session may end the way the ones before it did; empty
	// since it acknowledged something.
	crash  string
	warned bool // that the queue is shared
	// consumers is how many of the queue's are ours.
	consumers int
	sessions  uint64
	// trouble is since when the log has taken nothing; zero: it does. refused are
	// the deliveries that it did not take and that are in hand, which may be some
	// while it takes others: a stream that is full is not always that of events.
	trouble   time.Time
	refused   int
	refusedAt time.Time // the first of them
	// busy is since when something is in hand, and waiting since when
	// something is ready in the queue; zero: nothing is.
	busy    time.Time
	waiting time.Time
	since   time.Time // of the consumer
	unseen  int       // how often in a row the queue had no consumer
}

func newTracker(c Config, log *slog.Logger, now func() time.Time, stall time.Duration) *tracker {
	broker, _ := broker(c.URL)
	return &tracker{
		log: log.With("broker", broker, "queue", c.Queue), now: now, stall: stall, phase: phaseIdle, said: map[string]bool{},
		status: Status{Name: c.Name, Broker: broker, Queue: c.Queue, Window: c.Window, Waiting: -1, Consumers: -1},
	}
}

// get returns the status of this moment.
func (t *tracker) get() Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.status
	s.Consuming = t.phase == phaseConsuming
	s.Reason = t.reason(t.now())
	return s
}

// reason is called with mu held.
func (t *tracker) reason(now time.Time) string {
	switch t.phase {
	case phaseConsuming:
	case phaseDown, phaseFinishing:
		return t.why
	case phaseConnecting:
		if t.why != "" {
			return t.why
		}
		return "connecting to " + t.status.Broker
	default:
		return string(t.phase)
	}
	moved := latest(t.status.LastAck, t.since)
	switch {
	case !t.trouble.IsZero():
		return t.why
	case t.crash != "":
		return t.crash
	case t.unseen > 1: // once may be the moment before it shows
		return fmt.Sprintf("queue %q has no consumer although one was registered", t.status.Queue)
	case !t.busy.IsZero() && now.Sub(latest(moved, t.busy)) > t.stall:
		return fmt.Sprintf("%d deliveries are in hand and none was acknowledged for %s", t.status.InHand, now.Sub(latest(moved, t.busy)).Round(time.Second))
	case !t.waiting.IsZero() && now.Sub(latest(moved, t.waiting)) > t.stall:
		return fmt.Sprintf("%d messages wait in queue %q and none was acknowledged for %s", t.status.Waiting, t.status.Queue, now.Sub(latest(moved, t.waiting)).Round(time.Second))
	}
	return ""
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (t *tracker) connecting() { t.set(phaseConnecting) }
func (t *tracker) stopped()    { t.set(phaseStopped) }

func (t *tracker) set(p phase) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.phase, t.status.Connected = p, false
}

// connected notes the version of the server.
func (t *tracker) connected(version string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if version != t.version {
		t.version = version
		t.log.Info("connected to RabbitMQ", "version", version)
	}
}

// caution says what was not said before.
func (t *tracker) caution(all []caution) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range all {
		if !t.said[c.text] {
			t.said[c.text] = true
			t.log.Log(context.Background(), c.level, c.text)
		}
	}
}

func (t *tracker) consuming(window, consumers int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sessions++; t.sessions > 1 {
		t.status.Reconnects++
	}
	t.phase, t.why, t.since, t.unseen = phaseConsuming, "", t.now(), 0
	t.trouble, t.busy, t.waiting = time.Time{}, time.Time{}, time.Time{}
	t.refused = 0
	t.status.Connected, t.status.InHand, t.status.Waiting, t.status.Consumers = true, 0, -1, -1
	t.consumers = consumers
	if t.status.Window = window; t.crash == "" { // else it was said that and why nothing moves
		t.once(slog.LevelInfo, "consuming", "window", window)
	}
}

func (t *tracker) finishing(why error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.phase, t.why, t.status.Connected = phaseFinishing, why.Error(), errors.Is(why, errStopping)
	t.log.Debug("session ends", "reason", why, "in_hand", t.status.InHand)
}

func (t *tracker) down(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.phase, t.why, t.status.Connected, t.crash = phaseDown, err.Error(), false, ""
	if _, loops := errors.AsType[*CrashLoopError](err); loops {
		t.crash = t.why
	}
	t.once(slog.LevelWarn, "not consuming", "reason", t.why)
}

// once logs what was not said the last time. It is called with mu held.
func (t *tracker) once(level slog.Level, msg string, args ...any) {
	if said := fmt.Sprint(msg, args); said != t.logged {
		t.logged = said
		t.log.Log(context.Background(), level, msg, args...)
	}
}

// differs notes in what the topology is not as we would have made it.
func (t *tracker) differs(differences []*MismatchError) {
	var all []caution
	for _, d := range differences {
		all = append(all, caution{slog.LevelWarn, "consuming from what is there: " + d.Error()})
	}
	t.caution(all)
}

// calmed notes that nothing is wrong any more with the messages of the queue.
func (t *tracker) calmed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.crash = ""
	t.once(slog.LevelInfo, errCalm.Error())
}

func (t *tracker) took(at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.status.LastDelivery = at
	if t.status.InHand++; t.status.InHand == 1 {
		t.busy = t.status.LastDelivery
	}
}

func (t *tracker) dropped() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.letGo(1)
}

func (t *tracker) acked(n int, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.status.Acked += uint64(n)
	t.status.LastAck, t.crash = at, ""
	t.letGo(n)
}

// letGo is called with mu held.
func (t *tracker) letGo(n int) {
	if t.status.InHand = max(t.status.InHand-n, 0); t.status.InHand == 0 {
		t.busy = time.Time{}
	}
}

// saw notes what a look at the queue showed.
func (t *tracker) saw(ready, consumers int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.status.Waiting, t.status.Consumers = ready, consumers
	t.unseen++
	if consumers > 0 {
		t.unseen = 0
	}
	t.shared(consumers)
	switch {
	case ready == 0:
		t.waiting = time.Time{}
	case t.waiting.IsZero():
		t.waiting = t.now()
	}
}

// shared warns of other consumers of the queue: a second Tidings with a data
// directory of its own knows nothing of what this one has sent.
func (t *tracker) shared(consumers int) {
	if consumers > t.consumers && !t.warned {
		t.log.Warn("the queue has other consumers: what they take is not seen here, and a second tidings with its own data directory sends again what this one has sent",
			"consumers", consumers)
	}
	t.warned = consumers > t.consumers
}

// refuse notes that the log did not take a delivery, which it may not have for
// some time, and returns since when it has taken nothing.
func (t *tracker) refuse(err error, again bool) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	if !again {
		if t.refused++; t.refused == 1 {
			t.refusedAt = now
			t.log.Warn("the log does not take events", "error", err)
		}
	}
	if t.trouble.IsZero() {
		t.trouble = now
	}
	t.why = (&DestinationError{err}).Error()
	return t.trouble
}

// accepted notes that the log took a delivery, and as what. refused says that it
// did not at first.
func (t *tracker) accepted(as Receipt, refused bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case as.Quarantined != "":
		t.status.Quarantined++
	case as.Duplicate:
		t.status.Duplicates++
	}
	if !t.trouble.IsZero() {
		t.trouble = time.Time{}
		if t.phase == phaseConsuming {
			t.why = ""
		}
	}
	if refused && t.refused > 0 {
		if t.refused--; t.refused == 0 {
			t.log.Info("the log takes events again", "after", t.now().Sub(t.refusedAt).Round(time.Millisecond))
		}
	}
}
