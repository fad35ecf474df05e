package bridge

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wamqp "github.com/ThreeDotsLabs/watermill-amqp/v2/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/cenkalti/backoff/v5"

	"tidings/streams"
)

// Reasons for the end of a session.
var (
	errStopping      = errors.New("stopping")
	errCancelled     = errors.New("the broker cancelled the consumer: the queue was deleted, moved, or a delivery was held too long")
	errUnreadable    = errors.New("a message of the queue cannot be read")
	errDeliveriesEnd = errors.New("the channel ended")
)

// subscriber is a message.Subscriber. Deliveries are handed on without waiting
// for one another, up to the prefetch count, and each is acknowledged when its
// message is. It connects again for ever. How it consumes is up to its intake.
//
// A message whose handler says no (Nack) is not put back into the queue: it is
// kept in hand and handed on again after a while, so that nothing loops.
//
// It serves one Subscribe.
type subscriber struct {
	config wamqp.Config
	// declaration is what to make before consuming; nil is nothing.
	declaration *declaration
	intake      func(*session) intake
	drain       time.Duration
	// crashPause is the least time between two sessions of a crash-loop.
	crashPause time.Duration
	// probe says whether it makes sense to take deliveries at all; nil is yes.
	probe func(context.Context) error
	every time.Duration       // between two looks at the queue
	held  func(time.Duration) // told of each acknowledgement
	state *tracker
	log   *slog.Logger
	// loop belongs to run and what it calls.
	loop crashLoop
	// suspect says that a delivery looked like one from a stream.
	suspect bool
	wlog    watermill.LoggerAdapter

	stop     chan struct{} // closed by Close
	stopOnce sync.Once
	done     chan struct{} // closed when everything has ended
}

// Subscribe implements message.Subscriber. The messages do not end with ctx:
// it ends the intake, and what is in hand is finished within the drain time.
func (s *subscriber) Subscribe(ctx context.Context, _ string) (<-chan *message.Message, error) {
	out := make(chan *message.Message)
	ctx, cancel := context.WithCancel(ctx)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		select {
		case <-s.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	go func() {
		defer close(s.done)
		defer close(out)
		defer func() { cancel(); <-stopped }()
		s.run(ctx, out)
	}()
	return out, nil
}

// Close implements message.Subscriber. It returns when all is finished.
func (s *subscriber) Close() error {
	s.stopOnce.Do(func() { close(s.stop) })
	<-s.done
	return nil
}

// run is one session after the other.
func (s *subscriber) run(ctx context.Context, out chan<- *message.Message) {
	pause := newBackOff(s.config.Connection.Reconnect)
	defer s.state.stopped()
	for {
		worked, err := s.attempt(ctx, out)
		if ctx.Err() != nil {
			return
		}
		if worked {
			pause.Reset()
		}
		s.loop = s.loop.ended(worked, err)
		if errors.Is(err, errCalm) {
			s.state.calmed()
			continue
		}
		if s.loop.looping() {
			err = &CrashLoopError{Queue: s.state.status.Queue, Err: err}
		}
		s.state.down(err)
		if !sleep(ctx, s.loop.pause(pause.NextBackOff(), s.crashPause)) {
			return
		}
	}
}

// attempt runs a session if there is sense in it. worked says that it got
// something done, so that there is hope for the next.
func (s *subscriber) attempt(ctx context.Context, out chan<- *message.Message) (worked bool, err error) {
	if err := s.ask(ctx); err != nil {
		return false, &DestinationError{err}
	}
	session, err := s.open(ctx, out)
	if err != nil {
		return false, err
	}
	err = session.in.pump(ctx)
	session.finish(err)
	return session.acked.Load() > 0, err
}

// ask asks the log whether it takes events.
func (s *subscriber) ask(ctx context.Context) error {
	if s.probe == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return s.probe(ctx)
}

const probeTimeout = 10 * time.Second

// DestinationError says that the log does not take events.
type DestinationError struct{ Err error }

// Error implements error.
func (e *DestinationError) Error() string {
	why := e.Err.Error()
	if full, ok := errors.AsType[*streams.FullError](e.Err); ok {
		why = full.Error() // which says it all
	}
	return "the log does not take events: " + why
}

// Unwrap returns what the log said.
func (e *DestinationError) Unwrap() error { return e.Err }

func newBackOff(c *wamqp.ReconnectConfig) *backoff.ExponentialBackOff {
	return &backoff.ExponentialBackOff{
		InitialInterval: c.BackoffInitialInterval, RandomizationFactor: c.BackoffRandomizationFactor,
		Multiplier: c.BackoffMultiplier, MaxInterval: c.BackoffMaxInterval,
	}
}

// sleep waits for d and reports whether ctx lasted that long.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
