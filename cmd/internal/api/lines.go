package api

import (
	"errors"
	"slices"

	"tidings/store"
	"tidings/streams/event"
)

// LetterStatus is what is happening about a dead letter.
type LetterStatus string

// What may be happening about a dead letter.
const (
	LetterDead     LetterStatus = "dead"     // it waits for an operator
	LetterRequeued LetterStatus = "requeued" // an operator requeued it, and its event has not ended yet
	letterOver     LetterStatus = "over"     // it has ended otherwise, and is about to be removed: not listed
)

// LetterLine is a dead letter in the list, and what is happening about it.
type LetterLine struct {
	store.Letter
	Status LetterStatus `json:"status" enum:"dead,requeued"`
	// Phase is that of the event of a requeued letter.
	Phase event.Phase `json:"phase,omitempty"`
}

// LetterLines is a page of the list of dead letters.
type LetterLines = store.Page[LetterLine]

// withStatus adds to letters what the ledger knows of their events, and leaves out
// those that nothing is to be done about any more.
func (s *Server) withStatus(page store.Page[store.Letter]) (LetterLines, error) {
	lines := LetterLines{Items: make([]LetterLine, 0, len(page.Items)), Next: page.Next}
	for _, l := range page.Items {
		line, err := s.lineOf(l)
		if err != nil {
			return LetterLines{}, err
		}
		if line.Status != letterOver {
			lines.Items = append(lines.Items, line)
		}
	}
	return lines, nil
}

func (s *Server) lineOf(l store.Letter) (LetterLine, error) {
	line := LetterLine{Letter: l, Status: LetterDead}
	if l.Over {
		line.Status = letterOver
	}
	if l.Kind != event.LetterEvent {
		return line, nil
	}
	row, err := s.Ledger.Event(l.Key)
	switch {
	case errors.Is(err, store.ErrNotFound): // beyond the horizon
	case err != nil:
		return line, err
	default:
		line.Status, line.Phase = statusOf(l, row)
	}
	return line, nil
}

func statusOf(l store.Letter, row store.Row) (LetterStatus, event.Phase) {
	switch {
	case row.Phase == event.PhaseSettled:
		return letterOver, ""
	case row.Generation > l.Generation && row.Phase != event.PhaseDead:
		return LetterRequeued, row.Phase
	}
	return LetterDead, ""
}

// chosen returns the dead letters that a query chooses and that nobody has requeued,
// the oldest first, and at most a few more than most: those that come later are left
// for another time.
func (s *Server) chosen(q store.LetterQuery, most int) ([]store.Letter, error) {
	var all []store.Letter
	for q.Limit = store.MaxLimit; ; {
		page, err := s.Ledger.DeadLetters(q)
		if err != nil {
			return nil, s.failure(err)
		}
		lines, err := s.withStatus(page)
		if err != nil {
			return nil, s.failure(err)
		}
		for _, l := range lines.Items {
			if l.Status == LetterDead {
				all = append(all, l.Letter)
			}
		}
		if q.Cursor = page.Next; q.Cursor == "" || len(all) > most {
			slices.Reverse(all)
			return all, nil
		}
	}
}
