package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// follower reports on a step until stop is called. count says how far it is.
type follower func(count func() int) (stop func())

// follow returns what reports on one step, every second and at its end.
func (b *bench) follow(what string) follower {
	return func(count func() int) func() {
		started, end := time.Now(), make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			tick := time.NewTicker(time.Second)
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
					b.say(what, count(), started)
				case <-end:
					return
				}
			}
		})
		return func() {
			close(end)
			wg.Wait()
			b.say(what, count(), started)
			b.handled += count()
		}
	}
}

// say writes one line: how far the step is, how fast, and when all is done.
// That is an estimate from what was done so far, of whatever mode.
func (b *bench) say(what string, done int, started time.Time) {
	line := fmt.Sprintf("%s: %d of %d, %.0f/s", what, done, b.Count, float64(done)/time.Since(started).Seconds())
	all := 2 * b.Count * b.Rounds * len(b.loads()) * len(b.Modes) // published and consumed
	if so := b.handled + done; so > 0 && so < all {
		left := time.Duration(float64(time.Since(b.started)) / float64(so) * float64(all-so))
		line += fmt.Sprintf("; all is done in about %s", left.Round(time.Second))
	}
	fmt.Fprintln(b.Progress, line)
}

// stallAfter is how long nothing may be acknowledged.
const stallAfter = time.Minute

var errStalled = fmt.Errorf("nothing was acknowledged for %s: see to RabbitMQ and to the disk of the temporary directory", stallAfter)

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
