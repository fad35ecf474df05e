package event

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"
)

// Kind says what an entry in OUTCOMES is. For a record it is the phase that the
// record led to, so that followers can route by it.
type Kind string

// The kinds of entries.
const (
	KindOpened    Kind = "opened"    // requeued, or a claim ended without a new one
	KindClaimed   Kind = "claimed"   // a process holds it; may carry results of the claim before, or freeze the plan
	KindWaiting   Kind = "waiting"   // tried again when due
	KindSettled   Kind = "settled"   // ended
	KindDead      Kind = "dead"      // ended as a dead letter
	KindLate      Kind = "late"      // results that came after their claim was taken over
	KindDuplicate Kind = "duplicate" // a redelivery, see Duplicate
	KindReplay    Kind = "replay"    // an entry of a replay plan, see Replay
	KindOperation Kind = "operation" // what an operator did about a delivery, see Operation
	KindSkip      Kind = "skip"      // an entry that cannot be folded, skipped by an operator, see Skip
)

// Kinds lists the kinds of entries.
func Kinds() []Kind {
	return []Kind{
		KindOpened, KindClaimed, KindWaiting, KindSettled, KindDead, KindLate, KindDuplicate, KindOperation, KindReplay, KindSkip,
	}
}

// OfRecord reports whether it is the kind of a record that this version knows.
func (k Kind) OfRecord() bool {
	switch k {
	case KindOpened, KindClaimed, KindWaiting, KindSettled, KindDead, KindLate:
		return true
	case KindDuplicate, KindReplay, KindOperation, KindSkip:
	}
	return false
}

// Record is one entry of an event's history: the facts of one change and the
// state after it. Records are self-contained: no other is needed to act on one.
type Record struct {
	ID     string    `json:"id"`     // 128 random bits; survives the reuse of a sequence
	Schema int       `json:"schema"` // version of the format that the writer knew
	Kind   Kind      `json:"kind"`
	At     time.Time `json:"at"` // the writer's clock; the stream's time is the authority for leases
	Event  Ref       `json:"event"`
	Facts  Facts     `json:"facts"` // what happened, in order
	State  State     `json:"state"` // where the event stands after it
}

// NewRecord returns the record that adds facts to an event whose state is
// before, under a new id. before is the zero State for the first record.
func NewRecord(ref Ref, before State, at time.Time, facts ...Fact) Record {
	id, at := NewNonce(), at.UTC()
	after := before.Apply(id, at, facts...)
	return Record{
		ID: id, Schema: Schema, Kind: kindOf(before, after, facts), At: at,
		Event: ref, Facts: facts, State: after,
	}
}

func kindOf(before, after State, facts []Fact) Kind {
	switch {
	case before.Ended() && before.Generation == after.Generation && !endsAnew(before, after, facts):
		return KindLate
	case hasResults(facts) && !changesPhase(facts):
		return KindLate
	}
	switch after.Phase {
	case PhaseClaimed:
		return KindClaimed
	case PhaseWaiting:
		return KindWaiting
	case PhaseSettled:
		return KindSettled
	case PhaseDead:
		return KindDead
	case PhaseOpen:
	}
	return KindOpened
}

// endsAnew reports whether an ended event was discarded or restored.
func endsAnew(before, after State, facts []Fact) bool {
	return before.Discarded != after.Discarded || restores(facts)
}

func restores(facts []Fact) bool {
	return slices.ContainsFunc(facts, func(f Fact) bool { _, ok := f.(Restored); return ok })
}

func changesPhase(facts []Fact) bool {
	for _, f := range facts {
		switch f.(type) {
		case Claimed, Crashed, Waiting, Settled, Dead, Requeued, Discarded, Restored:
			return true
		}
	}
	return false
}

func hasResults(facts []Fact) bool {
	for _, f := range facts {
		switch f.(type) {
		case Tried, Withheld, GaveUp:
			return true
		}
	}
	return false
}

// Final reports whether the event has ended with this record.
func (r Record) Final() bool { return r.State.Ended() }

// ErrGap means, when folding, that records between the state and the given one
// are missing.
var ErrGap = errors.New("records are missing before this one")

// Fold returns the state after r, given the state after the records before it.
// A record that s has already seen changes nothing. It returns [ErrGap] where
// records are missing between the two, unless r says itself that they are, and
// what they said ([Restored]).
func (s State) Fold(r Record) (State, error) {
	switch {
	case r.State.Revision <= s.Revision:
		return s, nil
	case r.State.Revision > s.Revision+1 && !restores(r.Facts):
		return s, fmt.Errorf("fold record %s: revision %d on %d: %w", r.ID, r.State.Revision, s.Revision, ErrGap)
	}
	return s.Apply(r.ID, r.At, r.Facts...), nil
}

// Duplicate is the audit entry of a redelivery: an event that was already
// known came again, and nothing was done about it.
type Duplicate struct {
	// ID is the same for repeats of the entry: the hash of key, stage, stream
	// and sequence, and at the door the nonce of the delivery.
	ID       string    `json:"id"`
	Schema   int       `json:"schema"`
	Kind     Kind      `json:"kind"` // always "duplicate"
	At       time.Time `json:"at"`
	Event    Ref       `json:"event"`              // of the event that was already known
	Stage    Stage     `json:"stage"`              // where it was recognised
	Stream   string    `json:"stream"`             // the stream of the copy it repeats or is
	Sequence uint64    `json:"sequence"`           // in that stream
	Delivery string    `json:"delivery,omitempty"` // where it came from, such as "amqp queue orders"
	Count    int       `json:"count"`              // deliveries that this entry stands for, 1 as a rule
	// Since is when the first of several came; at is when the last did, and
	// delivery where it came from.
	Since time.Time `json:"since,omitzero"`
}

// NewDuplicate returns the audit entry for a redelivery of the event ref, seen
// at stage in the copy (stream, sequence). nonce tells deliveries of one copy
// apart at the door and is empty elsewhere.
func NewDuplicate(ref Ref, stage Stage, stream string, sequence uint64, nonce, delivery string, at time.Time) Duplicate {
	id := NewKey("duplicate", string(ref.Key), string(stage), stream, fmt.Sprint(sequence), nonce)
	return Duplicate{
		ID: string(id), Schema: Schema, Kind: KindDuplicate, At: at.UTC(), Event: ref,
		Stage: stage, Stream: stream, Sequence: sequence, Delivery: delivery, Count: 1,
	}
}

// EncodeRecord returns the JSON of a record.
func EncodeRecord(r Record) ([]byte, error) {
	facts, err := r.Facts.objects()
	if err == nil {
		var data []byte
		if data, err = encodeJSON(codedRecord[any]{r.ID, r.Schema, r.Kind, r.At, r.Event, facts, r.State}); err == nil {
			return data, nil
		}
	}
	return nil, fmt.Errorf("encode record %s of event %s: %w", r.ID, r.Event.Key, err)
}

// codedRecord is a Record whose list of facts needs no methods of its own: what a
// MarshalJSON returns, the encoder reads and writes again, and what is for an
// UnmarshalJSON, the decoder reads before.
type codedRecord[F any] struct {
	ID     string    `json:"id"`
	Schema int       `json:"schema"`
	Kind   Kind      `json:"kind"`
	At     time.Time `json:"at"`
	Event  Ref       `json:"event"`
	Facts  []F       `json:"facts"`
	State  State     `json:"state"`
}

// Parts are parts of a record as they are encoded, for whoever passes them on. They
// are empty where they must be encoded anew.
type Parts struct {
	Facts    string // the list of facts
	Messages string // the list of messages in the state
}

// DecodeRecord reads the JSON of a record, of this or a later schema.
func DecodeRecord(data []byte) (Record, error) {
	r, _, err := DecodeParts(data)
	return r, err
}

// DecodeParts is [DecodeRecord] that also returns parts as they are encoded.
func DecodeParts(data []byte) (Record, Parts, error) {
	r, parts, ok := Record{}, Parts{}, false
	if utf8.Valid(data) {
		r, parts, ok = decodePlain(string(data))
	}
	if !ok {
		var c codedRecord[encodedFact]
		if err := json.Unmarshal(data, &c); err != nil {
			return Record{}, Parts{}, fmt.Errorf("decode record: %w", err)
		}
		r, parts = Record{c.ID, c.Schema, c.Kind, c.At, c.Event, factsOf(c.Facts), c.State}, Parts{}
	}
	if r.ID == "" || !r.Event.Key.Valid() || r.State.Revision < 1 {
		return Record{}, Parts{}, errors.New("decode record: id, event.key or state.revision is missing: this is not a record")
	}
	return r, parts, nil
}
