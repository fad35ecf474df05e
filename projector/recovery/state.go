package recovery

import (
	"slices"
	"time"

	"tidings/store"
	"tidings/streams/event"
)

// stateOf returns where an event stood by the ledger: the fold of its history, or
// of what is left of it where the horizon took the beginning.
func (r *Recovery) stateOf(row store.Row) (event.State, error) {
	var s event.State
	for after := uint64(0); ; {
		entries, err := r.o.Ledger.History(row.Key, after, store.MaxLimit)
		if err != nil {
			return s, err
		}
		for _, e := range entries {
			var complete bool
			if s, complete = fold(s, e); !complete {
				return r.remains(row)
			}
			after = e.Sequence
		}
		if len(entries) < store.MaxLimit {
			return s, nil
		}
	}
}

// fold applies an entry of a history. complete is false where records are missing
// before it.
func fold(s event.State, e store.Entry) (_ event.State, complete bool) {
	if len(e.Facts) == 0 {
		return s, true // no record
	}
	restored := slices.ContainsFunc(e.Facts, func(f event.Fact) bool { _, ok := f.(event.Restored); return ok })
	if e.Revision != s.Revision+1 && !restored {
		return s, false
	}
	return s.Apply(e.ID, e.At, e.Facts...), true
}

// remains returns what row and messages tell of a state. Who had claimed the event
// is not known then, so that whatever is still open may have been sent.
func (r *Recovery) remains(row store.Row) (event.State, error) {
	messages, err := r.o.Ledger.Messages(row.Key)
	if err != nil {
		return event.State{}, err
	}
	s := event.State{
		Phase: row.Phase, Revision: row.Revision, Generation: row.Generation, Round: row.Round, Crashes: row.Crashes,
		Due: row.Due, Planned: len(messages) > 0 || row.Ended(), Messages: messages,
		Cause: row.Cause, Outcome: row.Outcome, StartedAt: row.StartedAt, ChangedAt: row.ChangedAt,
	}
	switch row.Outcome {
	case event.NoTemplate, event.NoRecipient, event.Stale:
		s.Nothing = row.Outcome
	case event.Processed, event.Failed, event.Suppressed, event.DuplicateOutcome:
	}
	if row.Phase != event.PhaseClaimed {
		return s, nil
	}
	s.Phase, s.Due = event.PhaseOpen, time.Time{}
	if !s.Planned {
		s.Lost = &event.Lost{}
	}
	for _, i := range s.Open() {
		s.Messages[i].State = event.MessageUncertain
	}
	return s, nil
}
