package api

import (
	"tidings/dispatcher/replay"
	"tidings/store"
	"tidings/streams/event"
)

// The types in questions and answers, for the commands, which know the API and
// not what is behind it.
type (
	Row         = store.Row
	Rows        = store.Page[store.Row]
	Counts      = store.Counts
	LetterQuery = store.LetterQuery
	Letter      = event.Letter
	Key         = event.Key
	Outcome     = event.Outcome
	Phase       = event.Phase
	Cause       = event.Cause
	LetterKind  = event.LetterKind
	Messages    = event.Counts
	Message     = event.Message
)

// DefaultLimit is how many items a page has where nothing else is asked for.
const DefaultLimit = store.DefaultLimit

// MaxLimit is how many a page may have.
const MaxLimit = store.MaxLimit

// Outcomes lists the outcomes that a ledger row can have.
func Outcomes() []Outcome { return event.Outcomes() }

// OpenPhases lists the phases of events that have not ended.
func OpenPhases() []Phase { return []Phase{event.PhaseOpen, event.PhaseClaimed, event.PhaseWaiting} }

// Phases lists the phases that an event can be in.
func Phases() []Phase { return append(OpenPhases(), event.PhaseSettled, event.PhaseDead) }

// PhaseDead is the phase of an event that is a dead letter.
const PhaseDead = event.PhaseDead

// PhaseWaiting is the phase of an event that waits for a time or for a channel.
const PhaseWaiting = event.PhaseWaiting

// MessageUncertain is the state of a message that may have been received.
const MessageUncertain = event.MessageUncertain

// Causes lists the causes of dead letters.
func Causes() []Cause { return event.Causes() }

// RecordKinds lists the kinds of entries that can be followed.
func RecordKinds() []event.Kind { return event.Kinds() }

// RecordOutcomes lists the outcomes that entries which can be followed have.
func RecordOutcomes() []Outcome { return append(event.Outcomes(), Duplicate) }

// LetterKinds lists the kinds of dead letters.
func LetterKinds() []LetterKind { return []LetterKind{event.LetterEvent, event.LetterDelivery} }

// Duplicate is what a redelivery gets in place of an outcome.
const Duplicate = event.DuplicateOutcome

// ReplayStopped is where a replay plan stands that an operator or its canary stopped.
const ReplayStopped = replay.Stopped
