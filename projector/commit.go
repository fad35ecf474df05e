package projector

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"

	"tidings/store"
	"tidings/streams"
)

// batchBytes bounds one transaction beside the number of its entries: these may be
// small or large, most are well below.
func (o Options) batchBytes() int { return o.BatchMax * 4 << 10 }

// commitAll writes what comes out of the queue until it is closed. c is the
// checkpoint so far.
func (f *follower) commitAll(ctx context.Context, queue *queue, c store.Checkpoint) error {
	for first := range queue.items {
		batch := f.collect(first, queue)
		last := batch[len(batch)-1]
		before := c
		c.Sequence, c.Fingerprint = last.Sequence, fingerprint(last.Entry)
		if err := f.commit(ctx, batch, before, c); err != nil {
			return err
		}
	}
	return nil
}

// collect gathers a batch: until it is large enough, the first of it has waited
// long enough, or the queue is closed. While there is nothing to commit, no
// timer runs.
func (f *follower) collect(first item, queue *queue) []item {
	queue.took(first)
	batch, size := []item{first}, len(first.Data)
	timer := time.NewTimer(f.options.CommitEvery)
	defer timer.Stop()
	for len(batch) < f.options.BatchMax && size < f.options.batchBytes() {
		select {
		case i, open := <-queue.items:
			if !open {
				return batch
			}
			queue.took(i)
			batch, size = append(batch, i), size+len(i.Data)
		case <-timer.C:
			return batch
		}
	}
	return batch
}

// commit writes a batch and the checkpoint that covers it in one transaction.
// If it cannot, it tries again until ctx is done: nothing is dropped.
func (f *follower) commit(ctx context.Context, batch []item, before, after store.Checkpoint) error {
	pause := backoff.NewExponentialBackOff()
	pause.MaxInterval = 10 * time.Second
	for {
		err := f.tryCommit(ctx, batch, before, after)
		if _, halt := errors.AsType[*HaltError](err); err == nil || halt {
			return err
		}
		f.log.Error("entries cannot be folded, and are tried again", "error", err)
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause.NextBackOff()):
		}
	}
}

// tryCommit first makes sure that the batch continues what is folded: a server
// that lost the end of the stream gives the same sequences to other entries,
// and nobody who only follows would notice. It does so when ctx is done, too,
// because what was seen before a gap or before the end is worth keeping.
func (f *follower) tryCommit(ctx context.Context, batch []item, before, after store.Checkpoint) error {
	info, err := f.verify(context.WithoutCancel(ctx), before)
	if err != nil {
		f.progress.asking(fmt.Sprintf("cannot verify %s: %v", f.name, err))
		return err
	}
	problems, err := f.write(batch, info, after)
	if halt, ok := errors.AsType[*HaltError](err); ok && halt.Reason == ReasonUnreadable {
		return f.commitUpTo(ctx, halt, batch, before)
	}
	if err != nil {
		f.progress.writing(fmt.Sprintf("cannot write the ledger: %v", err))
		return err
	}
	f.report(problems)
	f.progress.applied(after.Sequence, len(problems))
	return nil
}

// problem is something suspicious about an entry that was applied or kept.
type problem struct {
	sequence uint64
	what     string
}

// commitUpTo writes what came before the entry over which it halts, and returns the
// halt.
func (f *follower) commitUpTo(ctx context.Context, halt *HaltError, batch []item, before store.Checkpoint) error {
	n := slices.IndexFunc(batch, func(i item) bool { return i.Sequence >= halt.Sequence })
	if n <= 0 {
		return halt
	}
	after := before
	after.Sequence, after.Fingerprint = batch[n-1].Sequence, fingerprint(batch[n-1].Entry)
	if err := f.tryCommit(ctx, batch[:n], before, after); err != nil {
		return err
	}
	return halt
}

// write returns a *[HaltError] if an entry cannot be folded or the file is damaged.
// It has written nothing then.
func (f *follower) write(batch []item, info streams.StreamInfo, c store.Checkpoint) ([]problem, error) {
	var problems []problem
	err := f.store.Update(func(tx *store.Tx) error {
		for _, i := range batch {
			if g, ok := skippedBy(info.Gaps, i.Sequence); ok {
				i = i.skipped(g)
			}
			what, err := i.apply(tx, info)
			if bad, ok := errors.AsType[*unfoldable](err); ok {
				return unfolded(f.name, i, bad.problem)
			}
			if err != nil {
				return fmt.Errorf("entry %d of %s: %w", i.Sequence, f.name, err)
			}
			if what != "" {
				problems = append(problems, problem{i.Sequence, what})
			}
		}
		return tx.Checkpoint(c)
	})
	if errors.Is(err, store.ErrDamaged) {
		return nil, damagedFile(f.name, c.Sequence, err)
	}
	return problems, err
}

func (f *follower) report(problems []problem) {
	for _, p := range problems {
		f.log.Warn("suspicious entry", "sequence", p.sequence, "problem", p.what)
	}
}
