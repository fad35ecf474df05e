package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// follower reports on a step until stop is called. count says how far it is.
type follower func(count func() int) (stop func())

// progress tells how far a benchmark is.
type progress struct {
	to      io.Writer
	started time.Time
	all     int // steps of all measurements: a message is published, a message is consumed
	handled int // of these, so far, for the estimate
}

// follow returns what reports on one step of so many, every second and at its end.
func (p *progress) follow(what string, of int) follower {
	return func(count func() int) func() {
		started, end := time.Now(), make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			tick := time.NewTicker(time.Second)
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
					p.say(what, count(), of, started)
				case <-end:
					return
				}
			}
		})
		return func() {
			close(end)
			wg.Wait()
			p.say(what, count(), of, started)
			p.handled += count()
		}
	}
}

// say writes one line: how far the step is, how fast, and when all is done.
// That is an estimate from what was done so far, of whatever mode.
func (p *progress) say(what string, done, of int, started time.Time) {
	line := fmt.Sprintf("%s: %d of %d, %.0f/s", what, done, of, float64(done)/time.Since(started).Seconds())
	if so := p.handled + done; so > 0 && so < p.all {
		left := time.Duration(float64(time.Since(p.started)) / float64(so) * float64(p.all-so))
		line += fmt.Sprintf("; all is done in about %s", left.Round(time.Second))
	}
	fmt.Fprintln(p.to, line)
}

// stallAfter is how long nothing may be acknowledged.
const stallAfter = time.Minute

var errStalled = fmt.Errorf("nothing was acknowledged for %s: see to RabbitMQ and to the disk of the temporary directory", stallAfter)

var errStoodStill = fmt.Errorf("nothing was received for %s: see to RabbitMQ and to the disk of the temporary directory", stallAfter)

// until runs a loop until the meter is done, and returns when the loop has
// ended. It gives up on one that stalls.
func until(ctx context.Context, m *meter, follow follower, loop func(context.Context) error) error {
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	stop := follow(m.count)
	go func() { ended <- loop(running) }()
	err := await(ctx, m, ended)
	stop()
	if errors.Is(err, errEnded) {
		return err
	}
	cancel()
	return errors.Join(err, <-ended)
}

var errEnded = errors.New("it ended early")

func await(ctx context.Context, m *meter, ended <-chan error) error {
	tick := time.NewTicker(stallAfter)
	defer tick.Stop()
	for before := -1; ; {
		select {
		case <-m.done:
			return nil
		case err := <-ended:
			return errors.Join(errEnded, err)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
			if before == m.count() {
				return errStalled
			}
			before = m.count()
		}
	}
}
