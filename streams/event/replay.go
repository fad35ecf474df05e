package event

import "time"

// Replay is one entry of a replay plan: dead letters that are requeued in bulk by
// one word of an operator. All entries of a plan are one subject.
type Replay struct {
	ID     string     `json:"id"` // of the entry: 128 random bits
	Schema int        `json:"schema"`
	Kind   Kind       `json:"kind"` // always "replay"
	At     time.Time  `json:"at"`
	Replay string     `json:"replay"` // id of the plan
	Step   ReplayStep `json:"step"`
	// Order is what the operator wants; of created.
	Order *ReplayOrder `json:"order,omitempty"`
	// Letters are some of the letters, in the order in which they are requeued; of
	// listed.
	Letters []ReplayLetter `json:"letters,omitempty"`
	// Progress is how far it is; of progressed, stopped and ended.
	Progress ReplayProgress `json:"progress,omitzero"`
	// Skipped are the keys of letters that were skipped since the entry before.
	Skipped []Key `json:"skipped,omitempty"`
	// Operator and Reason are who stopped it and why; of stopped. The canary's
	// failure stops it too, by nobody.
	Operator string `json:"operator,omitempty"`
	Reason   string `json:"reason,omitempty"`
}

// ReplayStep is what an entry of a replay plan is about.
type ReplayStep string

// The steps, in the order of a plan's life.
const (
	ReplayCreated    ReplayStep = "created"    // what is wanted
	ReplayListed     ReplayStep = "listed"     // letters of it: frozen, once all are listed
	ReplayProgressed ReplayStep = "progressed" // how far it is
	ReplayStopped    ReplayStep = "stopped"    // by an operator, or because the canary failed
	ReplayEnded      ReplayStep = "ended"      // each letter was dealt with, and has ended or waits
)

// ReplayOrder is what an operator wants of a replay plan.
type ReplayOrder struct {
	Operator string       `json:"operator"`
	Reason   string       `json:"reason"`
	Filter   ReplayFilter `json:"filter"`
	Letters  int          `json:"letters"`          // how many were chosen
	Rate     float64      `json:"rate,omitempty"`   // letters a second; 0: as fast as it goes
	Canary   int          `json:"canary,omitempty"` // so many first, and the rest only if each of them ends well
}

// ReplayFilter is what the letters were chosen by. Empty fields choose all.
type ReplayFilter struct {
	Tenant string    `json:"tenant,omitempty"`
	Cause  Cause     `json:"cause,omitempty"`
	Type   string    `json:"type,omitempty"` // of the event
	Since  time.Time `json:"since,omitzero"` // written then or later
	Until  time.Time `json:"until,omitzero"` // written before
	Text   string    `json:"text,omitempty"` // in the detail, id or type, in any case
}

// ReplayLetter names one letter of a plan, as it was when it was chosen.
type ReplayLetter struct {
	Tenant     string `json:"tenant"`
	Key        Key    `json:"key"`
	Generation int    `json:"generation"`
	Sequence   uint64 `json:"sequence"` // in DEADLETTERS
}

// ReplayProgress is how far a plan is.
type ReplayProgress struct {
	Done     int `json:"done"`     // letters dealt with: requeued or skipped
	Requeued int `json:"requeued"` // by this plan
	Skipped  int `json:"skipped"`  // somebody else was faster, or they are gone
	// What became of the requeued ones; of ended.
	Delivered int `json:"delivered,omitempty"` // settled, and something was delivered in the end
	Settled   int `json:"settled,omitempty"`   // settled otherwise
	Dead      int `json:"dead,omitempty"`      // dead letters again
	Waiting   int `json:"waiting,omitempty"`   // they wait for another round
}
