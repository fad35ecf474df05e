package store

import (
	"time"

	"tidings/streams/event"
)

// Row is the ledger's row of one event: where it stands after its last record,
// and how often it came again. The JSON is the one of API and CLI.
type Row struct {
	Key           event.Key      `json:"key"`
	Tenant        string         `json:"tenant"`
	Source        string         `json:"source,omitempty"`
	Test          bool           `json:"test,omitempty"` // an operator's, see [event.TestSource]
	EventID       string         `json:"event_id"`
	IDSource      event.IDSource `json:"id_source"`
	Type          string         `json:"type"`
	CorrelationID string         `json:"correlation_id,omitempty"`
	AMQPMessageID string         `json:"amqp_message_id,omitempty"` // where it is not the id, see [event.Ref]
	Outcome       event.Outcome  `json:"outcome,omitempty"`         // empty while the event is open
	Phase         event.Phase    `json:"phase"`
	Cause         event.Cause    `json:"cause,omitempty"` // of its dead letter
	Messages      event.Counts   `json:"messages"`
	Tries         int            `json:"tries"`      // provider calls over all generations
	Duplicates    int            `json:"duplicates"` // times that it came again
	Generation    int            `json:"generation"`
	Round         int            `json:"round"`
	Crashes       int            `json:"crashes"` // in this generation
	Revision      int            `json:"revision"`
	Due           time.Time      `json:"due,omitzero"`         // of a waiting event
	OccurredAt    time.Time      `json:"occurred_at,omitzero"` // zero: the producer did not say
	ReceivedAt    time.Time      `json:"received_at"`          // when EVENTS stored it
	StartedAt     time.Time      `json:"started_at"`           // of its first record
	ChangedAt     time.Time      `json:"changed_at"`           // of its last record
	Sequence      uint64         `json:"sequence"`             // of the stored copy in EVENTS
	// RecordSequence is that of the last record in OUTCOMES.
	RecordSequence uint64 `json:"record_sequence"`
}

// Ended reports whether nothing more is done about the event unless an operator
// says so.
func (r Row) Ended() bool { return r.Phase == event.PhaseSettled || r.Phase == event.PhaseDead }

// newRow returns the row after the record r, stored at sequence, of an event
// that came again duplicates times.
func newRow(sequence uint64, r event.Record, duplicates int) Row {
	ref, s := r.Event, r.State
	return Row{
		Key: ref.Key, Tenant: ref.Tenant, Source: ref.Source, Test: ref.IsTest(), EventID: ref.ID, IDSource: ref.IDSource,
		Type: ref.Type, CorrelationID: ref.CorrelationID, AMQPMessageID: ref.AMQPMessageID,
		Outcome: s.Outcome, Phase: s.Phase, Cause: s.Cause,
		Messages: s.Counts(), Tries: s.Tries(), Duplicates: duplicates,
		Generation: s.Generation, Round: s.Round, Crashes: s.Crashes, Revision: s.Revision,
		Due: utc(s.Due), OccurredAt: utc(ref.OccurredAt), ReceivedAt: utc(ref.ReceivedAt),
		StartedAt: utc(s.StartedAt), ChangedAt: utc(s.ChangedAt),
		Sequence: ref.Sequence, RecordSequence: sequence,
	}
}

// utc returns the time in UTC, unless it has no JSON there: at the edge of the
// years from 0 to 9999 the zone decides.
func utc(t time.Time) time.Time {
	if y := t.UTC().Year(); y < 0 || y > 9999 {
		return t
	}
	return t.UTC()
}
