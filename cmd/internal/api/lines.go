package api

import (
	"errors"

	"tidings/store"
	"tidings/streams/event"
)

// LetterStatus is what is happening about a dead letter.
type LetterStatus string

// What may be happening about a dead letter.
const (
	LetterDead     LetterStatus = "dead"     // it waits for an operator
	LetterRequeued LetterStatus = "requeued" // an operator requeued it, and its event has not ended yet
	LetterOver     LetterStatus = "over"     // it has ended otherwise, and is about to be removed
)

// LetterLine is a dead letter in the list, and what is happening about it.
type LetterLine struct {
	store.Letter
	Status LetterStatus `json:"status" enum:"dead,requeued,over"`
	// Phase is that of the event of a requeued letter.
	Phase event.Phase `json:"phase,omitempty"`
}

// LetterLines is a page of the list of dead letters.
type LetterLines = store.Page[LetterLine]

// withStatus adds to letters what the ledger knows of their events.
func (s *Server) withStatus(page store.Page[store.Letter]) (LetterLines, error) {
	lines := LetterLines{Items: make([]LetterLine, len(page.Items)), Next: page.Next}
	for i, l := range page.Items {
		lines.Items[i] = LetterLine{Letter: l, Status: LetterDead}
		if l.Kind != event.LetterEvent {
			continue
		}
		row, err := s.Ledger.Event(l.Key)
		switch {
		case errors.Is(err, store.ErrNotFound): // beyond the horizon
		case err != nil:
			return LetterLines{}, err
		default:
			lines.Items[i].Status, lines.Items[i].Phase = statusOf(l, row)
		}
	}
	return lines, nil
}

func statusOf(l store.Letter, row store.Row) (LetterStatus, event.Phase) {
	switch {
	case row.Phase == event.PhaseSettled:
		return LetterOver, ""
	case row.Generation > l.Generation && row.Phase != event.PhaseDead:
		return LetterRequeued, row.Phase
	}
	return LetterDead, ""
}
