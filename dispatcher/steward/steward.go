// Package steward looks after what nobody is holding.
//
//   - Events that should have been woken and were not, because a schedule was
//     lost, a process died between a record and the wake-up that follows from it,
//     or a claim was left behind.
//   - Copies in EVENTS that the dispatcher is through with although their event
//     has no record: the server gave them up. It walks EVENTS to find them.
//   - The head of EVENTS: it removes what has ended and is old, or what has ended
//     when space is short, and never an event that has not.
//   - Dead letters whose event has ended otherwise: it removes them.
//
// What to believe: it never decides what becomes of an event. It publishes
// wake-ups, and the step that one starts decides, so a wake-up too many is
// harmless. It removes only what the histories say has ended, and acts on the
// ledger only while that has all that the log had. It may run as often as it likes.
package steward

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"tidings/streams"
	"tidings/streams/event"
)

// Ledger is what is known of events. It may lag behind the log.
type Ledger interface {
	// Overdue returns up to limit events that have waited since before due, or
	// have been claimed or open without a change since before idle.
	Overdue(ctx context.Context, due, idle time.Time, limit int) ([]streams.Wakeup, error)
	// CaughtUp returns when the ledger has everything that the log had when it was
	// asked, or an error if that takes too long.
	CaughtUp(ctx context.Context) error
	// Phase returns where an event stands, and whether there is a record of it.
	Phase(key event.Key) (p event.Phase, known bool, err error)
	// Settled returns up to limit dead letters whose events have settled, and those
	// of deliveries that an operator has ended.
	Settled(ctx context.Context, limit int) ([]Letter, error)
	// Walked returns how far EVENTS was walked, 0 for not at all, and Walk notes it.
	Walked(ctx context.Context) (uint64, error)
	Walk(ctx context.Context, sequence uint64) error
}

// Letter names a dead letter in the list.
type Letter struct {
	Tenant     string
	Key        event.Key
	Generation int
	Sequence   uint64 // in DEADLETTERS
	Ended      bool   // by an operator, and it is a delivery, which has no history to say so
}

// Waker publishes wake-ups. [streams.Retries] is one.
type Waker interface {
	Wake(ctx context.Context, w streams.Wakeup) error
}

// Events is the stream to walk and to trim. [streams.Events] is one.
type Events interface {
	Info(ctx context.Context) (streams.StreamInfo, error)
	Handled(ctx context.Context) (uint64, error)
	Copies(ctx context.Context, after uint64, limit int) ([]streams.Copy, error)
	Trim(ctx context.Context, before uint64) error
}

// Histories are what was decided and done. [streams.Outcomes] is one.
type Histories interface {
	Last(ctx context.Context, tenant string, key event.Key) (streams.StoredRecord, error)
}

// Letters are the dead letters. [streams.DeadLetters] is one.
type Letters interface {
	Remove(ctx context.Context, sequence uint64) error
}

// Options are what a Steward needs; durations of zero have the defaults named.
type Options struct {
	Ledger    Ledger
	Waker     Waker
	Events    Events
	Histories Histories
	Letters   Letters

	Every time.Duration // between two rounds; 15 s
	Grace time.Duration // after the due time before a schedule counts as lost; 10 s
	Idle  time.Duration // without a change before a claim counts as left behind; 70 s, which is past its lease
	Keep  time.Duration // how long EVENTS keeps what has ended; 14 days
	// Horizon is how long the log remembers an event; 0 is for ever. What is older
	// has no record any more, and is not looked for.
	Horizon time.Duration
	// Logger is nil for none, Now time.Now.
	Logger *slog.Logger
	Now    func() time.Time
}

// Steward is the part that looks after what nobody is holding. Make one with New.
type Steward struct {
	o      Options
	walk   walk
	rounds int
	status atomic.Pointer[Status]
}

// lettersEvery is how many rounds there are to one look at all dead letters, which
// only a crash leaves over.
const lettersEvery = 20

// atMost bounds what one round does of each kind; the rest is for the next.
const atMost = 1000

// New returns a steward. It does nothing before Run.
func New(o Options) *Steward {
	o.Every, o.Grace = cmp.Or(o.Every, 15*time.Second), cmp.Or(o.Grace, 10*time.Second)
	o.Idle, o.Keep = cmp.Or(o.Idle, 70*time.Second), cmp.Or(o.Keep, 14*24*time.Hour)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Steward{o: o, walk: walk{missing: map[uint64]streams.Wakeup{}}}
	s.status.Store(&Status{})
	return s
}

// Status is what the steward has found.
type Status struct {
	// Walked is the sequence up to which all of EVENTS is known to have a record.
	Walked uint64 `json:"walked"`
	// Missing is the number of copies that are handled and have no record.
	Missing int `json:"missing,omitempty"`
	// Alarm is what an operator has to look at; empty: nothing.
	Alarm string `json:"alarm,omitempty"`
}

// Status may be called at any time.
func (s *Steward) Status() Status { return *s.status.Load() }

// Run makes its rounds until ctx is done, and then returns nil. The first round
// comes at once and counts every claim as left behind: at the start of the
// process no claim of this instance is held by anybody.
func (s *Steward) Run(ctx context.Context) error {
	tick := time.NewTicker(s.o.Every)
	defer tick.Stop()
	for idle := time.Duration(0); ctx.Err() == nil; idle = s.o.Idle {
		if err := s.round(ctx, idle); err != nil && ctx.Err() == nil {
			s.o.Logger.Warn("the steward's round was cut short; the next one goes on", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	return nil
}

// round does each of its duties, also when another one fails.
func (s *Steward) round(ctx context.Context, idle time.Duration) error {
	status := Status{}
	err := errors.Join(s.wakeOverdue(ctx, idle), s.lookAfterEvents(ctx, &status))
	if s.rounds%lettersEvery == 0 {
		err = errors.Join(err, s.removeLetters(ctx))
	}
	s.rounds++
	if said := s.status.Swap(&status); status.Alarm != "" && status.Alarm != said.Alarm {
		s.o.Logger.Error("the steward needs an operator", "alarm", status.Alarm)
	}
	return err
}

func (s *Steward) wakeOverdue(ctx context.Context, idle time.Duration) error {
	now := s.o.Now()
	due, err := s.o.Ledger.Overdue(ctx, now.Add(-s.o.Grace), now.Add(-idle), atMost)
	if err != nil {
		return err
	}
	return s.wake(ctx, "woke events that nobody was looking after", due)
}

func (s *Steward) wake(ctx context.Context, why string, events []streams.Wakeup) error {
	for i, w := range events {
		if err := s.o.Waker.Wake(ctx, w); err != nil {
			return err
		}
		if i == len(events)-1 {
			s.o.Logger.Info(why, "events", len(events))
		}
	}
	return nil
}

// lookAfterEvents walks and trims EVENTS, by a ledger that has everything that
// was recorded of what is handled.
func (s *Steward) lookAfterEvents(ctx context.Context, status *Status) error {
	handled, err := s.o.Events.Handled(ctx)
	if err != nil {
		return err
	}
	if err := s.o.Ledger.CaughtUp(ctx); err != nil {
		return err
	}
	err = s.walkEvents(ctx, handled)
	status.Walked, status.Missing = s.walk.verified(), len(s.walk.missing)
	if err != nil {
		return err
	}
	status.Alarm, err = s.trim(ctx, status.Walked)
	return err
}
