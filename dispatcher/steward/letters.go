package steward

import (
	"context"
	"errors"

	"tidings/dispatcher/letters"
	"tidings/streams"
)

// removeLetters removes the dead letters that have nothing to say any more: the
// process that should have done it died before it could.
func (s *Steward) removeLetters(ctx context.Context) error {
	settled, err := s.o.Ledger.Settled(ctx, atMost)
	if err != nil {
		return err
	}
	removed := 0
	for _, l := range settled {
		over, err := s.over(ctx, l)
		if err != nil {
			return err
		}
		if !over {
			continue
		}
		if err := s.o.Letters.Remove(ctx, l.Sequence); err != nil && !errors.Is(err, streams.ErrNotFound) {
			return err
		}
		removed++
	}
	if removed > 0 {
		s.o.Logger.Info("removed dead letters whose events have ended otherwise", "letters", removed)
	}
	return nil
}

// over asks the history, because the ledger may be behind. An event that is
// forgotten has nothing but its letter.
func (s *Steward) over(ctx context.Context, l Letter) (bool, error) {
	if l.Ended {
		return true, nil
	}
	last, err := s.o.Histories.Last(ctx, l.Tenant, l.Key)
	if errors.Is(err, streams.ErrNotFound) {
		return false, nil
	}
	return err == nil && letters.Over(l.Generation, last.Record.State), err
}
