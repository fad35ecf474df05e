package steward

import (
	"context"
	"maps"
	"slices"

	"tidings/streams"
)

// walk is how far EVENTS was looked at, and what was found.
type walk struct {
	started bool
	cursor  uint64 // everything up to it was looked at
	noted   uint64 // in the ledger
	// missing are the copies up to there without a record, by sequence.
	missing map[uint64]streams.Wakeup
}

// verified returns the sequence up to which everything has a record.
func (w *walk) verified() uint64 {
	if len(w.missing) == 0 {
		return w.cursor
	}
	return slices.Min(slices.Collect(maps.Keys(w.missing))) - 1
}

// walkEvents looks at what is handled by now, and wakes what has no record.
func (s *Steward) walkEvents(ctx context.Context, handled uint64) error {
	if err := s.resume(ctx); err != nil {
		return err
	}
	if err := s.lookAgain(); err != nil {
		return err
	}
	for s.walk.cursor < handled && len(s.walk.missing) < atMost {
		more, err := s.step(ctx, handled)
		if err != nil {
			return err
		}
		if !more {
			break
		}
	}
	if err := s.note(ctx); err != nil {
		return err
	}
	missing := slices.Collect(maps.Values(s.walk.missing))
	return s.wake(ctx, "woke events that were given up without a record", missing)
}

// resume goes on where an earlier process stopped, or where EVENTS ends now: it
// may have lost its end, whose numbers are used again.
func (s *Steward) resume(ctx context.Context) error {
	if s.walk.started {
		return nil
	}
	walked, err := s.o.Ledger.Walked(ctx)
	if err != nil {
		return err
	}
	info, err := s.o.Events.Info(ctx)
	if err != nil {
		return err
	}
	s.walk.started, s.walk.cursor, s.walk.noted = true, min(walked, info.Last), walked
	return nil
}

// note keeps how far the walk is, for the next process.
func (s *Steward) note(ctx context.Context) error {
	verified := s.walk.verified()
	if verified == s.walk.noted {
		return nil
	}
	s.walk.noted = verified
	return s.o.Ledger.Walk(ctx, verified)
}

// lookAgain forgets what has a record by now.
func (s *Steward) lookAgain() error {
	for sequence, w := range s.walk.missing {
		_, known, err := s.o.Ledger.Phase(w.Key)
		if err != nil {
			return err
		}
		if known {
			delete(s.walk.missing, sequence)
		}
	}
	return nil
}

// step looks at some copies further on, up to the one that is handled, and
// reports whether there may be more.
func (s *Steward) step(ctx context.Context, handled uint64) (more bool, err error) {
	copies, err := s.o.Events.Copies(ctx, s.walk.cursor, atMost)
	if err != nil || len(copies) == 0 {
		return false, err
	}
	for _, c := range copies {
		if c.Sequence > handled {
			return false, nil
		}
		if err := s.look(c); err != nil {
			return false, err
		}
		s.walk.cursor = c.Sequence
	}
	return true, nil
}

// look notes a copy without a record. What is no event of ours has none, and is a
// dead letter; what is beyond the horizon may have had one.
func (s *Steward) look(c streams.Copy) error {
	if c.Ref.Key == "" || s.o.Horizon > 0 && s.o.Now().Sub(c.At) > s.o.Horizon {
		return nil
	}
	_, known, err := s.o.Ledger.Phase(c.Ref.Key)
	if err == nil && !known {
		s.walk.missing[c.Sequence] = streams.Wakeup{Tenant: c.Ref.Tenant, Key: c.Ref.Key, Sequence: c.Sequence}
	}
	return err
}
