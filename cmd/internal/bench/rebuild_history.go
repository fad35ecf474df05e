package bench

import (
	"cmp"
	"container/heap"
	"encoding/binary"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"time"

	"tidings/streams"
	"tidings/streams/event"
)

// line is one entry of OUTCOMES: a record or a duplicate.
type line struct {
	at        time.Time // when it is written
	event     int       // whose it is
	record    *event.Record
	duplicate *event.Duplicate
	letter    *event.Letter // that is put before the record, if it is a dead letter's
}

// What the histories are like. Tenants, types, sources, carts and recipients are as
// many as a mid-sized company has: few tenants with most of the events, a cart for
// some three events, and ten events to a recipient.
const (
	tenants       = 20
	eventTypes    = 40
	sources       = 8
	webhooks      = 50
	eventsPerCart = 3
	eventsPerMan  = 10
	betweenEvents = 600 * time.Millisecond
	revision      = "c0ffee12ab34"
)

// opened is when the first event of all histories was stored.
var opened = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

// histories are what Tidings writes about events, with all that can happen to one,
// in the parts that an ordinary day has. They are the same every time but for the
// ids of records.
type histories struct{ seed uint64 }

// lines returns so many lines, in the order in which they were written. Where they
// end, some events are still open.
func (h histories) lines(count int) iter.Seq[line] {
	return func(yield func(line) bool) {
		var waiting lines
		for i := 0; count > 0; i++ {
			for _, l := range h.of(i) {
				heap.Push(&waiting, l)
			}
			for ; count > 0 && len(waiting) > 0 && waiting[0].at.Before(storedAt(i+1)); count-- {
				if !yield(heap.Pop(&waiting).(line)) {
					return
				}
			}
		}
	}
}

func storedAt(i int) time.Time { return opened.Add(time.Duration(i) * betweenEvents) }

// lines are a heap, by time. Those of one event keep their order, since no two of it
// have the same.
type lines []line

func (l lines) Len() int           { return len(l) }
func (l lines) Less(i, j int) bool { return l[i].at.Before(l[j].at) }
func (l lines) Swap(i, j int)      { l[i], l[j] = l[j], l[i] }
func (l *lines) Push(x any)        { *l = append(*l, x.(line)) }
func (l *lines) Pop() any {
	last := (*l)[len(*l)-1]
	*l = (*l)[:len(*l)-1]
	return last
}

// history is the one of an event, while it is written.
type history struct {
	*rand.Rand
	number int
	ref    event.Ref
	state  event.State
	at     time.Time
	lines  []line
}

// of returns the history of the event with that number.
func (h histories) of(i int) []line {
	e := &history{Rand: rand.New(rand.NewPCG(h.seed, uint64(i))), number: i, at: storedAt(i)}
	e.ref = e.newRef()
	chance := e.IntN(1000)
	for _, life := range ways() {
		if chance -= life.permille; chance < 0 {
			life.live(e)
			break
		}
	}
	if e.IntN(100) < 3 {
		e.again()
	}
	return e.lines
}

// way is a course that an event takes, and how many of a thousand do.
type way struct {
	permille int
	live     func(*history)
}

func ways() []way {
	return []way{
		{690, func(h *history) { h.claim(); h.settle(h.plan(1), event.TryDelivered) }},
		{130, func(h *history) { h.claim(); h.settle(h.plan(2), event.TryDelivered) }},
		{60, (*history).retried},
		{30, func(h *history) { h.claim(); h.settle(h.plan(1), event.TryPermanent) }},
		{25, (*history).suppressed},
		{25, func(h *history) { h.claim(); h.nothing(event.NoRecipient, "no_recipient") }},
		{15, func(h *history) { h.claim(); h.nothing(event.NoTemplate, "no_template") }},
		{10, (*history).stale},
		{10, (*history).crashed},
		{5, (*history).died},
	}
}

func (h *history) newRef() event.Ref {
	random := func() []byte { return binary.BigEndian.AppendUint64(nil, h.Uint64()) }
	// The first tenants have most of the events.
	tenant := fmt.Sprintf("tenant-%02d", h.IntN(1+h.IntN(tenants)))
	n := h.IntN(eventTypes)
	e := event.Envelope{
		Tenant: tenant, Source: fmt.Sprintf("https://shop.example/service-%d", n%sources),
		ID: fmt.Sprintf("%x-%x", random(), random()),
	}
	return event.Ref{
		Key: event.Identity{}.Key(e), Tenant: tenant, Source: e.Source, ID: e.ID, IDSource: event.IDMessageID,
		Type:          fmt.Sprintf("com.example.shop.order.type%02d", n),
		CorrelationID: fmt.Sprintf("cart-%016x", mix64(uint64(h.number/eventsPerCart))),
		OccurredAt:    h.at.Add(-time.Duration(h.IntN(2000)) * time.Millisecond), ReceivedAt: h.at,
		Sequence: uint64(h.number + 1), Digest: event.Digest([]byte(e.ID)),
		Traceparent: fmt.Sprintf("00-%x%x-%x-01", random(), random(), random()),
	}
}

// mix64 makes numbers look like chance, each another one.
func mix64(n uint64) uint64 {
	n = (n ^ n>>31) * 0x9e3779b97f4a7c15
	return n ^ n>>29
}

// record writes a record, some time after the one before.
func (h *history) record(after time.Duration, facts ...event.Fact) *line {
	h.at = h.at.Add(after)
	r := event.NewRecord(h.ref, h.state, h.at, facts...)
	h.state = r.State
	h.lines = append(h.lines, line{at: h.at, event: h.number, record: &r})
	return &h.lines[len(h.lines)-1]
}

// soon is how long something takes that is not waited for.
func (h *history) soon() time.Duration { return time.Duration(1+h.IntN(400)) * time.Millisecond }

func (h *history) claim(before ...event.Fact) {
	claimed := event.Claimed{
		Owner: event.Owner{Instance: "aGVsbG8gaW5zdGFuY2UhIQ", Boot: "Ym9vdCBib290IGJvb3QhIQ"}, Generation: h.state.Generation,
		Round: h.state.Round, LeaseMS: 90_000, Limit: 64, Config: revision,
	}
	for _, i := range h.state.Open() {
		claimed.Messages = append(claimed.Messages, h.state.Messages[i].ID)
	}
	h.record(h.soon(), append(before, claimed)...)
}

// plan plans messages to so many recipients, every second one by webhook.
func (h *history) plan(messages int) event.Planned {
	p := event.Planned{Config: revision}
	for i := range messages {
		m := event.PlannedMessage{
			Route: "order-mail", Channel: "email", Template: "order", Version: "5f3b1c90a1e2", Locale: "de", OnUnknown: event.Resend,
			Recipient: h.person(),
		}
		if i%2 == 1 {
			m.Route, m.Channel, m.Template, m.Version, m.Locale = "order-hook", "partners", "", "", ""
			m.Recipient = h.partner()
		}
		m.ID = event.NewMessageID(h.ref.Key, m.Route, m.Channel, m.Recipient.Hash)
		p.Messages = append(p.Messages, m)
		p.Routes = append(p.Routes, event.RouteDecision{Route: m.Route, Verdict: "planned", Count: 1})
	}
	return p
}

// person is one of as many as there are tens of events so far, and one of the last
// thousand most of the time.
func (h *history) person() event.Recipient {
	known := h.number/eventsPerMan + 1
	n := h.IntN(known)
	if h.IntN(4) > 0 {
		n = max(0, known-1-h.IntN(1000))
	}
	return recipient(uint64(n), fmt.Sprintf("%c…@mail%d.example", 'a'+n%26, n%7))
}

func (h *history) partner() event.Recipient {
	n := h.IntN(webhooks)
	return recipient(1<<40+uint64(n), fmt.Sprintf("https://partner%02d.example/…", n))
}

// recipient is known by its hash alone.
func recipient(n uint64, mask string) event.Recipient {
	return event.Recipient{Hash: string(event.NewKey("recipient", fmt.Sprint(n))), Mask: mask}
}

// try calls the provider of a message.
func (h *history) try(message string, result event.TryResult) event.Tried {
	started := h.at.Add(time.Millisecond)
	return event.Tried{
		Message: message, Round: h.state.Round, Try: 1, Started: started, Ended: started.Add(h.soon()),
		Result: result, Code: map[event.TryResult]string{
			event.TryDelivered: "smtp_250", event.TryPermanent: "smtp_550_5.1.1", event.TryTransient: "smtp_451_4.7.1",
		}[result], Provider: "smtp.mail.example:587",
	}
}

// settle ends the event after one try of each message of a plan.
func (h *history) settle(p event.Planned, result event.TryResult) {
	facts := []event.Fact{p}
	for _, m := range p.Messages {
		facts = append(facts, h.try(m.ID, result))
		if result == event.TryPermanent {
			facts = append(facts, event.GaveUp{Message: m.ID, Reason: "permanent"})
		}
	}
	h.record(h.soon()+time.Millisecond, append(facts, event.Settled{})...)
}

// retried is delivered in the second round.
func (h *history) retried() {
	h.claim()
	p := h.plan(1)
	after := time.Duration(30+h.IntN(300)) * time.Second
	h.record(h.soon(), p, h.try(p.Messages[0].ID, event.TryTransient),
		event.Waiting{Round: 1, Due: h.at.Add(after), Reason: event.WaitRetry})
	h.at = h.at.Add(after)
	h.claim()
	h.record(h.soon(), h.try(p.Messages[0].ID, event.TryDelivered), event.Settled{})
}

func (h *history) suppressed() {
	h.claim()
	p := h.plan(1)
	h.record(h.soon(), p, event.Withheld{Message: p.Messages[0].ID, Reason: "unsubscribed"}, event.Settled{})
}

func (h *history) nothing(outcome event.Outcome, verdict string) {
	h.record(h.soon(), event.Planned{Config: revision, Nothing: outcome, Routes: []event.RouteDecision{
		{Route: "order-mail", Verdict: "condition_false", Detail: `"data.total > 1000" is not true`},
		{Route: "order-hook", Verdict: verdict, Detail: `"data.customer.email" is empty`},
	}}, event.Settled{})
}

func (h *history) stale() {
	h.claim()
	h.record(h.soon(), event.Expired{AgeMS: 700_000_000, WindowMS: 604_800_000}, event.Settled{})
}

// crashed loses its process once.
func (h *history) crashed() {
	h.claim()
	h.at = h.at.Add(95 * time.Second)
	h.claim(event.Crashed{Claim: h.state.Claim.ID, Owner: h.state.Claim.Owner, Reason: "lease_expired"})
	h.settle(h.plan(1), event.TryDelivered)
}

// died becomes a dead letter.
func (h *history) died() {
	h.claim()
	causes := []event.Cause{event.CausePermanent, event.CauseTemplateError, event.CauseRoundsExhausted, event.CausePanic}
	cause := causes[h.IntN(len(causes))]
	before := h.state
	l := h.record(h.soon(), event.Dead{Cause: cause, Detail: "order.txt:3: nil has no field total"})
	ref := h.ref
	l.letter = &event.Letter{
		Schema: event.Schema, Kind: event.LetterEvent, Key: ref.Key, Tenant: ref.Tenant, Cause: cause, Stage: event.StageDispatcher,
		Detail: "order.txt:3: nil has no field total", At: h.at, Event: &ref, State: &before, Data: body(dispatchSize, "x"),
	}
}

// again adds deliveries of the same event, soon after its first record.
func (h *history) again() {
	for n := range 1 + h.IntN(2) {
		at := h.lines[0].at.Add(time.Duration(n+1) * time.Second)
		d := event.NewDuplicate(h.ref, event.StageBridge, streams.EventsStream, h.ref.Sequence,
			fmt.Sprintf("%016x", h.Uint64()), "amqp queue orders", at)
		h.lines = append(h.lines, line{at: at, event: h.number, duplicate: &d})
	}
	slices.SortStableFunc(h.lines, func(a, b line) int { return cmp.Compare(a.at.UnixNano(), b.at.UnixNano()) })
}
