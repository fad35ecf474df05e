package event

import "time"

// Operation is the audit entry of what an operator did about a dead letter that is
// a delivery: there is no event, and so no history that could say it.
type Operation struct {
	ID       string          `json:"id"` // 128 random bits
	Schema   int             `json:"schema"`
	Kind     Kind            `json:"kind"` // always "operation"
	At       time.Time       `json:"at"`
	Tenant   string          `json:"tenant"`
	Action   OperationAction `json:"action"`
	Operator string          `json:"operator"`
	Reason   string          `json:"reason,omitempty"`
	Replay   string          `json:"replay,omitempty"` // id of the replay plan that it is a part of, if any
	Letter   OperationLetter `json:"letter"`
	// Event is the key of the event that a requeued delivery has become.
	Event Key `json:"event,omitempty"`
	// Sequence is that of the event's stored copy in EVENTS.
	Sequence uint64 `json:"sequence,omitempty"`
	// Duplicate says that the event was known already: nothing is sent anew.
	Duplicate bool `json:"duplicate,omitempty"`
	// Changed names what the operator changed about the delivery: attributes, and
	// "body". Their values are those of the event.
	Changed []string `json:"changed,omitempty"`
}

// OperationAction is what an operator did.
type OperationAction string

// The actions.
const (
	OperationRequeued  OperationAction = "requeued"  // handed in again, and taken
	OperationDiscarded OperationAction = "discarded" // ended for good
)

// OperationLetter is which letter an operation was about, which is gone since.
type OperationLetter struct {
	Key      Key    `json:"key"`
	Sequence uint64 `json:"sequence"` // in DEADLETTERS
	Cause    Cause  `json:"cause"`
}
