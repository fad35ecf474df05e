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
		// The ledger may be behind: the history decides.
		last, err := s.o.Histories.Last(ctx, l.Tenant, l.Key)
		switch {
		case errors.Is(err, streams.ErrNotFound):
			continue // forgotten: the letter is all that there is
		case err != nil:
			return err
		case !letters.Over(l.Generation, last.Record.State):
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
