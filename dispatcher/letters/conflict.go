package letters

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tidings/streams"
	"tidings/streams/event"
)

// ConflictError says that an event is not where the operator thought: somebody
// else was faster, or it has not ended. Nothing was done.
type ConflictError struct {
	Key event.Key
	// Deed is what an operator did last about the event; nil if none did.
	Deed *Deed
	// Standing is where the event stands now, in words.
	Standing string
	// Why is what else stands against it, or empty.
	Why string
	// Changed says that the letter does not have the sequence that [Target] names.
	Changed bool
}

// Error implements error. It does not name the event.
func (e *ConflictError) Error() string {
	text := ""
	if e.Why != "" {
		text += e.Why + "; "
	}
	if e.Deed != nil {
		text += e.Deed.String() + "; "
	}
	return text + e.Standing
}

// Deed is what an operator did about an event.
type Deed struct {
	Action     string    `json:"action"` // "requeued" or "discarded"
	Operator   string    `json:"operator"`
	Reason     string    `json:"reason,omitempty"`
	Replay     string    `json:"replay,omitempty"`
	Generation int       `json:"generation"`
	At         time.Time `json:"at"`
	Sequence   uint64    `json:"sequence"` // of the record in OUTCOMES
	ref        event.Ref
}

// The actions.
const (
	actionRequeued  = "requeued"
	actionDiscarded = "discarded"
)

// String says it in words.
func (d Deed) String() string {
	text := fmt.Sprintf("%s %s it at %s", d.Operator, d.Action, d.At.UTC().Format(time.RFC3339))
	if d.Action == actionRequeued {
		text = fmt.Sprintf("%s requeued it as generation %d at %s", d.Operator, d.Generation, d.At.UTC().Format(time.RFC3339))
	}
	if d.Reason != "" {
		text += fmt.Sprintf(" (%s)", d.Reason)
	}
	return text
}

// deeds walks a history for what operators did, oldest first.
func (d *Desk) deeds(ctx context.Context, tenant string, key event.Key) ([]Deed, error) {
	var deeds []Deed
	for after := uint64(0); ; {
		next, err := d.o.Outcomes.Next(ctx, tenant, key, after)
		switch {
		case errors.Is(err, streams.ErrNotFound):
			return deeds, nil
		case err != nil:
			return deeds, err
		}
		deeds, after = append(deeds, deedsOf(next)...), next.Sequence
	}
}

func deedsOf(r streams.StoredRecord) []Deed {
	var deeds []Deed
	for _, f := range r.Record.Facts {
		deed := Deed{Generation: r.Record.State.Generation, At: r.Record.At, Sequence: r.Sequence, ref: r.Record.Event}
		switch f := f.(type) {
		case event.Requeued:
			deed.Action, deed.Operator, deed.Reason, deed.Replay = actionRequeued, f.Operator, f.Reason, f.Replay
		case event.Discarded:
			deed.Action, deed.Operator, deed.Reason = actionDiscarded, f.Operator, f.Reason
		default:
			continue
		}
		deeds = append(deeds, deed)
	}
	return deeds
}

// conflict returns the error that says where the event stands, and by whose word.
func (d *Desk) conflict(ctx context.Context, tenant string, key event.Key, why string) error {
	e, err := d.end(ctx, tenant, key)
	if err != nil {
		return err
	}
	c := &ConflictError{Key: key, Why: why, Standing: standing(e)}
	deeds, err := d.deeds(ctx, tenant, key)
	if err != nil {
		return err
	}
	if n := len(deeds); n > 0 {
		c.Deed = &deeds[n-1]
	}
	return c
}

// standing says where an event stands.
func standing(e end) string {
	s := e.state
	if e.seq == 0 {
		return "there is no history of it in the log"
	}
	switch s.Phase {
	case event.PhaseOpen:
		return "it is about to be taken in hand"
	case event.PhaseClaimed:
		return "it is being worked on"
	case event.PhaseWaiting:
		return "it waits until " + s.Due.UTC().Format(time.RFC3339)
	case event.PhaseDead:
		return fmt.Sprintf("it is a dead letter (%s) of generation %d", s.Cause, s.Generation)
	case event.PhaseSettled:
	}
	return fmt.Sprintf("it has ended as %s in generation %d", s.Outcome, s.Generation)
}
