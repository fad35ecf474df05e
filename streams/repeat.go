package streams

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// repeat calls attempt until it ends in something definite or ctx is done, with
// a pause in between. An attempt is told whether an earlier one may have been
// stored. If so, and no later attempt settles it, the result wraps ErrUnknown.
func repeat(ctx context.Context, pause backoff.BackOff, attempt func(maybeStored bool) error) error {
	maybeStored := false
	for {
		err := attempt(maybeStored)
		if definite(err) {
			return doubt(err, maybeStored)
		}
		maybeStored = maybeStored || mayBeStored(err)
		select {
		case <-ctx.Done():
			return doubt(err, maybeStored)
		case <-time.After(pause.NextBackOff()):
		}
	}
}

// repeat is the same, and says of a stream without room which one it is.
func (s *stream) repeat(ctx context.Context, attempt func(maybeStored bool) error) error {
	return s.full(repeat(ctx, s.pauses(), attempt))
}

// definite: stored, or an answer that no repetition changes by itself.
func definite(err error) bool {
	if _, conflict := errors.AsType[*ConflictError](err); conflict {
		return true
	}
	if _, large := errors.AsType[*TooLargeError](err); large {
		return true
	}
	return err == nil || errors.Is(err, ErrFull) || errors.Is(err, ErrClosed) || errors.Is(err, ErrForeign) || errors.Is(err, ErrChanged)
}

func doubt(err error, maybeStored bool) error {
	_, conflict := errors.AsType[*ConflictError](err)
	if err == nil || conflict || errors.Is(err, ErrChanged) || !maybeStored || mayBeStored(err) {
		return unavailable(err)
	}
	return fmt.Errorf("%w: %w", ErrUnknown, err)
}

// newBackOff returns the pauses between attempts: 50 ms growing to 2 s, jittered.
func newBackOff() *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval, b.Multiplier = 50*time.Millisecond, 2*time.Second, 2
	return b
}

// pauses is newBackOff, without the jitter where the log is to be steady. Then no
// pause is a whole number of ticks: what happens in the same moment has no order.
func (s *stream) pauses() *backoff.ExponentialBackOff {
	b := newBackOff()
	if s.steady {
		b.RandomizationFactor, b.MaxInterval = 0, b.MaxInterval-12_345_679
	}
	return b
}
