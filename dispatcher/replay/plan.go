package replay

import (
	"context"
	"errors"
	"time"

	"golang.org/x/time/rate"

	"tidings/dispatcher/letters"
	"tidings/streams"
	"tidings/streams/event"
)

// plan is a replay plan as this process knows it.
type plan struct {
	*Replayer
	state State
	last  uint64 // sequence of its last entry
	noted time.Time
	// skipped are the letters that were skipped since the last entry.
	skipped []event.Key
}

// append adds an entry. It is [streams.ErrChanged] where somebody else did.
func (p *plan) append(ctx context.Context, e event.Replay) error {
	e.ID, e.Schema, e.Kind, e.At, e.Replay = event.NewNonce(), event.Schema, event.KindReplay, p.o.Now().UTC(), p.state.ID
	e.Skipped = p.skipped
	sequence, err := p.o.Log.AppendReplay(ctx, e, p.last)
	if err != nil {
		return err
	}
	p.state, p.last, p.skipped = p.state.apply(e), sequence, nil
	return nil
}

// Progress is noted at least every so many letters and so often.
const (
	noteLetters = 100
	noteAfter   = 2 * time.Second
)

// run goes on until the plan is over. An error means that it has to be loaded again.
func (p *plan) run(ctx context.Context) error {
	pace := rate.NewLimiter(rate.Inf, 1)
	if p.state.Order.Rate > 0 {
		pace = rate.NewLimiter(rate.Limit(p.state.Order.Rate), 1)
	}
	now := p.state.Progress
	for i, l := range p.state.letters {
		if i < now.Done {
			continue
		}
		if i == p.state.Order.Canary && i > 0 {
			if good, err := p.canary(ctx, now); err != nil || !good {
				return err
			}
		}
		if err := pace.Wait(ctx); err != nil {
			return err
		}
		requeued, err := p.requeue(ctx, l)
		if err != nil {
			return err
		}
		if now.Done++; requeued {
			now.Requeued++
		} else {
			now.Skipped++
			p.skipped = append(p.skipped, l.Key)
		}
		if err := p.note(ctx, now); err != nil {
			return err
		}
	}
	return p.end(ctx, now)
}

// note writes down how far it is, now and then.
func (p *plan) note(ctx context.Context, now event.ReplayProgress) error {
	if now.Done-p.state.Progress.Done < noteLetters && p.o.Now().Sub(p.noted) < noteAfter {
		return nil
	}
	return p.write(ctx, now)
}

// write writes down how far it is, unless that is there.
func (p *plan) write(ctx context.Context, now event.ReplayProgress) error {
	if p.noted = p.o.Now(); now == p.state.Progress {
		return nil
	}
	return p.append(ctx, event.Replay{Step: event.ReplayProgressed, Progress: now})
}

// requeue opens the next generation of a letter's event, and reports whether this
// plan did so, now or before.
func (p *plan) requeue(ctx context.Context, l event.ReplayLetter) (bool, error) {
	order := p.state.Order
	_, err := p.o.Desk.Requeue(ctx, letters.Target{Tenant: l.Tenant, Key: l.Key, Sequence: l.Sequence},
		letters.Word{Operator: order.Operator, Reason: order.Reason, Replay: p.state.ID})
	_, conflict := errors.AsType[*letters.ConflictError](err)
	_, refused := errors.AsType[*letters.RefusedError](err) // a delivery that still cannot come in
	switch {
	case err == nil:
		return true, nil
	case conflict, refused, errors.Is(err, streams.ErrNotFound):
		return false, nil
	}
	return false, err
}

// canary waits until the first letters have ended, and stops the plan unless each
// ended well.
func (p *plan) canary(ctx context.Context, now event.ReplayProgress) (good bool, err error) {
	if err := p.write(ctx, now); err != nil {
		return false, err
	}
	if err := p.await(ctx, p.state.Order.Canary, &now); err != nil {
		return false, err
	}
	if now.Dead == 0 && now.Waiting == 0 {
		return true, nil
	}
	return false, p.append(ctx, event.Replay{
		Step: event.ReplayStopped, Progress: now, Reason: "the canary failed: not each of the first letters ended well",
	})
}

// end waits until all letters have ended or wait, and reports.
func (p *plan) end(ctx context.Context, now event.ReplayProgress) error {
	if err := p.write(ctx, now); err != nil {
		return err
	}
	if err := p.await(ctx, len(p.state.letters), &now); err != nil {
		return err
	}
	return p.append(ctx, event.Replay{Step: event.ReplayEnded, Progress: now})
}

// await waits until what this plan requeued of the first n letters is not being
// worked on any more, and counts what became of them.
func (p *plan) await(ctx context.Context, n int, now *event.ReplayProgress) error {
	now.Delivered, now.Settled, now.Dead, now.Waiting = 0, 0, 0, 0
	for _, l := range p.state.letters[:n] {
		if p.state.skipped[l.Key] {
			continue
		}
		s, mine, err := p.settled(ctx, l)
		switch {
		case err != nil:
			return err
		case !mine:
		case s.Phase == event.PhaseWaiting:
			now.Waiting++
		case s.Phase == event.PhaseDead:
			now.Dead++
		case s.Outcome == event.Processed:
			now.Delivered++
		default:
			now.Settled++
		}
	}
	return nil
}

// settled waits until nobody works on a letter's event. mine is false where the
// plan did not requeue it, or somebody else did so since.
func (p *plan) settled(ctx context.Context, l event.ReplayLetter) (s event.State, mine bool, err error) {
	for {
		last, err := p.o.Log.Last(ctx, l.Tenant, l.Key)
		if errors.Is(err, streams.ErrNotFound) {
			return s, false, nil
		}
		if err != nil {
			return s, false, err
		}
		s = last.Record.State
		switch {
		case s.Generation != l.Generation+1:
			return s, false, nil
		case s.Ended(), s.Phase == event.PhaseWaiting && s.Waits == event.WaitRetry:
			return s, true, nil
		}
		select {
		case <-ctx.Done():
			return s, false, ctx.Err()
		case <-time.After(p.o.Look):
		}
	}
}
