package simulation

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"tidings/dispatcher/letters"
	"tidings/streams"
	"tidings/streams/event"
)

// newEvent returns an event that the seed thought of.
func (w *world) newEvent() *published {
	n := len(w.events) + 1
	e := &published{name: fmt.Sprintf("e%d", n)}
	data := payload{Hooks: w.rand.IntN(3), Mails: w.rand.IntN(3)}
	typ := hooks
	if w.mailless {
		data.Mails = 0
	}
	data.Mails = min(data.Mails, w.mailLimit)
	if data.Mails > 0 {
		typ += "+" + mails
	}
	switch w.rand.IntN(20) {
	case 0:
		data.Fault = "template"
	case 1:
		data.Fault = "panic"
	}
	e.envelope = event.Envelope{Tenant: "t", ID: e.name, IDSource: event.IDMessageID, Type: typ, ContentType: "application/json"}
	e.envelope.Data, _ = json.Marshal(data)
	if w.chance(15) {
		e.envelope.OccurredAt = time.Now().Add(-200 * time.Hour)
	}
	e.envelope.Identify()
	e.key = event.Identity{}.Key(e.envelope)
	return e
}

// publish has the door store an event, again and again until that is certain.
// After a while the stream takes a repeat for a new one.
func (w *world) publish(door *process, e *published, again bool) {
	in := streams.Incoming{Envelope: e.envelope, Nonce: "n", Again: again}
	for {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		_, err := door.log.Events.Publish(ctx, in)
		cancel()
		if err == nil || door.isDead() {
			break
		}
		time.Sleep(1_234_567 * time.Microsecond)
	}
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	e.accepted = true
}

// usurper returns an event with the identity of another and another body.
func usurper(e *published) *published {
	other := *e
	other.envelope.Data = []byte(`{"hooks":1,"body":"another"}`)
	return &other
}

// deed is what an operator does.
type deed struct {
	who, what string
	key       event.Key
	data      string // of an edit
	message   string // of a retry
}

// operate has an operator do something about a dead letter or a message.
func (w *world) operate(d deed) {
	log := w.people.log
	desk := letters.New(letters.Options{
		Outcomes: log.Outcomes, Letters: log.DeadLetters, Events: log.Events, Waker: log.Retries,
		Planner: planner{w.people}, Suppressions: suppressions{w.people},
	})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	target, word := letters.Target{Tenant: "t", Key: d.key}, letters.Word{Operator: d.who, Reason: "it must be"}
	var done letters.Requeued
	var err error
	switch d.what {
	case "requeues":
		done, err = desk.Requeue(ctx, target, word)
	case "edits":
		done, err = desk.Edit(ctx, target, word, letters.Change{Data: []byte(d.data)})
	case "retries":
		done, err = desk.Retry(ctx, letters.Message{Tenant: "t", Key: d.key, ID: strings.TrimSpace(d.message)}, word, true)
	case "discards":
		_, err = desk.Discard(ctx, target, word)
	}
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	if err != nil {
		w.tell(d.who, "%s %s%s, and is told: %v", d.what, w.nameOf(d.key), d.message, err)
		return
	}
	w.tell(d.who, "%s %s%s, now in generation %d", d.what, w.nameOf(d.key), d.message, done.Generation)
	w.checker.told(d.who, d.key, done.Generation)
}

// deadLetters returns the letters that are there.
func (w *world) deadLetters() []*entry { return w.server.stream(streams.DeadLettersStream).entries }

// letterOf returns the letter of an event, which is the last, or nil.
func (w *world) letterOf(key event.Key) *event.Letter {
	for _, e := range slices.Backward(w.deadLetters()) {
		var l event.Letter
		w.must(json.Unmarshal(e.data, &l))
		if l.Key == key {
			return &l
		}
	}
	return nil
}

func ofGeneration(l *event.Letter) string {
	if l == nil {
		return "not there"
	}
	return fmt.Sprintf("of generation %d", l.Generation)
}
