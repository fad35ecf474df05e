package storetest

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tidings/store"
	"tidings/streams/event"
)

// Line is one entry of OUTCOMES. One of Record, Duplicate, Operation and Unknown is set.
type Line struct {
	Sequence  uint64
	Time      time.Time
	Record    *event.Record
	Duplicate *event.Duplicate
	Operation *event.Operation
	Unknown   *Unknown
}

// Unknown is an entry of a kind that does not exist yet.
type Unknown struct {
	Key  event.Key // empty if it belongs to no event
	Kind event.Kind
	Data []byte
}

// Start is when the first line of every history was written.
var Start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// Apply applies the line as the projector does.
func (l Line) Apply(tx *store.Tx) error {
	p := store.Place{Sequence: l.Sequence, Time: l.Time}
	switch {
	case l.Record != nil:
		return tx.Record(p, *l.Record)
	case l.Duplicate != nil:
		return tx.Duplicate(p, *l.Duplicate)
	case l.Operation != nil:
		return tx.Operation(p, *l.Operation)
	default:
		return tx.Unknown(p, l.Unknown.Key, l.Unknown.Kind, store.Unknown{Subject: "plans.1", Problem: "new", Data: l.Unknown.Data})
	}
}

// Data returns the line as it is stored in the stream.
func (l Line) Data(t require.TestingT) []byte {
	var data []byte
	var err error
	switch {
	case l.Record != nil:
		data, err = event.EncodeRecord(*l.Record)
	case l.Duplicate != nil:
		data, err = json.Marshal(l.Duplicate)
	case l.Operation != nil:
		data, err = json.Marshal(l.Operation)
	default:
		data = l.Unknown.Data
	}
	require.NoError(t, err)
	return data
}

// Apply applies lines to s in one transaction.
func Apply(t require.TestingT, s *store.Store, lines ...Line) {
	require.NoError(t, s.Update(func(tx *store.Tx) error {
		for _, l := range lines {
			if err := l.Apply(tx); err != nil {
				return err
			}
		}
		return nil
	}))
}

// Log writes lines as the dispatcher and the bridge would: every event has one
// history of records, with revisions without gaps.
type Log struct {
	Lines  []Line
	states map[event.Key]event.State
}

// Ref returns the reference of the n-th event of a tenant, which is the same
// for the same arguments. Their copies in EVENTS are far apart.
func Ref(tenant string, n int) event.Ref {
	e := event.Envelope{Tenant: tenant, Source: []string{"shop", "Till"}[n/2%2], ID: fmt.Sprintf("order-%d", n)}
	return event.Ref{
		Key: event.Identity{}.Key(e), Tenant: tenant, Source: e.Source, ID: e.ID, IDSource: event.IDMessageID,
		Type: fmt.Sprintf("order.type%d", n%3), CorrelationID: []string{"", "cart-1", "Cart <ä>"}[n%3], OccurredAt: Start.Add(-time.Minute),
		ReceivedAt: Start.Add(time.Duration(n/2) * time.Second), // two at a time share an instant
		Sequence:   uint64(n)<<15 + 1, Digest: event.Digest([]byte(e.ID)),
	}
}

// State returns where the event stands.
func (l *Log) State(key event.Key) event.State { return l.states[key] }

// Record appends a record with facts to the event's history.
func (l *Log) Record(ref event.Ref, facts ...event.Fact) event.Record {
	if l.states == nil {
		l.states = map[event.Key]event.State{}
	}
	r := event.NewRecord(ref, l.states[ref.Key], l.now(), facts...)
	l.states[ref.Key] = r.State
	l.append(Line{Record: &r})
	return r
}

// Duplicate appends a duplicate of the event. The same nonce is the same
// delivery, appended again.
func (l *Log) Duplicate(ref event.Ref, nonce string) event.Duplicate {
	d := event.NewDuplicate(ref, event.StageBridge, "EVENTS", ref.Sequence, nonce, "amqp queue orders", l.now())
	l.append(Line{Duplicate: &d})
	return d
}

// Operation appends what an operator did about a dead letter that is a delivery, by
// which it has become an event, if ref is not nil. The same id is the same
// operation, appended again.
func (l *Log) Operation(id string, letter event.OperationLetter, ref *event.Ref) event.Operation {
	op := event.Operation{
		ID: id, Schema: event.Schema, Kind: event.KindOperation, At: l.now(), Tenant: "acme",
		Action: event.OperationDiscarded, Operator: "ann", Reason: "a test", Letter: letter,
	}
	if ref != nil {
		op.Action, op.Event, op.Sequence = event.OperationRequeued, ref.Key, ref.Sequence
	}
	l.append(Line{Operation: &op})
	return op
}

// Unknown appends an entry of a kind that does not exist yet.
func (l *Log) Unknown(u Unknown) { l.append(Line{Unknown: &u}) }

func (l *Log) append(line Line) {
	line.Sequence, line.Time = uint64(len(l.Lines)+1), l.now()
	l.Lines = append(l.Lines, line)
}

func (l *Log) now() time.Time { return Start.Add(time.Duration(len(l.Lines)+1) * time.Second) }

// Draw returns a random log with at most most lines.
func Draw(t *rapid.T, most int) *Log {
	l := &Log{}
	tenants := []string{"acme", "globex"}
	for range rapid.IntRange(0, most).Draw(t, "lines") {
		n := rapid.IntRange(0, 5).Draw(t, "event")
		ref := Ref(tenants[n%2], n)
		switch rapid.IntRange(0, 9).Draw(t, "line") {
		case 0, 1:
			l.Duplicate(ref, fmt.Sprint(rapid.IntRange(0, 2).Draw(t, "nonce")))
		case 2:
			u := Unknown{Kind: "plan", Data: []byte(`{"id":"p1"}`)}
			if rapid.Bool().Draw(t, "of an event") {
				u = Unknown{Key: ref.Key, Kind: "annotated", Data: []byte(`{"note":"later"}`)}
			}
			l.Unknown(u)
		case 3:
			letter := event.OperationLetter{Key: event.NewKey("letter", fmt.Sprint(n)), Sequence: uint64(n + 1), Cause: event.CauseUndecodable}
			became := &ref
			if rapid.Bool().Draw(t, "discarded") {
				became = nil
			}
			l.Operation(fmt.Sprint("op", n, became == nil), letter, became)
		default:
			l.Record(ref, drawFacts(t, ref, l.State(ref.Key), l.now())...)
		}
	}
	return l
}

// drawFacts returns what could happen next to an event in the state s.
func drawFacts(t *rapid.T, ref event.Ref, s event.State, at time.Time) []event.Fact {
	claim := event.Claimed{
		Owner: event.Owner{Instance: "i", Boot: "b"}, Generation: s.Generation, Round: s.Round, LeaseMS: 60_000, Limit: 64,
	}
	switch s.Phase {
	case event.PhaseClaimed:
		return drawResults(t, ref, s, claim, at)
	case event.PhaseSettled, event.PhaseDead:
		if len(s.Messages) > 0 && rapid.Bool().Draw(t, "late") {
			return []event.Fact{event.Tried{Message: s.Messages[0].ID, Started: at, Ended: at, Result: event.TryDelivered}}
		}
		return []event.Fact{event.Requeued{Generation: s.Generation + 1, Operator: "ops"}}
	default:
		return []event.Fact{claim}
	}
}

func drawResults(t *rapid.T, ref event.Ref, s event.State, claim event.Claimed, at time.Time) []event.Fact {
	switch rapid.IntRange(0, 7).Draw(t, "result") {
	case 0:
		return []event.Fact{event.Crashed{Claim: s.Claim.ID, Reason: "owner_gone"}, claim}
	case 1:
		return []event.Fact{event.Crashed{Claim: s.Claim.ID, Reason: "owner_gone"}}
	case 2:
		return []event.Fact{event.Expired{AgeMS: 2, WindowMS: 1}, event.Settled{}}
	case 3:
		return []event.Fact{event.Planned{Nothing: event.NoTemplate}, event.Settled{}}
	case 4:
		return []event.Fact{event.Dead{Cause: event.CauseTemplateError}}
	}
	facts := []event.Fact{planFor(ref)}
	for _, m := range planFor(ref).Messages {
		result := rapid.SampledFrom([]event.TryResult{
			event.TryDelivered, event.TryPermanent, event.TryTransient, event.TryUnknown,
		}).Draw(t, "try")
		facts = append(facts, event.Tried{Message: m.ID, Round: s.Round, Try: 1, Started: at, Ended: at, Result: result, Code: "c"})
		if result == event.TryPermanent {
			facts = append(facts, event.GaveUp{Message: m.ID, Reason: "permanent"})
		}
	}
	if rapid.Bool().Draw(t, "wait") {
		return append(facts, event.Waiting{Round: s.Round + 1, Due: at.Add(30 * time.Second), Reason: event.WaitRetry})
	}
	return append(facts, event.Settled{})
}

func planFor(ref event.Ref) event.Planned {
	var p event.Planned
	for _, channel := range []string{"email", "webhook", "webhook2"} {
		p.Messages = append(p.Messages, event.PlannedMessage{
			ID: event.NewMessageID(ref.Key, "r", channel, "x"), Route: "r", Channel: channel,
			Recipient: event.Recipient{Hash: "h-" + channel + ref.CorrelationID, Mask: "a…@example.com"}, OnUnknown: event.Resend,
		})
	}
	return p
}
