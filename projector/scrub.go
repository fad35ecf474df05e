package projector

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tidings/streams"
)

// scrub reads again what is folded, now and then, until something is missing: a
// bit that flips on the disk is noticed by nobody who only reads what is new, and
// an event whose last record is gone would be taken for one that was never sent.
// It returns a *HaltError, or nil when ctx is done.
func (f *follower) scrub(ctx context.Context) error {
	if f.holes {
		return nil
	}
	for {
		if err := f.progress.wait(ctx, f.progress.aim()); err != nil {
			return nil
		}
		err := f.scrubOnce(ctx)
		if halt, ok := errors.AsType[*HaltError](err); ok {
			return halt
		}
		if err != nil && ctx.Err() == nil {
			f.log.Warn("the log could not be read through, and is tried again", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(f.options.ScrubEvery):
		}
	}
}

var errScrubbed = errors.New("all is there")

// scrubOnce reads from the first entry to the checkpoint.
func (f *follower) scrubOnce(ctx context.Context) error {
	checkpoint, err := f.store.Checkpoint(f.name)
	if err != nil {
		return err
	}
	info, err := f.info(ctx)
	if err != nil || info.First > checkpoint.Sequence {
		return err
	}
	at := max(info.First, 1) - 1 // of the last entry that was there, or may be missing
	err = f.stream.Follow(ctx, at+1, func(e streams.Entry) error {
		missing := at + 1
		if at = e.Sequence; e.Sequence > missing {
			if err := f.absent(ctx, missing, min(e.Sequence, checkpoint.Sequence+1)); err != nil {
				return err
			}
		}
		if e.Sequence >= checkpoint.Sequence {
			return errScrubbed
		}
		return nil
	})
	if errors.Is(err, errScrubbed) {
		return nil
	}
	return err
}

// absent returns a halt for the first of some entries that were passed over,
// unless they aged out or an operator accepted that they are missing.
func (f *follower) absent(ctx context.Context, from, to uint64) error {
	info, err := f.info(ctx)
	if err != nil {
		return err
	}
	for sequence := max(from, info.First); sequence < to; sequence++ {
		if sequence = passed(info.Gaps, sequence, to); sequence == to {
			return nil
		}
		_, err := f.entry(ctx, sequence)
		switch {
		case errors.Is(err, streams.ErrNotFound):
			return gap(f.name, sequence, sequence+1)
		case err != nil:
			return fmt.Errorf("read entry %d again: %w", sequence, err)
		}
	}
	return nil
}
