package projector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"
	"golang.org/x/sync/errgroup"

	"tidings/store"
	"tidings/streams"
)

// follower folds one stream into the store.
type follower struct {
	name     string
	stream   Stream
	store    *store.Store
	log      *slog.Logger
	options  Options
	holes    bool // entries of the stream may be deleted
	progress *progress
	decode   func(streams.Entry) item
	// tidy brings the store in line with what the stream no longer has.
	tidy func(ctx context.Context, f *follower, info streams.StreamInfo) error

	// The rest belongs to the goroutine that follows.

	position uint64 // of the last entry seen
	suspect  uint64 // first entry of a gap that was met once
}

func newFollower(
	name string, stream Stream, o Options,
	decode func(streams.Entry) item,
	tidy func(context.Context, *follower, streams.StreamInfo) error,
) *follower {
	return &follower{
		name: name, stream: stream, store: o.Store, log: o.Logger.With("stream", name), options: o,
		holes: name == streams.DeadLettersStream, progress: newProgress(name), decode: decode, tidy: tidy,
	}
}

// run follows until ctx is done. After a halt it only waits for that, or for an
// operator's word where that is enough.
func (f *follower) run(ctx context.Context) {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = 100*time.Millisecond, 10*time.Second
	f.progress.resume()
	for ctx.Err() == nil {
		before := f.position
		err := f.follow(ctx)
		if errors.Is(err, store.ErrDamaged) {
			err = damagedFile(f.name, f.position, err)
		}
		if halt, ok := errors.AsType[*HaltError](err); ok {
			f.progress.halt(halt)
			f.log.Error("projector halted", "sequence", halt.Sequence, "reason", halt.Reason,
				"detail", halt.Detail, "remedy", halt.Remedy())
			f.untilSkipped(ctx, halt)
			continue
		}
		if ctx.Err() != nil {
			return
		}
		if f.position > before {
			pause.Reset()
		}
		f.rest(ctx, err, pause.NextBackOff())
	}
}

// rest says why nothing moves, and waits.
func (f *follower) rest(ctx context.Context, err error, pause time.Duration) {
	f.progress.asking(fmt.Sprintf("cannot follow %s: %v", f.name, err))
	f.log.Warn("projector cannot follow, and tries again", "in", pause.Round(time.Millisecond), "error", err)
	select {
	case <-ctx.Done():
	case <-time.After(pause):
	}
}

// follow goes on after the checkpoint until something is wrong or ctx is done.
// What was seen until then is committed.
func (f *follower) follow(ctx context.Context) error {
	checkpoint, err := f.store.Checkpoint(f.name)
	if err != nil {
		return err
	}
	info, err := f.verify(ctx, checkpoint)
	if err != nil {
		return err
	}
	if err := f.begin(ctx, checkpoint, info); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	queue := newQueue(f.options)
	checkpoint.Stream, checkpoint.Created = f.name, info.Created
	g.Go(func() error { return f.commitAll(ctx, queue, checkpoint) })
	g.Go(func() error { return f.watch(ctx) })
	g.Go(func() error { return f.scrub(ctx) })
	g.Go(func() error {
		defer close(queue.items)
		err := f.stream.Follow(ctx, f.position+1, func(e streams.Entry) error { return f.see(ctx, e, queue) })
		if err == nil && ctx.Err() == nil {
			err = errors.New("the stream ended")
		}
		return err
	})
	return g.Wait()
}

// begin sets the position from which to go on.
func (f *follower) begin(ctx context.Context, c store.Checkpoint, info streams.StreamInfo) error {
	f.position = c.Sequence
	if info.First > c.Sequence+1 {
		f.agedOut(c.Sequence+1, info.First-1)
	}
	if !f.holes {
		if err := headCut(f.store, info); err != nil {
			return err
		}
	}
	f.progress.compared()
	if err := f.tidy(ctx, f, info); err != nil {
		return err
	}
	target, err := f.lastPresent(ctx, info)
	if err != nil {
		return err
	}
	f.progress.begin(f.position, target)
	return nil
}

// agedOut goes on behind entries that were forgotten before they were seen.
func (f *follower) agedOut(from, to uint64) {
	if f.position > 0 && !f.holes {
		f.log.Warn("entries aged out before they were folded: the ledger does not have them", "from", from, "to", to)
	}
	f.position = to
}

// lastPresent returns the sequence of the last entry that is there: the last
// ones may have been deleted.
func (f *follower) lastPresent(ctx context.Context, info streams.StreamInfo) (uint64, error) {
	last := info.Last
	for f.holes && last > f.position {
		_, err := f.entry(ctx, last)
		if err == nil {
			return last, nil
		}
		if !errors.Is(err, streams.ErrNotFound) {
			return 0, err
		}
		last--
	}
	return max(last, f.position), nil
}

// see checks that an entry follows the one before it, and queues it.
func (f *follower) see(ctx context.Context, e streams.Entry, queue *queue) error {
	if e.Sequence <= f.position {
		return fmt.Errorf("entry %d came after %d: asking again", e.Sequence, f.position)
	}
	if e.Sequence != f.position+1 && !f.holes {
		if err := f.bridge(ctx, e.Sequence); err != nil {
			return err
		}
	}
	f.position, f.suspect = e.Sequence, 0
	f.progress.stored(e.Sequence)
	return queue.put(ctx, f.decode(e))
}

// bridge returns nil if all entries between the position and next have aged
// out, or may be passed over, and an error otherwise: the second time a halt.
func (f *follower) bridge(ctx context.Context, next uint64) error {
	info, err := f.info(ctx)
	if err != nil {
		return err
	}
	missing := f.position + 1
	if info.First > missing {
		f.agedOut(missing, min(info.First, next)-1)
		missing = f.position + 1
	}
	if accepted := passed(info.Gaps, missing, next); accepted > missing {
		f.log.Warn("entries are missing, and passed over by an operator's word", "from", missing, "to", accepted-1)
		f.position, missing = accepted-1, accepted
	}
	switch {
	case missing == next:
		return nil
	case f.suspect == missing:
		return gap(f.name, missing, next)
	}
	f.suspect = missing
	return fmt.Errorf("entry %d came after %d: asking again", next, f.position)
}

// passed returns the first sequence from missing on, up to next, that no accepted
// gap covers.
func passed(gaps []streams.Gap, missing, next uint64) uint64 {
	for _, g := range gaps {
		if g.From <= missing && missing <= g.To {
			missing = min(g.To+1, next)
		}
	}
	return missing
}

// watch compares the checkpoint with the stream every so often, and more often
// while the stream does not answer. It returns when they do not fit.
func (f *follower) watch(ctx context.Context) error {
	for wait := f.options.VerifyEvery; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		err := f.look(ctx)
		if halt, ok := errors.AsType[*HaltError](err); ok {
			return halt
		}
		wait = f.options.VerifyEvery
		if err != nil {
			wait = min(wait, 5*time.Second)
			f.progress.asking(fmt.Sprintf("cannot verify %s: %v", f.name, err))
			continue
		}
		f.progress.asking("")
	}
}

func (f *follower) look(ctx context.Context) error {
	checkpoint, err := f.store.Checkpoint(f.name)
	if err != nil {
		return err
	}
	info, err := f.verify(ctx, checkpoint)
	if err != nil {
		return err
	}
	if !f.holes {
		f.progress.stored(info.Last)
	}
	return f.tidy(ctx, f, info)
}
