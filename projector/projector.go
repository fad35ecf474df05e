package projector

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"tidings/store"
	"tidings/streams"
)

// Stream is what the projector needs of a stream.
type Stream interface {
	// Follow calls handle for every entry from sequence from on, in order, as
	// they come, until ctx is done or handle returns an error, which it returns.
	Follow(ctx context.Context, from uint64, handle func(streams.Entry) error) error
	Info(ctx context.Context) (streams.StreamInfo, error)
	// Entry returns the entry at a sequence, or streams.ErrNotFound.
	Entry(ctx context.Context, sequence uint64) (streams.Entry, error)
}

// Options are what a projector is made of. Streams and store must be given.
type Options struct {
	Outcomes    Stream
	DeadLetters Stream
	Store       *store.Store
	Logger      *slog.Logger  // nil: discard
	CommitEvery time.Duration // longest time from an entry to its transaction; 0: 50 ms
	BatchMax    int           // entries in one transaction, and 4 KiB of data for each; 0: 1000
	VerifyEvery time.Duration // how often checkpoints are compared and old entries forgotten; 0: 1 minute
	// AskFor bounds one question to a stream; 0: 2 s. An answer may be lost with a
	// connection, and asking again is cheap, unless the stream is a file.
	AskFor     time.Duration
	ScrubEvery time.Duration // how often OUTCOMES is read again from its start, the first time when it is caught up with; 0: 24 h
}

func (o Options) withDefaults() Options {
	o.CommitEvery = cmp.Or(o.CommitEvery, 50*time.Millisecond)
	o.BatchMax = cmp.Or(o.BatchMax, 1000)
	o.VerifyEvery = cmp.Or(o.VerifyEvery, time.Minute)
	o.AskFor = cmp.Or(o.AskFor, 2*time.Second)
	o.ScrubEvery = cmp.Or(o.ScrubEvery, 24*time.Hour)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Projector folds two streams into a store. Its methods may be called by many
// goroutines.
type Projector struct {
	outcomes, letters *follower
	between           chan func() // what is done while no follower runs
}

// New returns a projector. It starts nothing.
func New(o Options) *Projector {
	o = o.withDefaults()
	return &Projector{
		outcomes: newFollower(streams.OutcomesStream, o.Outcomes, o, decodeOutcome, trim),
		letters:  newFollower(streams.DeadLettersStream, o.DeadLetters, o, decodeLetter, new(reconciler).reconcile),
		between:  make(chan func()),
	}
}

// Run folds until ctx is done, and returns nil then. What cannot be reached is
// waited for; what does not fit halts it, see [Projector.Status]. It may be
// called once.
func (p *Projector) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		running, stop := context.WithCancel(ctx)
		var g errgroup.Group
		g.Go(func() error { p.outcomes.run(running); return nil })
		g.Go(func() error { p.letters.run(running); return nil })
		do := func() {}
		select {
		case <-ctx.Done():
		case do = <-p.between:
		}
		stop()
		_ = g.Wait()
		do()
	}
	return nil
}

// paused calls fn while the projector, which runs, writes nothing, and has it go on
// from whatever the checkpoints are then. It returns the error of ctx if that came
// first.
func (p *Projector) paused(ctx context.Context, fn func() error) error {
	done := make(chan error, 1)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case p.between <- func() { done <- fn() }:
		return <-done
	}
}

// Compare compares the checkpoints with their streams once, also before Run. It
// returns a *[HaltError] where they do not fit, and errors of asking.
func (p *Projector) Compare(ctx context.Context) error {
	for _, f := range []*follower{p.outcomes, p.letters} {
		checkpoint, err := f.store.Checkpoint(f.name)
		if err != nil {
			return err
		}
		info, err := f.verify(ctx, checkpoint)
		if err == nil && !f.holes {
			err = headCut(f.store, info)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// CaughtUp blocks until the entry of OUTCOMES at sequence is in the store. It
// returns a *[HaltError] if that will not happen, or the error of ctx.
func (p *Projector) CaughtUp(ctx context.Context, sequence uint64) error {
	return p.outcomes.progress.wait(ctx, sequence)
}

// LettersCaughtUp is CaughtUp for the letter of DEADLETTERS at sequence.
func (p *Projector) LettersCaughtUp(ctx context.Context, sequence uint64) error {
	return p.letters.progress.wait(ctx, sequence)
}

// Status says how far the projector is.
type Status struct {
	Outcomes    StreamStatus `json:"outcomes"`
	DeadLetters StreamStatus `json:"dead_letters"`
}

// Ready reports whether the ledger has all that the log had when the projector
// began, and goes on following it.
func (s Status) Ready() bool { return s.Outcomes.Ready && s.DeadLetters.Ready }

// Damaged says why the log is not to be trusted: it does not fit the ledger, or
// was not compared with it yet. Empty: it fits.
func (s Status) Damaged() string {
	for _, stream := range []StreamStatus{s.Outcomes, s.DeadLetters} {
		switch {
		case stream.Halt != nil && stream.Halt.Reason.LogDamaged():
			return "log and ledger do not fit: " + stream.Halt.Error()
		case !stream.Compared:
			return "log and ledger were not compared yet: " + cmp.Or(stream.Reason, "starting")
		}
	}
	return ""
}

// StreamStatus says how far one stream is folded in.
type StreamStatus struct {
	Stream  string `json:"stream"`
	Applied uint64 `json:"applied"` // sequence of the last entry in the store
	Last    uint64 `json:"last"`    // of the last entry known to be in the stream
	Lag     uint64 `json:"lag"`     // at most so many entries are not in the store yet
	Ready   bool   `json:"ready"`
	// Compared says that since the start the ledger was compared with the stream
	// and fits. Before that, the stream may have lost what the ledger knows.
	Compared bool   `json:"compared"`
	Reason   string `json:"reason,omitempty"` // why it is not ready
	// Halt is set when it halted. It stays so until a restart, or until an operator
	// has it skip the entry that it halted over.
	Halt *HaltError `json:"halt,omitempty"`
	// Problems counts the entries that were applied or kept although something
	// was wrong with them, since the start. Each is in the log.
	Problems uint64 `json:"problems"`
}

// Status returns how far the projector is.
func (p *Projector) Status() Status {
	return Status{Outcomes: p.outcomes.progress.status(), DeadLetters: p.letters.progress.status()}
}
