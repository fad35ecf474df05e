package projector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
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
	// Progress is told how many of how many entries are folded. It may be nil.
	Progress func(done, total uint64)
}

func (o RebuildOptions) withDefaults() RebuildOptions {
	if o.Progress == nil {
		o.Progress = func(uint64, uint64) {}
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

// Rebuild folds the log into a second file beside the ledger, compares them, and puts
// the second in the place of the first. The ledger serves meanwhile, and the projector
// follows into it, but for the time of the comparison. Killed at any moment it leaves
// the old ledger or the new one, and a second file from which the next rebuild goes
// on. Nothing is sent. Errors: [ErrDiffers] unless o.Accept, with the second file kept;
// a *[HaltError] where the log lacks what the ledger knows, since that must not be
// forgotten; [store.ErrReplaced], after which the process has to end; those of ctx and
// of the disk. One rebuild or verification of a ledger may run at a time.
func Rebuild(ctx context.Context, o RebuildOptions) (Rebuilt, error) {
	r := rebuild{RebuildOptions: o.withDefaults(), path: o.Store.Path() + rebuildSuffix}
	return r.run(ctx, func(found *Rebuilt) error {
		if !found.Differences.None() && !o.Accept {
			found.Kept = r.path
			return ErrDiffers
		}
		if err := o.Store.Replace(r.path); err != nil {
			return err
		}
		found.Replaced, found.After = true, sizeOf(o.Store.Path())
		return nil
	})
}

// Verify folds the log into a file of its own, and compares the ledger with it, above
// the first sequence that the log still has. It changes nothing and leaves nothing
// behind. Errors: as of [Rebuild].
func Verify(ctx context.Context, o RebuildOptions) (found Rebuilt, err error) {
	r := rebuild{RebuildOptions: o.withDefaults(), path: o.Store.Path() + verifySuffix}
	if err := remove(r.path); err != nil { // of one that was killed
		return found, err
	}
	defer func() { err = errors.Join(err, remove(r.path)) }()
	return r.run(ctx, func(found *Rebuilt) error {
		if !found.Differences.None() {
			return ErrDiffers
		}
		return nil
	})
}

// rebuild is one rebuild or verification under way.
type rebuild struct {
	RebuildOptions
	path   string
	second *store.Store
}

// run makes the second file, compares while nothing is written, and then calls finish,
// by which time the second file is closed.
func (r *rebuild) run(ctx context.Context, finish func(*Rebuilt) error) (found Rebuilt, err error) {
	found.Before = sizeOf(r.Store.Path())
	if err := r.fits(ctx); err != nil {
		return found, err
	}
	if err := r.open(ctx); err != nil {
		return found, err
	}
	defer func() { err = errors.Join(err, r.second.Close()) }() // closing twice is allowed
	before, err := at(r.second)
	if err != nil {
		return found, err
	}
	if err := r.reach(ctx); err != nil {
		return found, err
	}
	err = r.alone(ctx, func() error {
		if found.Differences, err = r.differences(ctx); err != nil {
			return err
		}
		after, err := at(r.second)
		if err != nil {
			return err
		}
		found.Entries = after - min(before, after)
		if err := r.second.Close(); err != nil {
			return err
		}
		return finish(&found)
	})
	return found, err
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

const (
	rebuildBatch = 16_000 // entries in a transaction: the more there are, the more of them share a page
	never        = time.Duration(1 << 62)
)

func (r *rebuild) projectorOf(s *store.Store, outcomes Stream) *Projector {
	return New(Options{
		Outcomes: outcomes, DeadLetters: r.DeadLetters, Store: s, Logger: r.Logger, BatchMax: rebuildBatch,
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
	return r.fold(ctx, bounded{r.Outcomes, ledger})
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
			r.Progress(s.Applied, s.Last)
		}
	}
}

// differences compares, once both files have the same entries of the log.
func (r *rebuild) differences(ctx context.Context) (Differences, error) {
	ledger, err := at(r.Store)
	second, err2 := at(r.second)
	switch {
	case errors.Is(err, store.ErrDamaged):
		return Differences{Unreadable: err.Error()}, nil
	case err != nil || err2 != nil:
		return Differences{}, errors.Join(err, err2)
	case second > ledger: // which knew nothing when this began
		return Differences{}, nil
	}
	if err := r.reach(ctx); err != nil {
		return Differences{}, err
	}
	if err := r.forget(ctx); err != nil {
		return Differences{}, err
	}
	return r.compare(ctx)
}

// forget has both files forget what the log no longer has.
func (r *rebuild) forget(ctx context.Context) error {
	p := r.projectorOf(r.Store, r.Outcomes)
	info, err := p.outcomes.info(ctx)
	if err != nil {
		return err
	}
	return errors.Join(
		trim(ctx, p.outcomes, info),
		trim(ctx, r.projectorOf(r.second, r.Outcomes).outcomes, info),
	)
}

// bounded is a stream as if it ended with an entry.
type bounded struct {
	Stream
	last uint64
}

func (b bounded) Info(ctx context.Context) (streams.StreamInfo, error) {
	info, err := b.Stream.Info(ctx)
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
