package replay

import (
	"maps"
	"time"

	"tidings/streams/event"
)

// Phase is where a plan stands.
type Phase string

// The phases.
const (
	Listing Phase = "listing" // its letters are being written down; left so by a crash, it never starts, and is stopped
	Running Phase = "running"
	Stopped Phase = "stopped"
	Ended   Phase = "ended"
)

// State is where a replay plan stands after its last entry.
type State struct {
	ID        string               `json:"id"`
	Phase     Phase                `json:"phase"`
	Order     event.ReplayOrder    `json:"order"`
	Progress  event.ReplayProgress `json:"progress"`
	CreatedAt time.Time            `json:"created_at"`
	ChangedAt time.Time            `json:"changed_at"`
	// Operator and Reason are who stopped it, nobody for a canary, and why.
	Operator string `json:"operator,omitempty"`
	Reason   string `json:"reason,omitempty"`

	letters []event.ReplayLetter
	skipped map[event.Key]bool
}

// Over reports whether nothing more is done.
func (s State) Over() bool { return s.Phase == Stopped || s.Phase == Ended }

// fold returns where a plan stands after its entries.
func fold(entries []event.Replay) State {
	var s State
	for _, e := range entries {
		s = s.apply(e)
	}
	return s
}

func (s State) apply(e event.Replay) State {
	s.ID, s.ChangedAt = e.Replay, e.At
	if len(e.Skipped) > 0 {
		s.skipped = maps.Clone(s.skipped) // the state before shares it
		if s.skipped == nil {
			s.skipped = map[event.Key]bool{}
		}
		for _, key := range e.Skipped {
			s.skipped[key] = true
		}
	}
	switch e.Step {
	case event.ReplayCreated:
		s.Phase, s.CreatedAt = Listing, e.At
		if e.Order != nil {
			s.Order = *e.Order
		}
	case event.ReplayListed:
		s.letters = append(s.letters[:len(s.letters):len(s.letters)], e.Letters...)
	case event.ReplayProgressed:
		s.Progress = e.Progress
	case event.ReplayStopped:
		s.Phase, s.Progress, s.Operator, s.Reason = Stopped, e.Progress, e.Operator, e.Reason
	case event.ReplayEnded:
		s.Phase, s.Progress = Ended, e.Progress
	}
	if s.Phase == Listing && len(s.letters) == s.Order.Letters {
		s.Phase = Running
	}
	return s
}
