package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"

	"tidings/streams"
	"tidings/streams/event"
)

// history is the end of an event's history as this process knows it: what the
// next append builds on.
type history struct {
	ref   event.Ref
	state event.State
	seq   uint64    // of the last record in OUTCOMES; 0: none is known
	at    time.Time // stream time of the last record
}

func (h history) wakeup() streams.Wakeup {
	return streams.Wakeup{Tenant: h.ref.Tenant, Key: h.ref.Key, Sequence: h.ref.Sequence}
}

// append adds one record to the history, expecting it to end where h does. It
// waits out trouble with the log. A record that landed with an answer that was lost
// is ours to go on from, unless somebody else did already. The error is a *streams.ConflictError where
// somebody else appended, or says that ctx ended.
func (d *Dispatcher) append(ctx context.Context, h history, facts ...event.Fact) (history, error) {
	rec := event.NewRecord(h.ref, h.state, d.now(), facts...)
	var pos streams.Position
	err := d.persist(ctx, "append to OUTCOMES", func(ctx context.Context) (err error) {
		// One that is under way is not cut off at once: a claim of unknown fate
		// would be taken for a crash by the next process.
		ctx, cancel := outlive(ctx, d.appendWithin)
		defer cancel()
		pos, err = d.log.Outcomes.Append(ctx, rec, h.seq)
		return err
	})
	if conflict, ok := errors.AsType[*streams.ConflictError](err); ok && conflict.Landed != 0 && stands(rec.State, conflict.Last.Record.State) {
		last := conflict.Last
		return history{ref: h.ref, state: last.Record.State, seq: last.Sequence, at: last.Time}, nil
	}
	if err != nil {
		return h, err
	}
	return history{ref: h.ref, state: rec.State, seq: pos.Sequence, at: pos.Time}, nil
}

// stands reports whether an event still stands where a record led that landed
// unnoticed: what came after it is evidence at most.
func stands(led, now event.State) bool {
	return led.Phase == now.Phase && led.Generation == now.Generation && led.Due.Equal(now.Due) &&
		(led.Claim == nil || sameClaim(led.Claim, now.Claim))
}

// last reads the end of the event's history. The second result says whether
// there is one.
func (d *Dispatcher) last(ctx context.Context, tenant string, key event.Key) (history, bool, error) {
	var stored streams.StoredRecord
	err := d.persist(ctx, "read the last record", func(ctx context.Context) (err error) {
		stored, err = d.log.Outcomes.Last(ctx, tenant, key)
		return err
	})
	switch {
	case errors.Is(err, streams.ErrNotFound):
		return history{}, false, nil
	case err != nil:
		return history{}, false, err
	}
	return history{
		ref: stored.Record.Event, state: stored.Record.State,
		seq: stored.Sequence, at: stored.Time,
	}, true, nil
}

// extend appends what next says of the state that the history ends in, for as
// long as the claim of h is in force. A conflict then only means that somebody
// else's late results came in between; it says nothing against the claim.
func (d *Dispatcher) extend(ctx context.Context, h history, next func(event.State) []event.Fact) (history, error) {
	for {
		after, conflict := d.append(ctx, h, next(h.state)...)
		if !isConflict(conflict) || h.state.Claim == nil {
			return after, conflict
		}
		last, _, err := d.last(ctx, h.ref.Tenant, h.ref.Key)
		switch {
		case err != nil:
			return h, err
		case !sameClaim(last.state.Claim, h.state.Claim):
			return h, conflict
		}
		h = last
	}
}

func sameClaim(a, b *event.Claim) bool { return a != nil && b != nil && a.ID == b.ID }

// land appends results, on top of whatever is there by now. While the claim of h
// is in force, that is what next says of the state that the history ends in, and
// ours is true. Later it is only the evidence of calls, because what follows from
// it is the new owner's to decide.
func (d *Dispatcher) land(ctx context.Context, h history, results []event.Fact, next func(event.State) []event.Fact) (_ history, ours bool, _ error) {
	after, err := d.extend(ctx, h, next)
	for isConflict(err) {
		if landed(err) {
			return h, false, nil
		}
		last, found, readErr := d.last(ctx, h.ref.Tenant, h.ref.Key)
		if readErr != nil || !found {
			return h, false, errors.Join(readErr, errLostHistory(found))
		}
		late := evidence(results)
		if len(late) == 0 {
			return last, false, nil
		}
		after, err = d.append(ctx, last, late...)
		if err == nil {
			return after, false, nil
		}
	}
	return after, true, err
}

func errLostHistory(found bool) error {
	if found {
		return nil
	}
	return errors.New("the event's history is gone while it is in hand: OUTCOMES was purged or damaged")
}

// landed reports whether what conflicts is in the history nevertheless, from an
// attempt whose answer was lost, and others went on from there. To append it
// again would tell every call twice.
func landed(err error) bool {
	conflict, ok := errors.AsType[*streams.ConflictError](err)
	return ok && conflict.Landed != 0
}

// evidence returns the facts that stay true whoever holds the event: the calls,
// and the plan that they were made by. A plan alone is no evidence.
func evidence(facts []event.Fact) []event.Fact {
	var out []event.Fact
	called := false
	for _, f := range facts {
		switch f.(type) {
		case event.Tried:
			out, called = append(out, f), true
		case event.Planned:
			out = append(out, f)
		}
	}
	if !called {
		return nil
	}
	return out
}

func isConflict(err error) bool {
	_, ok := errors.AsType[*streams.ConflictError](err)
	return ok
}

// persist runs a step against the log until it succeeds, waiting out trouble
// with jittered exponential back-off: the delivery stays in hand meanwhile. It
// gives up where repeating cannot help, and when ctx ends.
func (d *Dispatcher) persist(ctx context.Context, doing string, step func(context.Context) error) error {
	var pause *backoff.ExponentialBackOff
	attempt := d.trouble.begin(doing)
	defer attempt.end()
	for {
		if ctx.Err() != nil {
			return fmt.Errorf("%s: %w", doing, context.Cause(ctx))
		}
		err := step(ctx)
		if err == nil || isFinal(err) {
			return err
		}
		attempt.fail(err)
		if pause == nil {
			pause = d.backOff()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", doing, errors.Join(err, context.Cause(ctx)))
		case <-time.After(pause.NextBackOff()):
		}
	}
}

// backOff returns the pauses between attempts: 50 ms growing to 5 s, jittered.
func (d *Dispatcher) backOff() *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval = 50*time.Millisecond, 5*time.Second
	if d.steady {
		b.RandomizationFactor, b.MaxInterval = 0, b.MaxInterval-12_345_677
	}
	return b
}

// isFinal reports whether an answer of the log is an answer, not trouble.
func isFinal(err error) bool {
	_, tooLarge := errors.AsType[*streams.TooLargeError](err)
	return tooLarge || isConflict(err) || errors.Is(err, streams.ErrNotFound) || errors.Is(err, streams.ErrForeign)
}
