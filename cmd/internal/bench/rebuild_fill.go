package bench

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"tidings/streams"
	"tidings/streams/event"
)

// fillers append at the same time.
const fillers = 256

// logOptions leave room for some ten million records.
func logOptions() streams.Options {
	return streams.Options{
		Durability: streams.Relaxed, Horizon: -1,
		OutcomesMaxBytes: 18 << 30, EventsMaxBytes: 1 << 30, DeadLettersMaxBytes: 2 << 30, OversizeMaxBytes: 1 << 30,
	}
}

// fill appends lines, those of one event one after the other, and else about in
// their order.
func (p *place) fill(ctx context.Context, all iter.Seq[line], done *atomic.Int64) error {
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	var base errgroup.Group
	base.Go(func() error { return p.log.Run(running) })
	g, ctx := errgroup.WithContext(ctx)
	queues := make([]chan line, fillers)
	for i := range queues {
		queues[i] = make(chan line, 1)
		f := filler{log: p.log, last: map[event.Key]uint64{}, done: done}
		g.Go(func() error { return f.run(ctx, queues[i]) })
	}
	g.Go(func() error {
		for l := range all {
			select {
			case queues[l.event%fillers] <- l:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		for _, q := range queues {
			close(q)
		}
		return nil
	})
	err := g.Wait()
	stop()
	return errors.Join(err, base.Wait())
}

// filler appends the lines of its events.
type filler struct {
	log  *streams.Log
	last map[event.Key]uint64 // sequences of the last records of open events
	done *atomic.Int64
}

func (f *filler) run(ctx context.Context, queue <-chan line) error {
	for {
		select {
		case l, open := <-queue:
			if !open {
				return nil
			}
			if err := f.append(ctx, l); err != nil {
				return err
			}
			f.done.Add(1)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (f *filler) append(ctx context.Context, l line) error {
	if l.duplicate != nil {
		return f.log.Outcomes.AppendDuplicate(ctx, *l.duplicate)
	}
	if l.letter != nil {
		if _, _, err := f.log.DeadLetters.Put(ctx, *l.letter); err != nil {
			return err
		}
	}
	key := l.record.Event.Key
	at, err := f.log.Outcomes.Append(ctx, *l.record, f.last[key])
	if f.last[key] = at.Sequence; l.record.State.Ended() {
		delete(f.last, key)
	}
	return err
}
