package bench

import (
	"context"
	"errors"
	"time"

	"tidings/streams"
)

// trial is one measurement, with a queue, a log, a ledger and a provider of its own.
type trial struct {
	*whole
	in     intake
	count  int // events that are there from the start
	steady int // events of the load that follows
	begun  time.Time
	ended  time.Time   // when the ledger had the first count
	due    []time.Time // when each event of the steady load was to be published
}

// once makes one measurement.
func (b *dispatchBench) once(ctx context.Context, k setting, what string) (r run, err error) {
	t := &trial{count: b.Count, steady: b.steadyOf(k)}
	t.whole, err = openWhole(ctx, streams.Options{Durability: k.mode, Ungrouped: k.ungrouped}, t.count+t.steady)
	if err != nil {
		return run{}, err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	if t.in, err = b.intake(k, t.log); err != nil {
		return run{}, err
	}
	defer func() { err = errors.Join(err, t.in.remove()) }()
	if err := t.in.fill(ctx, t.count, b.progress.follow(what+", publishing", t.count)); err != nil {
		return run{}, err
	}
	resetPeakRSS()
	t.begun = time.Now()
	err = t.work(ctx, t.in.run, func(ctx context.Context) error {
		if err := t.flood(ctx, b.progress.follow(what, t.count)); err != nil || t.steady == 0 {
			return err
		}
		return t.load(ctx, b.progress.follow(what+", 500/s", t.steady))
	})
	if err != nil {
		return run{}, err
	}
	peak := peakRSS()
	lives, err := t.lives(t.count + t.steady)
	return t.judge(lives, peak), err
}

func (b *dispatchBench) intake(k setting, log *streams.Log) (intake, error) {
	if k.from == FromJetStream {
		return newStored(log), nil
	}
	return newBridged(b.AMQPURL, log)
}

// flood waits until the ledger has what was there from the start.
func (t *trial) flood(ctx context.Context, follow follower) error {
	defer follow(t.receiver.count)()
	err := t.moving(ctx, func(ctx context.Context) error { return t.settled(ctx, t.count) })
	t.ended = time.Now()
	return err
}

// load publishes at a steady rate, however long the answers take, and waits until
// the ledger has all.
func (t *trial) load(ctx context.Context, follow follower) error {
	defer follow(func() int { return t.receiver.count() - t.count })()
	var waits []func() error
	for i := range t.steady {
		due := t.ended.Add(time.Duration(i+1) * time.Second / steadyRate)
		select {
		case <-time.After(time.Until(due)):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		wait, err := t.in.send(ctx, t.count+i)
		if err != nil {
			return err
		}
		t.due, waits = append(t.due, due), append(waits, wait)
	}
	for _, wait := range waits {
		if err := wait(); err != nil {
			return err
		}
	}
	return t.moving(ctx, func(ctx context.Context) error { return t.settled(ctx, t.count+t.steady) })
}

// moving runs what waits for the ledger, and gives up when the provider has
// received nothing for long.
func (t *trial) moving(ctx context.Context, wait func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		for before := -1; before != t.receiver.count(); {
			before = t.receiver.count()
			select {
			case <-time.After(stallAfter):
			case <-ctx.Done():
				return
			}
		}
		cancel(errStoodStill)
	}()
	err := wait(ctx)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	return err
}

// judge returns what the lives of the events say.
func (t *trial) judge(lives []life, peak float64) run {
	r := run{rate: float64(t.count) / t.ended.Sub(t.in.since(t.begun)).Seconds(), peakRSS: peak}
	for i, l := range lives {
		if i < t.count {
			r.claimed = append(r.claimed, l.received.Sub(l.claimed))
		} else {
			r.steady = append(r.steady, l.received.Sub(t.due[i-t.count]))
		}
	}
	return r
}
