package event

// Outcome is how an event ended.
type Outcome string

// The outcomes, in the order in which the first that fits is taken.
const (
	Processed   Outcome = "processed"    // at least one message was delivered
	Failed      Outcome = "failed"       // a message failed or is uncertain, or the event is a dead letter
	Suppressed  Outcome = "suppressed"   // every message was suppressed
	NoRecipient Outcome = "no_recipient" // a route was found, and nobody to tell
	NoTemplate  Outcome = "no_template"  // no route, or no template, for this type of event
	Stale       Outcome = "stale"        // it occurred before the staleness window
	// DuplicateOutcome is what a redelivery gets. It never has a ledger row;
	// the row of the event counts it.
	DuplicateOutcome Outcome = "duplicate"
)

// Outcomes lists the outcomes that a ledger row can have.
func Outcomes() []Outcome {
	return []Outcome{Processed, Failed, Suppressed, NoRecipient, NoTemplate, Stale}
}

// Cause is why something became a dead letter: a stable name to group by.
type Cause string

// Causes of dead letters for events.
const (
	CauseCrashes           Cause = "crashes"             // claims ended without results too often: the event may be what kills the process
	CauseMaxDeliver        Cause = "max_deliver"         // it was delivered as often as it may be, without an end
	CauseUncertain         Cause = "uncertain"           // a message may or may not have been sent, and its channel holds it
	CauseRoundsExhausted   Cause = "rounds_exhausted"    // a message still failed after its last round
	CausePermanent         Cause = "permanent"           // a provider refused for good, where such refusals are dead-lettered
	CauseTemplateError     Cause = "template_error"      // a template or route expression could not be evaluated
	CauseContractViolated  Cause = "contract_violated"   // the payload is not as the contract for its type says
	CauseTooManyRecipients Cause = "too_many_recipients" // more messages than one event may have
	CauseEventMissing      Cause = "event_missing"       // the stored copy of the event is gone
	CausePanic             Cause = "panic"               // handling the event panicked
	CauseIDConflict        Cause = "id_conflict"         // an identity was used again for another body
)

// Causes of dead letters for raw deliveries: what could not become an envelope.
const (
	CauseUndecodable     Cause = "undecodable"       // neither CloudEvents nor a plain event
	CauseMissingID       Cause = "missing_id"        // no id, where such deliveries are refused
	CauseFuture          Cause = "future"            // it claims to occur too far ahead
	CauseOversize        Cause = "oversize"          // larger than a stored event may be
	CauseHeadersTooLarge Cause = "headers_too_large" // its headers do not fit
	CauseReservedSource  Cause = "reserved_source"   // it claims the source of tests, which only operators dispatch
)

// Causes lists the causes of dead letters: those of events, then those of raw
// deliveries.
func Causes() []Cause {
	return []Cause{
		CauseCrashes, CauseMaxDeliver, CauseUncertain, CauseRoundsExhausted, CausePermanent, CauseTemplateError,
		CauseContractViolated, CauseTooManyRecipients, CauseEventMissing, CausePanic, CauseIDConflict,
		CauseUndecodable, CauseMissingID, CauseFuture, CauseOversize, CauseHeadersTooLarge,
		CauseReservedSource,
	}
}

// Stage is the part that decided something.
type Stage string

// The stages.
const (
	StageBridge     Stage = "bridge"
	StageHTTP       Stage = "http"
	StageDispatcher Stage = "dispatcher"
	StageSteward    Stage = "steward"
)
