package letters

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
	"unicode"

	"tidings/streams"
	"tidings/streams/event"
)

// Outcomes holds the histories. [streams.Outcomes] is one.
type Outcomes interface {
	Last(ctx context.Context, tenant string, key event.Key) (streams.StoredRecord, error)
	Next(ctx context.Context, tenant string, key event.Key, after uint64) (streams.StoredRecord, error)
	Append(ctx context.Context, r event.Record, after uint64) (streams.Position, error)
	AppendOperation(ctx context.Context, op event.Operation) (sequence uint64, err error)
}

// Store holds the letters. [streams.DeadLetters] is one.
type Store interface {
	Getter
	Replace(ctx context.Context, l event.Letter, at uint64) (sequence uint64, err error)
	Remove(ctx context.Context, sequence uint64) error
}

// Waker publishes wake-ups. [streams.Retries] is one.
type Waker interface {
	Wake(ctx context.Context, w streams.Wakeup) error
}

// Options are what a Desk needs. Door, Now and Logger alone have defaults.
type Options struct {
	Outcomes     Outcomes
	Letters      Store
	Events       Events
	Waker        Waker
	Door         Door // nil: deliveries are refused
	Planner      Planner
	Suppressions Suppressions
	Now          func() time.Time // nil: time.Now
	Logger       *slog.Logger     // nil: discard
}

// Desk is where operators say what becomes of dead letters. Its methods may be
// called by any number of goroutines and processes. They wait out trouble with
// the log until ctx is done; then the error wraps that of the log, and
// [streams.ErrUnknown] among them says that the thing may be done nevertheless.
type Desk struct{ o Options }

// New returns a desk.
func New(o Options) *Desk {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Desk{o}
}

func (d *Desk) payloads() Payloads { return Payloads{Events: d.o.Events, Letters: d.o.Letters} }

// Word is what an operator says: who, and why.
type Word struct {
	Operator string // never empty, and on one line
	Reason   string
	// Replay is the id of the replay plan that it is a part of, if any.
	Replay string
}

// ErrWord means that it is not said who wants something or, where it must be, why.
var ErrWord = errors.New("not said")

// The longest names and reasons, in bytes: they go into histories for good.
const (
	maxOperator = 200
	maxReason   = 2000
)

// checkReason is check for what needs a reason.
func (w Word) checkReason() error {
	if strings.TrimSpace(w.Reason) == "" {
		return fmt.Errorf("why is %w: give a reason", ErrWord)
	}
	return w.check()
}

func (w Word) check() error {
	switch {
	case strings.TrimSpace(w.Operator) == "":
		return fmt.Errorf("who wants this is %w: name the operator", ErrWord)
	case len(w.Operator) > maxOperator || strings.ContainsFunc(w.Operator, unicode.IsControl):
		return fmt.Errorf("who wants this is %w: the operator's name is one line of at most %d bytes", ErrWord, maxOperator)
	case len(w.Reason) > maxReason:
		return fmt.Errorf("why is %w: the reason has at most %d bytes", ErrWord, maxReason)
	}
	return nil
}

// Target names a dead letter as the operator saw it.
type Target struct {
	Tenant string
	Key    event.Key
	// Sequence is that of the letter in DEADLETTERS; 0: whichever is there.
	Sequence uint64
}

const anotherLetter = "it is another letter than the one that was looked at"

// letter returns the letter that is meant, and its sequence. One that a replay plan has
// put its name on is the one that it looked at.
func (d *Desk) letter(ctx context.Context, t Target, replay string) (event.Letter, uint64, error) {
	letter, at, err := d.o.Letters.Get(ctx, t.Tenant, t.Key)
	if err != nil {
		return event.Letter{}, 0, fmt.Errorf("read the dead letter: %w", err)
	}
	if t.Sequence != 0 && t.Sequence != at && !begunBy(letter, replay) {
		err := d.conflict(ctx, letter.Tenant, letter.Key, anotherLetter)
		if c, ok := errors.AsType[*ConflictError](err); ok {
			c.Changed = true
		}
		return event.Letter{}, 0, err
	}
	return letter, at, nil
}

// replace puts a letter in the place of the one that was looked at.
func (d *Desk) replace(ctx context.Context, l event.Letter, at uint64) (uint64, error) {
	sequence, err := d.o.Letters.Replace(ctx, l, at)
	if errors.Is(err, streams.ErrChanged) {
		return 0, d.conflict(ctx, l.Tenant, l.Key, anotherLetter)
	}
	return sequence, err
}

// end is where a history ends.
type end struct {
	ref   event.Ref
	state event.State
	seq   uint64 // of the last record; 0: there is none
}

func (d *Desk) end(ctx context.Context, tenant string, key event.Key) (end, error) {
	last, err := d.o.Outcomes.Last(ctx, tenant, key)
	switch {
	case errors.Is(err, streams.ErrNotFound):
		return end{}, nil
	case err != nil:
		return end{}, err
	}
	return end{ref: last.Record.Event, state: last.Record.State, seq: last.Sequence}, nil
}

// extend appends what decide says of the end of a history. Where somebody else
// appended in between, it is decided again by what is there then.
func (d *Desk) extend(ctx context.Context, tenant string, key event.Key, decide func(end) (event.Ref, []event.Fact, error)) (event.Record, uint64, error) {
	for {
		e, err := d.end(ctx, tenant, key)
		if err != nil {
			return event.Record{}, 0, err
		}
		ref, facts, err := decide(e)
		if err != nil {
			return event.Record{}, 0, err
		}
		rec := event.NewRecord(ref, e.state, d.o.Now(), facts...)
		pos, err := d.o.Outcomes.Append(ctx, rec, e.seq)
		conflict, lost := errors.AsType[*streams.ConflictError](err)
		switch {
		case lost && conflict.Landed != 0:
			return rec, conflict.Landed, nil
		case lost:
			continue
		case err != nil:
			return event.Record{}, 0, err
		}
		return rec, pos.Sequence, nil
	}
}
