package event

import (
	"encoding/json"
	"time"
)

// FactKind names a type of fact in JSON.
type FactKind string

// Fact is one thing that happened to an event. The types that implement it are
// the ones in this file; [FactKinds] lists them.
type Fact interface {
	FactKind() FactKind
}

// Owner is the process that holds a claim.
type Owner struct {
	Instance string `json:"instance"` // stays with the data directory
	Boot     string `json:"boot"`     // new at every start
}

// Claimed says that a process took the event in hand. It is appended before any
// side effect, expecting the last sequence: one of several claimants wins.
type Claimed struct {
	Owner      Owner  `json:"owner"`
	Generation int    `json:"generation"`
	Round      int    `json:"round"`
	LeaseMS    int64  `json:"lease_ms"`         // from the record's time in the stream
	Limit      int    `json:"limit"`            // it tries at most this many messages; 0: no bound
	Config     string `json:"config,omitempty"` // revision of the configuration in force
	// Messages are the ids of what it may try, where the plan is frozen: none of
	// the others is touched under this claim. Without a frozen plan they are not
	// known yet, and Limit bounds them.
	Messages []string `json:"messages,omitempty"`
}

// Crashed says that a claim ended without results: its process died, or was
// stopped past its lease. What it may have been sending becomes uncertain.
type Crashed struct {
	Claim  string `json:"claim"`  // id of the record that claimed
	Owner  Owner  `json:"owner"`  // who held it
	Reason string `json:"reason"` // "owner_gone", "lease_expired" or "panic"
}

// Planned freezes the messages of the event, or says why there are none.
type Planned struct {
	Config   string           `json:"config,omitempty"`
	Routes   []RouteDecision  `json:"routes,omitempty"`
	Messages []PlannedMessage `json:"messages,omitempty"`
	// Nothing is no_template or no_recipient where there are no messages.
	Nothing Outcome `json:"nothing,omitempty"`
}

// RouteDecision is what became of one route that was considered.
type RouteDecision struct {
	Route   string `json:"route"`
	Verdict string `json:"verdict"`          // "planned", "condition_false", "no_recipient", "no_template"
	Detail  string `json:"detail,omitempty"` // why; never an address
	Count   int    `json:"count,omitempty"`  // messages planned by it

	// The rest is there where the event has no messages at all, of the first of its
	// routes: what it would have taken, by the configuration that decided.
	Needed  string   `json:"needed,omitempty"`  // in words
	Missing []string `json:"missing,omitempty"` // what the rule names and the event has not, such as data.customer
	Locales []string `json:"locales,omitempty"` // in which a template was looked for
}

// PlannedMessage is what the plan fixes about a message.
type PlannedMessage struct {
	ID        string    `json:"id"`
	Route     string    `json:"route"`
	Channel   string    `json:"channel"`
	Template  string    `json:"template,omitempty"`
	Version   string    `json:"template_version,omitempty"`
	Locale    string    `json:"locale,omitempty"`
	Recipient Recipient `json:"recipient"`
	OnUnknown OnUnknown `json:"on_unknown"`
	Category  string    `json:"category,omitempty"` // what it is about, in one word
	// Degraded is why it says less than its template would: where that failed, and how.
	Degraded string `json:"degraded,omitempty"`
}

// TryResult is how one call of a provider ended.
type TryResult string

// The results of a try.
const (
	TryDelivered   TryResult = "delivered"    // the provider took it
	TryPermanent   TryResult = "permanent"    // it refused for good
	TryTransient   TryResult = "transient"    // it certainly did not take it, and may later
	TryRateLimited TryResult = "rate_limited" // it asked to come back later; burns no try
	TryUnknown     TryResult = "unknown"      // it may have taken it: the answer was lost
)

// Tried is one call of a provider for one message.
type Tried struct {
	Message    string    `json:"message"`
	Round      int       `json:"round"`
	Try        int       `json:"try"` // 1 is the first of the round
	Started    time.Time `json:"started"`
	Ended      time.Time `json:"ended"`
	Result     TryResult `json:"result"`
	Code       string    `json:"code,omitempty"`       // a code, never the provider's words
	Provider   string    `json:"provider,omitempty"`   // the host that was called
	Via        string    `json:"via,omitempty"`        // which of the channel's providers; empty: it has the one
	RetryAfter time.Time `json:"retry_after,omitzero"` // the message is not tried before
}

// Withheld says that a message was suppressed at the moment of sending.
type Withheld struct {
	Message string `json:"message"`
	Reason  string `json:"reason"`
}

// GaveUp says that no further try of a message follows in this generation.
type GaveUp struct {
	Message string `json:"message"`
	Reason  string `json:"reason"` // "permanent", "rounds_exhausted", "held", "not_in_plan" …
}

// Expired says that the event occurred before the staleness window.
type Expired struct {
	AgeMS    int64 `json:"age_ms"`
	WindowMS int64 `json:"window_ms"`
}

// Settled ends the event: nothing more is to be done.
type Settled struct{}

// Waiting says when the open messages are tried again.
type Waiting struct {
	Round  int        `json:"round"` // the round that starts then
	Due    time.Time  `json:"due"`
	Reason WaitReason `json:"reason"`
	// Channel is the one that had no room, where that is the reason.
	Channel string `json:"channel,omitempty"`
}

// WaitReason is why an event waits.
type WaitReason string

// The reasons to wait.
const (
	WaitRetry       WaitReason = "retry"        // the next round
	WaitRateLimited WaitReason = "rate_limited" // a provider asked for it; burns no round
	WaitInterrupted WaitReason = "interrupted"  // the process was stopped; burns no round
	WaitBusy        WaitReason = "busy"         // a channel has no room for it or its breaker is open; burns no round
)

// Dead ends the event as a dead letter. The letter itself is written first.
type Dead struct {
	Cause  Cause  `json:"cause"`
	Detail string `json:"detail,omitempty"` // file and line of a template, a limit; never personal data
}

// Requeued opens a new generation of an ended event by an operator's word. What
// was delivered stays so.
type Requeued struct {
	Generation int    `json:"generation"`
	Operator   string `json:"operator"`
	Reason     string `json:"reason,omitempty"`
	// Replay is the id of the replay plan that it is a part of, if any.
	Replay string `json:"replay,omitempty"`
	// Messages are the ids of the messages that are tried again: the others stay
	// as they ended. None means all that were not delivered.
	Messages []string `json:"messages,omitempty"`
	// Edit replaces the payload from this generation on. It is planned anew then:
	// of the plan before only what was delivered stays.
	Edit *Edit `json:"edit,omitempty"`
}

// Edit names a payload that an operator put in the place of the event's own. The
// payload itself is kept with the dead letter.
type Edit struct {
	Digest string `json:"digest"` // see [Digest]
	Size   int    `json:"size"`   // bytes
}

// Discarded ends a dead letter for good by an operator's word.
type Discarded struct {
	Operator string `json:"operator"`
	Reason   string `json:"reason"`
}

// Restored says that the records before this one are gone from the log, and
// where the event stood by another account of them. What either account knows
// as delivered stays so.
type Restored struct {
	From  RestoredFrom `json:"from"`
	State State        `json:"state"`
}

// RestoredFrom is an account of an event beside the log.
type RestoredFrom string

// The accounts.
const (
	FromLetter RestoredFrom = "letter" // its dead letter, requeued after the horizon
	FromLedger RestoredFrom = "ledger" // the ledger, after the log lost its end
)

// UnknownFact is a fact of a kind that this version does not know. It is kept
// and shown as it is ([EncodeRecord] drops blanks between its tokens and changes
// no other byte), and changes no state.
type UnknownFact struct {
	Kind FactKind
	Raw  json.RawMessage
}

// FactKind implements Fact.
func (Claimed) FactKind() FactKind { return "claimed" }

// FactKind implements Fact.
func (Crashed) FactKind() FactKind { return "crashed" }

// FactKind implements Fact.
func (Planned) FactKind() FactKind { return "planned" }

// FactKind implements Fact.
func (Tried) FactKind() FactKind { return "tried" }

// FactKind implements Fact.
func (Withheld) FactKind() FactKind { return "withheld" }

// FactKind implements Fact.
func (GaveUp) FactKind() FactKind { return "gave_up" }

// FactKind implements Fact.
func (Expired) FactKind() FactKind { return "expired" }

// FactKind implements Fact.
func (Settled) FactKind() FactKind { return "settled" }

// FactKind implements Fact.
func (Waiting) FactKind() FactKind { return "waiting" }

// FactKind implements Fact.
func (Dead) FactKind() FactKind { return "dead" }

// FactKind implements Fact.
func (Requeued) FactKind() FactKind { return "requeued" }

// FactKind implements Fact.
func (Discarded) FactKind() FactKind { return "discarded" }

// FactKind implements Fact.
func (Restored) FactKind() FactKind { return "restored" }

// FactKind implements Fact.
func (f UnknownFact) FactKind() FactKind { return f.Kind }

// FactKinds returns a zero value of every fact, in the order of an event's life.
func FactKinds() []Fact {
	return []Fact{
		Claimed{},
		Crashed{},
		Planned{},
		Tried{},
		Withheld{},
		GaveUp{},
		Expired{},
		Waiting{},
		Settled{},
		Dead{},
		Requeued{},
		Discarded{},
		Restored{},
	}
}
