package event

import (
	"strconv"
	"time"
)

// Phase is what is to be done about an event.
type Phase string

// The phases. The zero value means that the event has no record yet.
const (
	PhaseOpen    Phase = "open"    // nobody holds it: requeued, or its claim ended without another
	PhaseClaimed Phase = "claimed" // a process holds it
	PhaseWaiting Phase = "waiting" // it is tried again when due
	PhaseSettled Phase = "settled" // ended
	PhaseDead    Phase = "dead"    // ended as a dead letter
)

// Claim is the claim in force.
type Claim struct {
	ID      string `json:"id"` // of the record that claimed: its nonce
	Owner   Owner  `json:"owner"`
	LeaseMS int64  `json:"lease_ms"` // from its record's time in the stream
	Limit   int    `json:"limit"`    // it tries at most this many messages; 0: no bound
	Config  string `json:"config,omitempty"`
	// Messages are the ids of what it may try, where the plan was frozen before.
	Messages []string `json:"messages,omitempty"`
}

// Lease returns how long the claim holds from its record's time in the stream.
func (c Claim) Lease() time.Duration { return time.Duration(c.LeaseMS) * time.Millisecond }

// State is where an event stands after its last record. The zero State is that
// of an event without a record. States are values: Apply returns a new one.
type State struct {
	Phase      Phase     `json:"phase"`
	Revision   int       `json:"revision"`   // number of records folded in
	Generation int       `json:"generation"` // number of requeues
	Round      int       `json:"round"`      // of this generation, 0 is the first
	Crashes    int       `json:"crashes"`    // in this generation
	Claim      *Claim    `json:"claim,omitempty"`
	Due        time.Time `json:"due,omitzero"` // while it waits: when it is tried again
	// Waits is why it waits, while it does.
	Waits WaitReason `json:"waits,omitempty"`
	// DeferredMS is how long rate limits made it wait in this generation.
	DeferredMS int64 `json:"deferred_ms,omitempty"`
	// Planned says that Messages is the frozen plan, which may be empty.
	Planned  bool      `json:"planned"`
	Nothing  Outcome   `json:"nothing,omitempty"` // why the plan is empty, or stale
	Messages []Message `json:"messages,omitempty"`
	// Lost is set while a claim crashed before the plan was frozen: whatever it
	// would have tried is uncertain.
	Lost *Lost `json:"lost,omitempty"`
	// Edited is the payload in force where an operator replaced the event's own.
	Edited *Edited `json:"edited,omitempty"`
	// EarlierTries counts provider calls for messages that an edit took out of the plan.
	EarlierTries int   `json:"earlier_tries,omitempty"`
	Cause        Cause `json:"cause,omitempty"` // of a dead letter
	// Discarded says that an operator ended the dead letter for good.
	Discarded bool      `json:"discarded,omitempty"`
	Outcome   Outcome   `json:"outcome,omitempty"`   // once it has ended
	StartedAt time.Time `json:"started_at,omitzero"` // of the first record
	ChangedAt time.Time `json:"changed_at,omitzero"` // of the last record
}

// Lost is a claim that crashed before its plan was frozen.
type Lost struct {
	Limit  int    `json:"limit"` // the widest of several such claims
	Config string `json:"config,omitempty"`
}

// Edited is a payload that an operator put in the place of the event's own.
type Edited struct {
	Generation int    `json:"generation"` // that it was put in with
	Digest     string `json:"digest"`
	Size       int    `json:"size"` // bytes
}

// IdempotencyKey returns what a provider tells one message from another by: the
// message's id, and another one after each edit, since receivers drop what they
// have seen.
func (s State) IdempotencyKey(message string) string {
	if s.Edited == nil {
		return message
	}
	return message + ".g" + strconv.Itoa(s.Edited.Generation)
}

// covers reports whether the claim may have sent messages of a plan of n.
func (l Lost) covers(n int) bool { return l.Limit <= 0 || n <= l.Limit }

// Ended reports whether nothing more is done about the event unless an operator
// says so.
func (s State) Ended() bool { return s.Phase == PhaseSettled || s.Phase == PhaseDead }

// Open returns the indexes of the messages that still want a try in this
// generation, in the order of the plan.
func (s State) Open() []int {
	var open []int
	for i, m := range s.Messages {
		if m.Open() {
			open = append(open, i)
		}
	}
	return open
}

// Message returns the message of that id, or nil. The result points into s.
func (s State) Message(id string) *Message {
	for i := range s.Messages {
		if s.Messages[i].ID == id {
			return &s.Messages[i]
		}
	}
	return nil
}

// Counts returns the numbers of messages by state.
func (s State) Counts() Counts {
	c := Counts{Created: len(s.Messages)}
	for _, m := range s.Messages {
		switch m.State {
		case MessageDelivered:
			c.Delivered++
		case MessageFailed:
			c.Failed++
		case MessageSuppressed:
			c.Suppressed++
		case MessageUncertain:
			c.Uncertain++
		case MessagePending:
		}
	}
	return c
}

// Tries returns the number of provider calls recorded over all generations.
func (s State) Tries() int {
	n := s.EarlierTries
	for _, m := range s.Messages {
		n += m.Tries
	}
	return n
}

// outcome returns how an ended event ended: the first that fits.
func (s State) outcome() Outcome {
	c := s.Counts()
	switch {
	case !s.Ended():
		return ""
	case c.Delivered > 0:
		return Processed
	case c.Suppressed < c.Created, s.Phase == PhaseDead, s.Discarded:
		return Failed // failed, uncertain, or never given an end
	case c.Suppressed > 0:
		return Suppressed
	case s.Nothing != "":
		return s.Nothing
	default:
		return NoRecipient
	}
}
