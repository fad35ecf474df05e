package event

import "time"

// Skip is the audit entry of an operator's word that an entry of OUTCOMES which
// cannot be folded is passed over. The entry itself stays, and is shown as it is.
type Skip struct {
	ID       string    `json:"id"` // 128 random bits
	Schema   int       `json:"schema"`
	Kind     Kind      `json:"kind"` // always "skip"
	At       time.Time `json:"at"`
	Tenant   string    `json:"tenant"` // whose subject holds this entry
	Operator string    `json:"operator"`
	Reason   string    `json:"reason"`
	Sequence uint64    `json:"sequence"` // of the entry that is skipped
	Problem  string    `json:"problem"`  // why it cannot be folded
	// Event is the key of the event that the entry is about, as far as it says.
	Event Key `json:"event,omitempty"`
}
