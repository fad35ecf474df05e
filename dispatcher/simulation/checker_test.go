package simulation

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"tidings/dispatcher/letters"
	"tidings/streams"
	"tidings/streams/event"
)

// checker holds what happens against the guarantees, at every record and every
// call, and at the end.
type checker struct {
	w         *world
	histories map[event.Key]*history
	letters   map[string]int // how often each letter was written, by key and generation
	audited   map[string]bool
	copies    []event.Ref     // what EVENTS was given
	renewed   map[uint64]bool // copies that a wake-up took the place of
}

// history is what the log says about one event.
type history struct {
	ref     event.Ref
	records []event.Record
	at      []time.Time // by the log's clock
	state   event.State
	before  event.State    // that of the record before the last
	told    map[string]int // calls, by code
	doubts  map[string]int // how often each message was said to be uncertain
	copies  int            // in EVENTS
	crashes int            // without a plan, which put all messages in doubt
	words   map[int]string // who requeued it, by generation
}

func newChecker(w *world) *checker {
	c := &checker{w: w}
	c.begin()
	return c
}

// begin begins anew with what the log has now. After it has lost its end, it cannot
// be held to what it does not know any more: 2 to 4 do not hold then.
func (c *checker) begin() {
	c.histories, c.letters, c.audited, c.copies = map[event.Key]*history{}, map[string]int{}, map[string]bool{}, nil
	c.renewed = map[uint64]bool{}
	for _, st := range c.w.server.streams {
		for _, e := range st.entries {
			c.stored(st, e)
		}
	}
	for _, e := range c.w.events {
		if h := c.history(e.key); h.copies == 0 && h.state.Phase == "" {
			e.gone = e.accepted
		}
	}
}

func (c *checker) history(k event.Key) *history {
	h := c.histories[k]
	if h == nil {
		h = &history{told: map[string]int{}, doubts: map[string]int{}, words: map[int]string{}}
		c.histories[k] = h
	}
	return h
}

// stored is called with each entry that the log stores.
func (c *checker) stored(st *simStream, e *entry) {
	h := e.headers()
	switch st.cfg.Name {
	case streams.EventsStream:
		c.history(event.Key(h.Get(jetstream.MsgIDHeader))).copies++
		c.copies = append(c.copies, event.Ref{Key: event.Key(h.Get(jetstream.MsgIDHeader)), Digest: event.Digest(e.data), Sequence: e.seq})
	case streams.DeadLettersStream:
		c.letter(e)
	case streams.RetriesStream:
		if seq, err := strconv.ParseUint(h.Get(streams.HeaderSequence), 10, 64); err == nil {
			c.renewed[seq] = true
		}
	case streams.OutcomesStream:
		if strings.HasPrefix(e.subject, "audit.") { // a duplicate, or what an operator did about a delivery
			c.audited[h.Get(streams.HeaderRecordID)] = true
			return
		}
		rec, err := event.DecodeRecord(e.data)
		if err != nil {
			c.w.violate("a record cannot be read: %v", err)
			return
		}
		c.record(c.history(rec.Event.Key), rec, e.at)
	}
}

func (c *checker) letter(e *entry) {
	var l event.Letter
	if err := json.Unmarshal(e.data, &l); err != nil {
		c.w.violate("a letter cannot be read: %v", err)
		return
	}
	name := fmt.Sprintf("%s of generation %d", c.w.nameOf(l.Key), l.Generation)
	if l.Edit != nil { // an operator has put another payload in
		c.letters[name] = max(c.letters[name], 1)
		name += " with payload " + event.Digest(l.Edit.Data)
	}
	// One that is over may come back, of a step that did not know: the steward
	// removes it. That of a copy with another body comes with each of its deliveries.
	if c.letters[name]++; c.w.cut {
		return
	}
	if c.letters[name] > 1 && !letters.Over(l.Generation, c.history(l.Key).state) && l.Cause != event.CauseIDConflict {
		c.w.violate("a second dead letter for %s", name)
	}
}

// record checks a record against the history before it.
func (c *checker) record(h *history, rec event.Record, at time.Time) {
	name := c.w.nameOf(rec.Event.Key)
	after, err := h.state.Fold(rec)
	switch {
	case rec.State.Revision <= h.state.Revision || err != nil:
		c.w.violate("two histories of %s: revision %d follows %d", name, rec.State.Revision, h.state.Revision)
	case asJSON(after) != asJSON(rec.State):
		c.w.violate("the facts about %s fold to another state: %s", name, asJSON(after))
	case len(h.records) > 150:
		c.w.violate("the history of %s does not end", name)
	}
	state := h.state
	for _, f := range rec.Facts {
		c.fact(h, rec, state, f, at)
		state = state.Apply(rec.ID, rec.At, f)
	}
	h.ref, h.before, h.state = rec.Event, h.state, rec.State
	h.records, h.at = append(h.records, rec), append(h.at, at)
}

func (c *checker) fact(h *history, rec event.Record, before event.State, f event.Fact, at time.Time) {
	name := c.w.nameOf(rec.Event.Key)
	switch f := f.(type) {
	case event.Claimed:
		if before.Phase == event.PhaseWaiting && before.Waits != event.WaitBusy && rec.At.Before(before.Due) {
			c.w.violate("%s is claimed although it waits until %s", name, before.Due)
		}
	case event.Crashed:
		c.crash(h, rec, before, f, at)
	case event.Tried:
		c.tried(h, rec, before, f)
	case event.Requeued:
		if before.Generation != f.Generation-1 {
			c.w.violate("%s is requeued as generation %d after %d", name, f.Generation, before.Generation)
		}
	}
}

// crash checks that nobody is said to have crashed who did not, and counts what is
// in doubt from there.
func (c *checker) crash(h *history, rec event.Record, before event.State, f event.Crashed, at time.Time) {
	name := c.w.nameOf(rec.Event.Key)
	if before.Claim == nil || before.Claim.ID != f.Claim || c.w.cut {
		return // it changes nothing
	}
	var owner *process
	for _, p := range c.w.processes {
		if p.owner == f.Owner {
			owner = p
		}
	}
	since := c.since(h, f.Claim)
	switch {
	case owner == nil:
		c.w.violate("%s: nobody is %v", name, f.Owner)
	case owner.dead, owner.ended && owner.lossy:
	case at.Sub(since) > time.Minute && owner.troubled.After(since.Add(-10*time.Second)):
	case c.w.astray.After(since.Add(-time.Hour)): // whoever went by that clock took it for over
	default:
		c.w.violate("%s is said to have crashed with %s, which lives and is well", owner.name, name)
	}
	if !before.Planned {
		h.crashes++
	}
	for _, id := range before.Claim.Messages {
		h.doubts[id]++
	}
}

// since returns when a claim was made, by the log's clock.
func (c *checker) since(h *history, claim string) time.Time {
	for i := len(h.records) - 1; i >= 0; i-- {
		if h.records[i].ID == claim {
			return h.at[i]
		}
	}
	return time.Time{}
}

// tried checks a call that a record tells of.
func (c *checker) tried(h *history, rec event.Record, before event.State, f event.Tried) {
	name := f.Message
	if c.w.cut {
		return
	}
	i := slices.IndexFunc(c.w.provider.calls, func(call *call) bool { return call.code == f.Code })
	if h.told[f.Code]++; h.told[f.Code] > 1 {
		c.w.violate("the call %s is told twice", f.Code)
	}
	switch {
	case i < 0 || c.w.provider.calls[i].message != f.Message || c.w.provider.calls[i].result != f.Result:
		c.w.violate("there was no such call: %s (%s)", f.Code, f.Result)
	case f.Result == event.TryUnknown:
		h.doubts[f.Message]++
	}
	if rec.Kind == event.KindLate {
		return
	}
	m := before.Message(f.Message)
	switch {
	case before.Claim == nil:
		c.w.violate("%s was tried without a claim", name)
	case m != nil && !slices.Contains(before.Claim.Messages, f.Message):
		c.w.violate("%s was tried under a claim that does not name it", name)
	}
}

// calls is called at the start of each call.
func (c *checker) calls(call *call) {
	if c.w.cut {
		return
	}
	h := c.of(call)
	if i := h.deliveredAt(call.message); i >= 0 {
		// Late results may tell so between a look at the history and the call.
		look := call.who.looked[c.w.nameOf(h.ref.Key)]
		if look < call.who.asked[call.message] || look >= h.at[i].Sub(c.w.start) {
			c.w.violate("%s is sent again although it is recorded as delivered", call.message)
		}
	}
	claimed := false
	for i, rec := range h.records {
		if cl := rec.State.Claim; cl != nil && cl.Owner == call.who.owner && time.Since(h.at[i])+10*time.Second <= cl.Lease() {
			claimed = true
		}
	}
	if !claimed {
		c.w.violate("%s is sent by %s without a claim, or after it", call.message, call.who.name)
	}
	for _, before := range c.w.provider.calls {
		if before.key != call.key || before.refused {
			continue
		}
		if !h.saidUncertain(call.message, before.started) {
			c.w.violate("%s is sent again, and the history does not say that it is uncertain (before: %s)", call.key, before.code)
		}
	}
}

// deliveredAt returns the place of the record that said that a message was
// delivered, -1 if none did.
func (h *history) deliveredAt(message string) int {
	return slices.IndexFunc(h.records, func(rec event.Record) bool {
		m := rec.State.Message(message)
		return m != nil && m.State == event.MessageDelivered
	})
}

// saidUncertain reports whether the history has said that a message is uncertain
// since a time, or says so still. That a claim was lost before the plan says it of
// all messages.
func (h *history) saidUncertain(message string, since time.Time) bool {
	for i, rec := range h.records {
		m := rec.State.Message(message)
		inDoubt := rec.State.Lost != nil || m != nil && m.State == event.MessageUncertain
		if inDoubt && (!h.at[i].Before(since) || i == len(h.records)-1) {
			return true
		}
	}
	return false
}

func (c *checker) of(call *call) *history {
	for _, e := range c.w.events {
		if len(call.message) > len(e.name) && call.message[:len(e.name)+1] == e.name+"." {
			return c.history(e.key)
		}
	}
	return &history{}
}

// told is called with what an operator was told to have done: generation 0 is a
// discard.
func (c *checker) told(operator string, key event.Key, generation int) {
	h := c.history(key)
	if generation == 0 || c.w.cut {
		return
	}
	if other, taken := h.words[generation]; taken {
		c.w.violate("both %s and %s were told that they requeued %s as generation %d", other, operator, c.w.nameOf(key), generation)
	}
	h.words[generation] = operator
}

// rests reports whether every event has ended.
func (c *checker) rests() bool { return c.unrest() == "" }

// unrest names what is left to be done: events, letters and deliveries.
func (c *checker) unrest() string {
	text := ""
	for _, e := range c.w.events {
		if s := c.history(e.key).state; e.accepted && !e.gone && !s.Ended() {
			text += fmt.Sprintf("%s is %s; ", e.name, cmp.Or(s.Phase, "without a record"))
		}
		if !e.accepted {
			text += e.name + " is not published yet; "
		}
	}
	for _, l := range c.settled(false) {
		text += fmt.Sprintf("the letter of %s is over; ", c.w.nameOf(l.Key))
	}
	for _, cons := range c.w.server.consumers {
		for _, e := range cons.stream.entries {
			if cons.pending[e.seq] != nil || e.seq >= cons.next && cons.wants(e) {
				text += fmt.Sprintf("entry %d of %s is not acknowledged; ", e.seq, cons.stream.cfg.Name)
			}
		}
	}
	return text
}

func asJSON(v any) string {
	out, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(out)
}
