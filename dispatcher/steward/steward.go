// Package steward looks after what nobody is holding: events that should have
// been woken and were not, because a schedule was lost, a process died between
// a record and the wake-up that follows from it, or a claim was left behind.
//
// What to believe: it only publishes wake-ups. What becomes of an event is
// decided by the step that the wake-up starts, so a wake-up too many is
// harmless, and the steward may run as often as it likes.
package steward

import (
	"context"
	"log/slog"
	"time"

	"tidings/streams"
)

// Ledger lists what nobody seems to be looking after.
type Ledger interface {
	// Overdue returns up to limit events that have waited since before due, or
	// have been claimed or open without a change since before idle.
	Overdue(ctx context.Context, due, idle time.Time, limit int) ([]streams.Wakeup, error)
}

// Waker publishes wake-ups.
type Waker interface {
	Wake(ctx context.Context, w streams.Wakeup) error
}

// Options are what a Steward needs; durations of zero have the defaults named.
type Options struct {
	Ledger Ledger
	Waker  Waker
	Every  time.Duration // between two rounds; 15 s
	Grace  time.Duration // after the due time before a schedule counts as lost; 10 s
	Idle   time.Duration // without a change before a claim counts as left behind; 70 s, which is past its lease
	Logger *slog.Logger  // nil: discard
	Now    func() time.Time
}

// Steward is the part that wakes what was forgotten. Make one with New.
type Steward struct{ o Options }

// atMost bounds what one round wakes; the rest is found by the next.
const atMost = 1000

// New returns a steward. It does nothing before Run.
func New(o Options) *Steward {
	o.Every, o.Grace, o.Idle = orElse(o.Every, 15*time.Second), orElse(o.Grace, 10*time.Second), orElse(o.Idle, 70*time.Second)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Steward{o}
}

func orElse(d, def time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return def
}

// Run makes its rounds until ctx is done, and then returns nil. The first round
// comes at once and counts every claim as left behind: at the start of the
// process no claim of this instance is held by anybody.
func (s *Steward) Run(ctx context.Context) error {
	tick := time.NewTicker(s.o.Every)
	defer tick.Stop()
	for idle := time.Duration(0); ; idle = s.o.Idle {
		if n, err := s.round(ctx, idle); err != nil && ctx.Err() == nil {
			s.o.Logger.Warn("the steward's round was cut short; the next one goes on", "error", err)
		} else if n > 0 {
			s.o.Logger.Info("woke events that nobody was looking after", "events", n)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (s *Steward) round(ctx context.Context, idle time.Duration) (int, error) {
	now := s.o.Now()
	due, err := s.o.Ledger.Overdue(ctx, now.Add(-s.o.Grace), now.Add(-idle), atMost)
	if err != nil {
		return 0, err
	}
	for i, w := range due {
		if err := s.o.Waker.Wake(ctx, w); err != nil {
			return i, err
		}
	}
	return len(due), nil
}
