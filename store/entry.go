package store

import (
	"time"

	"tidings/streams/event"
)

// Place says where an entry is in its stream.
type Place struct {
	Sequence uint64
	Time     time.Time // when the stream stored it
}

// Entry is one line of the audit: a record without its state, a duplicate, what an
// operator did about a delivery or an entry, a part of a replay plan, or
// something that this version does not understand and keeps as it is.
type Entry struct {
	Sequence uint64     `json:"sequence"`  // in OUTCOMES
	StoredAt time.Time  `json:"stored_at"` // by the stream's clock
	Key      event.Key  `json:"key,omitempty"`
	Kind     event.Kind `json:"kind,omitempty"`
	ID       string     `json:"id,omitempty"`
	At       time.Time  `json:"at,omitzero"` // by the writer's clock

	// Of a record: the facts, and where the event stood after them.
	Revision   int           `json:"revision,omitempty"`
	Generation int           `json:"generation,omitempty"`
	Phase      event.Phase   `json:"phase,omitempty"`
	Outcome    event.Outcome `json:"outcome,omitempty"`
	Facts      event.Facts   `json:"facts,omitempty"`

	Redelivery *Redelivery      `json:"redelivery,omitempty"` // of a duplicate
	Operation  *event.Operation `json:"operation,omitempty"`  // of an operator, on a delivery
	Replay     *event.Replay    `json:"replay,omitempty"`     // of a replay plan
	Skip       *event.Skip      `json:"skip,omitempty"`       // of an operator, on an entry that cannot be folded
	Unknown    *Unknown         `json:"unknown,omitempty"`    // of anything else
}

// Redelivery is where an event came from that was already known.
type Redelivery struct {
	Stage    event.Stage `json:"stage"`
	Stream   string      `json:"stream"`   // of the copy that it repeats or is
	Sequence uint64      `json:"sequence"` // in that stream
	Delivery string      `json:"delivery,omitempty"`
	Count    int         `json:"count"`
	Since    time.Time   `json:"since,omitzero"` // of several: when the first came; at is when the last did
}

// Unknown is an entry of a kind that this version does not know, or one that
// an operator skipped. It is shown, and nothing is done about it.
type Unknown struct {
	Subject string `json:"subject"`
	Problem string `json:"problem"` // why it is not understood
	Data    []byte `json:"data_base64,omitempty"`
}

func recordEntry(p Place, r event.Record) Entry {
	return Entry{
		Sequence: p.Sequence, StoredAt: p.Time.UTC(), Key: r.Event.Key, Kind: r.Kind, ID: r.ID, At: r.At,
		Revision: r.State.Revision, Generation: r.State.Generation,
		Phase: r.State.Phase, Outcome: r.State.Outcome, Facts: r.Facts,
	}
}

func operationEntry(p Place, op event.Operation) Entry {
	return Entry{
		Sequence: p.Sequence, StoredAt: p.Time.UTC(), Key: op.Letter.Key, Kind: event.KindOperation, ID: op.ID, At: op.At, Operation: &op,
	}
}

func duplicateEntry(p Place, d event.Duplicate) Entry {
	return Entry{
		Sequence: p.Sequence, StoredAt: p.Time.UTC(), Key: d.Event.Key, Kind: event.KindDuplicate, ID: d.ID, At: d.At,
		Redelivery: &Redelivery{
			Stage: d.Stage, Stream: d.Stream, Sequence: d.Sequence, Delivery: d.Delivery,
			Count: max(1, d.Count), Since: utc(d.Since),
		},
	}
}
