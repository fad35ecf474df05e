package projector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"time"

	"golang.org/x/sync/errgroup"

	"tidings/store"
	"tidings/streams"
)

// RebuildOptions say what to make anew, and from what. Streams and Store must be given.
type RebuildOptions struct {
	Outcomes    Stream
	DeadLetters Stream
	Store       *store.Store // the ledger, which serves meanwhile
	// Live is the projector that follows into the ledger; nil: none does.
	Live   *Projector
	Accept bool         // put the new ledger in place although it differs
	Logger *slog.Logger // nil: discard
	// Progress is told how far it is, some times a second. It may be nil.
	Progress func(Progress)
}

// Phase is what a rebuild or verification is doing.
type Phase string

// The phases.
const (
	PhaseFolding   Phase = "folding"   // the log into the second file
	PhaseComparing Phase = "comparing" // that with the ledger
	PhaseReplacing Phase = "replacing" // the ledger by that
)

// Progress is how far a rebuild or verification is.
type Progress struct {
	Phase Phase  `json:"phase"`
	Done  uint64 `json:"done"`  // sequence of OUTCOMES up to which it is folded
	Total uint64 `json:"total"` // up to which it is to be
}

func (o RebuildOptions) withDefaults() RebuildOptions {
	if o.Progress == nil {
		o.Progress = func(Progress) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Rebuilt is what a rebuild or a comparison found.
type Rebuilt struct {
	Entries     uint64      `json:"entries"` // of OUTCOMES that were folded this time
	Differences Differences `json:"differences"`
	// Kept is the file of the new ledger where it differs and was not put in place.
	Kept string `json:"kept,omitempty"`
	// Replaced says that the new ledger is in place.
	Replaced bool `json:"replaced"`
	// Before and After are bytes of the file of the ledger.
	Before int64 `json:"bytes_before"`
	After  int64 `json:"bytes_after,omitempty"`
}

// ErrDiffers means that the ledger is not what the log says.
var ErrDiffers = errors.New("the ledger is not what the log says")

// suffixes of the second file, which is beside the ledger.
const (
	rebuildSuffix = ".rebuild"
	verifySuffix  = ".verify"
)

// Rebuild folds the log into a second file beside the ledger, compares them as of one
// moment, and puts the second in the place of the first. The ledger serves meanwhile,
// and the projector follows into it, but while the last entries are folded and the
// files change places. Killed at any moment it leaves the old ledger or the new one,
// and a second file from which the next rebuild goes on. Nothing is sent. Errors:
// [ErrDiffers] unless o.Accept, with the second file kept; a *[HaltError] where the log
// lacks what the ledger knows, since that must not be forgotten; [store.ErrReplaced],
// after which the process has to end; those of ctx and of the disk. One rebuild or
// verification of a ledger may run at a time.
func Rebuild(ctx context.Context, o RebuildOptions) (found Rebuilt, err error) {
	r := rebuild{RebuildOptions: o.withDefaults(), path: o.Store.Path() + rebuildSuffix}
	err = r.run(ctx, &found, func() error {
		if !found.Differences.None() && !o.Accept {
			found.Kept = r.path
			return ErrDiffers
		}
		return r.alone(ctx, func() error { return r.replace(ctx, &found) })
	})
	return found, err
}

// Verify folds the log into a file of its own, and compares the ledger with it, above
// the first sequence that the log still has. It changes nothing, stops nobody and
// leaves nothing behind. Errors: as of [Rebuild].
func Verify(ctx context.Context, o RebuildOptions) (found Rebuilt, err error) {
	r := rebuild{RebuildOptions: o.withDefaults(), path: o.Store.Path() + verifySuffix}
	if err := remove(r.path); err != nil { // of one that was killed
		return found, err
	}
	defer func() { err = errors.Join(err, remove(r.path)) }()
	err = r.run(ctx, &found, func() error {
		if !found.Differences.None() {
			return ErrDiffers
		}
		return nil
	})
	return found, err
}

// rebuild is one rebuild or verification under way.
type rebuild struct {
	RebuildOptions
	path   string
	second *store.Store
	from   uint64 // where the second file stood when this began
}

// run makes the second file, compares, and then calls finish.
func (r *rebuild) run(ctx context.Context, found *Rebuilt, finish func() error) (err error) {
	defer collectSooner()()
	found.Before = sizeOf(r.Store.Path())
	if err := r.fits(ctx); err != nil {
		return err
	}
	if err := r.open(ctx); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, r.second.Close()) // closing twice is allowed
		if errors.Is(err, errUnwritable) {
			err = errors.Join(err, remove(r.path)) // what is full is the disk of the log, perhaps
		}
	}()
	if r.from, err = at(r.second); err != nil {
		return err
	}
	if err := r.reach(ctx); err != nil {
		return err
	}
	if found.Differences, err = r.differences(ctx); err != nil {
		return err
	}
	if err := r.count(found); err != nil {
		return err
	}
	return finish()
}

// collectSooner has the process keep less garbage until undo is called. A rebuild makes
// much of it, beside what the process has in use anyway, and leaves a processor idle
// that can collect it.
func collectSooner() (undo func()) {
	const percent = 50
	was := debug.SetGCPercent(percent)
	if was < percent { // or off
		debug.SetGCPercent(was)
	}
	return func() { debug.SetGCPercent(was) }
}

// count notes how many entries were folded.
func (r *rebuild) count(found *Rebuilt) error {
	now, err := at(r.second)
	found.Entries = now - min(r.from, now)
	return err
}

// replace has the second file take in what came meanwhile, and puts it in the place
// of the ledger, while nobody writes that.
func (r *rebuild) replace(ctx context.Context, found *Rebuilt) error {
	if err := r.reach(ctx); err != nil {
		return err
	}
	if err := r.count(found); err != nil {
		return err
	}
	r.Progress(Progress{Phase: PhaseReplacing})
	if err := r.second.Close(); err != nil {
		return err
	}
	if err := r.Store.Replace(r.path); err != nil {
		return err
	}
	found.Replaced, found.After = true, sizeOf(r.Store.Path())
	return nil
}

// alone calls fn while nobody else writes the ledger.
func (r *rebuild) alone(ctx context.Context, fn func() error) error {
	if r.Live == nil {
		return fn()
	}
	return r.Live.paused(ctx, fn)
}

// fits returns a *[HaltError] where the log lacks what the ledger knows.
func (r *rebuild) fits(ctx context.Context) error {
	err := r.projectorOf(r.Store, r.Outcomes).Compare(ctx)
	if errors.Is(err, store.ErrDamaged) {
		return nil // nobody can say
	}
	return err
}

// open opens the second file. What an earlier rebuild left and is of no use is thrown
// away: of another schema, damaged, of another log, or ahead of the ledger.
func (r *rebuild) open(ctx context.Context) error {
	err := r.tryOpen(ctx)
	_, misfit := errors.AsType[*HaltError](err)
	if !misfit && !errors.Is(err, errAhead) && !errors.Is(err, store.ErrSchema) && !errors.Is(err, store.ErrDamaged) {
		return err
	}
	r.Logger.Info("what an earlier rebuild left is of no use, and begun anew", "file", r.path, "reason", err)
	if err := remove(r.path); err != nil {
		return err
	}
	return r.tryOpen(ctx)
}

var errAhead = errors.New("it is ahead of the ledger")

func (r *rebuild) tryOpen(ctx context.Context) (err error) {
	if r.second, err = store.Open(r.path, store.Options{}); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.second.Close())
		}
	}()
	if err := r.projectorOf(r.second, r.Outcomes).Compare(ctx); err != nil {
		return err
	}
	second, err := at(r.second)
	if err != nil {
		return err
	}
	if ledger, err := at(r.Store); err == nil && ledger > 0 && second > ledger {
		return errAhead
	}
	return nil
}

// at returns the sequence up to which OUTCOMES is folded into a file.
func at(s *store.Store) (uint64, error) {
	c, err := s.Checkpoint(streams.OutcomesStream)
	return c.Sequence, err
}

// RebuildBatch is how many entries a rebuild folds in one transaction, at most. More of
// them share pages and syncs, but 4,000 took 170 MiB more.
const RebuildBatch = 1000

const never = time.Duration(1 << 62)

func (r *rebuild) projectorOf(s *store.Store, outcomes Stream) *Projector {
	return New(Options{
		Outcomes: outcomes, DeadLetters: r.DeadLetters, Store: s, Logger: r.Logger, BatchMax: RebuildBatch,
		AskFor: time.Minute, ScrubEvery: never,
	})
}

// reach folds the log into the second file as far as the ledger has it, or wholly if
// the ledger knows nothing.
func (r *rebuild) reach(ctx context.Context) error {
	ledger, err := at(r.Store)
	switch {
	case errors.Is(err, store.ErrDamaged), err == nil && ledger == 0:
		return r.fold(ctx, r.Outcomes)
	case err != nil:
		return err
	}
	return r.fold(ctx, bounded{Stream: r.Outcomes, last: ledger})
}

// fold follows the log into the second file until it has what is there by now.
func (r *rebuild) fold(ctx context.Context, outcomes Stream) error {
	p := r.projectorOf(r.second, outcomes)
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	var g errgroup.Group
	g.Go(func() error { return p.Run(running) })
	g.Go(func() error { r.report(running, p); return nil })
	g.Go(func() error {
		defer cancel()
		return errors.Join(p.outcomes.progress.ready(ctx), p.letters.progress.ready(ctx))
	})
	return g.Wait()
}

// report says how far it is, until ctx is done.
func (r *rebuild) report(ctx context.Context, p *Projector) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s := p.Status().Outcomes
			r.Progress(Progress{Phase: PhaseFolding, Done: s.Applied, Total: s.Last})
		}
	}
}

// bounded is a stream as if it ended with an entry.
type bounded struct {
	Stream
	last uint64
	// first is what it says to have first, although some of that may be gone by now;
	// 0: what it has.
	first uint64
}

func (b bounded) Info(ctx context.Context) (streams.StreamInfo, error) {
	info, err := b.Stream.Info(ctx)
	if b.first > 0 && info.First <= b.last {
		info.First = min(info.First, b.first)
	}
	info.Last = min(info.Last, b.last)
	return info, err
}

func (b bounded) Follow(ctx context.Context, from uint64, handle func(streams.Entry) error) error {
	return b.Stream.Follow(ctx, from, func(e streams.Entry) error {
		if e.Sequence <= b.last {
			return handle(e)
		}
		<-ctx.Done()
		return ctx.Err()
	})
}

// remove removes a file that may not be there.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove what is left of an earlier time: %w", err)
	}
	return nil
}

func sizeOf(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}
