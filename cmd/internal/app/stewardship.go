package app

import (
	"context"
	"errors"
	"time"

	"tidings/dispatcher/steward"
	"tidings/projector"
	"tidings/store"
	"tidings/streams"
	"tidings/streams/event"
)

// stewardship is the ledger as the steward reads it. How far EVENTS was walked is
// one of its checkpoints: a new ledger is walked anew.
type stewardship struct {
	store      *store.Store
	projection *projector.Projector
	log        *streams.Log
}

// catchUpWithin is how long a round of the steward waits for the ledger.
const catchUpWithin = 10 * time.Second

// Overdue implements steward.Ledger.
func (s stewardship) Overdue(_ context.Context, due, idle time.Time, limit int) ([]streams.Wakeup, error) {
	rows, err := s.store.Overdue(due, due.Sub(idle), limit)
	wake := make([]streams.Wakeup, 0, len(rows))
	for _, r := range rows {
		wake = append(wake, streams.Wakeup{Tenant: r.Tenant, Key: r.Key, Sequence: r.Sequence})
	}
	return wake, err
}

// CaughtUp implements steward.Ledger.
func (s stewardship) CaughtUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, catchUpWithin)
	defer cancel()
	info, err := s.log.Outcomes.Info(ctx)
	if err != nil {
		return err
	}
	return s.projection.CaughtUp(ctx, info.Last)
}

// Phase implements steward.Ledger.
func (s stewardship) Phase(key event.Key) (event.Phase, bool, error) {
	row, err := s.store.Event(key)
	if errors.Is(err, store.ErrNotFound) {
		return "", false, nil
	}
	return row.Phase, err == nil, err
}

// Settled implements steward.Ledger.
func (s stewardship) Settled(ctx context.Context, limit int) ([]steward.Letter, error) {
	var settled []steward.Letter
	for q := (store.LetterQuery{}); ; {
		page, err := s.store.DeadLetters(q)
		if err != nil {
			return nil, err
		}
		for _, l := range page.Items {
			phase, known, err := s.Phase(l.Key)
			if err != nil {
				return nil, err
			}
			if l.Over || known && phase == event.PhaseSettled {
				settled = append(settled, steward.Letter{
					Tenant: l.Tenant, Key: l.Key, Generation: l.Generation, Sequence: l.Sequence, Ended: l.Over,
				})
			}
		}
		if q.Cursor = page.Next; q.Cursor == "" || len(settled) >= limit || ctx.Err() != nil {
			return settled, ctx.Err()
		}
	}
}

// Walked implements steward.Ledger.
func (s stewardship) Walked(ctx context.Context) (uint64, error) {
	info, err := s.log.Events.Info(ctx)
	if err != nil {
		return 0, err
	}
	at, err := s.store.Checkpoint(streams.EventsStream)
	if err != nil || !at.Created.Equal(info.Created) {
		return 0, err
	}
	return at.Sequence, nil
}

// Walk implements steward.Ledger.
func (s stewardship) Walk(ctx context.Context, sequence uint64) error {
	info, err := s.log.Events.Info(ctx)
	if err != nil {
		return err
	}
	return s.store.Update(func(tx *store.Tx) error {
		return tx.Checkpoint(store.Checkpoint{Stream: streams.EventsStream, Created: info.Created, Sequence: sequence})
	})
}
