package streams

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// SweepAfter is the age from which on nobody can be about to name an object in
// a letter, or be about to describe its chunks.
const SweepAfter = time.Hour

// sweep sweeps at once, and every hour until ctx is done.
func (l *Log) sweep(ctx context.Context) error {
	tick := time.NewTicker(SweepAfter)
	defer tick.Stop()
	for {
		n, err := l.DeadLetters.Sweep(ctx, time.Now().Add(-SweepAfter))
		switch {
		case err != nil && ctx.Err() == nil:
			l.log.Warn("what is left over in the object store could not be removed; it is tried again", "bucket", OversizeBucket, "again_in", SweepAfter, "error", err)
		case n > 0:
			l.log.Info("removed what no dead letter names", "bucket", OversizeBucket, "objects", n)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Sweep removes objects that no letter names, and chunks that are no object,
// and returns how many of both. They are left over where a process died between
// storing an object and its letter, or between removing the two. What was stored
// since before is let alone, which has to be [SweepAfter] ago: its letter may be
// on the way. It is safe to repeat, and for several processes to do.
func (d *DeadLetters) Sweep(ctx context.Context, before time.Time) (removed int, err error) {
	subjects, err := d.oversize.subjects(ctx)
	if err != nil {
		return 0, err
	}
	objects := map[string]bool{} // subjects of the chunks that are part of one
	for subject := range subjects {
		if !strings.HasPrefix(subject, infoPrefix) {
			continue
		}
		chunks, done, err := d.sweepObject(ctx, subject, before)
		if err != nil {
			return removed, err
		}
		if objects[chunks] = true; done {
			removed++
		}
	}
	for subject := range subjects {
		if !strings.HasPrefix(subject, chunkPrefix) || objects[subject] {
			continue
		}
		done, err := d.oversize.sweepChunks(ctx, subject, before)
		if err != nil {
			return removed, err
		}
		if done {
			removed++
		}
	}
	return removed, nil
}

// sweepObject removes an object that no letter names, and returns the subject of
// its chunks. What is not ours stays.
func (d *DeadLetters) sweepObject(ctx context.Context, subject string, before time.Time) (chunks string, removed bool, err error) {
	e, err := d.oversize.last(ctx, subject)
	if errors.Is(err, ErrNotFound) { // it was removed meanwhile
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	there, err := decodeObject(e)
	if err != nil {
		return "", false, nil
	}
	chunks = chunkPrefix + there.info.NUID
	letter := there.info.Metadata[letterOf]
	if letter == "" || !there.at.Before(before) {
		return chunks, false, nil
	}
	named, err := d.names(ctx, letter, there.info.Name)
	if err != nil || named {
		return chunks, false, err
	}
	return chunks, true, d.oversize.drop(ctx, there)
}

// names reports whether the letter under a subject names an object.
func (d *DeadLetters) names(ctx context.Context, subject, object string) (bool, error) {
	e, err := d.last(ctx, subject)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return slices.Contains(e.Header.Values(HeaderObject), object), err
}

func (o *Oversize) sweepChunks(ctx context.Context, subject string, before time.Time) (bool, error) {
	e, err := o.last(ctx, subject)
	switch {
	case errors.Is(err, ErrNotFound):
		return false, nil
	case err != nil:
		return false, err
	case !e.Time.Before(before):
		return false, nil
	}
	return true, o.purge(ctx, subject, 0)
}

// subjects returns the subjects in the store, and how many messages each has.
func (o *Oversize) subjects(ctx context.Context) (map[string]uint64, error) {
	ctx, cancel := withAckWait(ctx, o.nc)
	defer cancel()
	info, err := o.handle.Info(ctx, jetstream.WithSubjectFilter("$O."+OversizeBucket+".>"))
	if err != nil {
		return nil, fmt.Errorf("list %s: %w: %w", OversizeBucket, ErrUnavailable, err)
	}
	return info.State.Subjects, nil
}
