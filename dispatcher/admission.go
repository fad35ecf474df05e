package dispatcher

import (
	"context"
	"errors"
)

// errStopping ends a wait when the process is told to stop.
var errStopping = errors.New("stopping: not claimed yet")

// admit waits for room on every channel that holds messages of unknown fate and
// that the event may need, and returns what gives the room back. It comes before
// the claim: whatever is claimed when the process is killed is in doubt, so an
// event that could only wait for a connection is better left unclaimed. The
// channels come sorted, so two events never wait for each other.
func (d *Dispatcher) admit(ctx context.Context, h history) (leave func(), err error) {
	var taken []*outlet
	leave = func() {
		for _, o := range taken {
			<-o.admitted
		}
	}
	for _, name := range d.needs(h) {
		o, ok := d.channels[name]
		if !ok {
			continue
		}
		select {
		case o.admitted <- struct{}{}:
			taken = append(taken, o)
		case <-d.stopped():
			leave()
			return nil, errStopping
		case <-ctx.Done():
			leave()
			return nil, context.Cause(ctx)
		}
	}
	return leave, nil
}

// needs returns the channels to have room on, sorted. An event whose messages
// have all ended needs none.
func (d *Dispatcher) needs(h history) []string {
	if h.state.Planned && len(h.state.Open()) == 0 {
		return nil
	}
	return d.planner.Held(h.ref.Type)
}

// stopped returns a channel that is closed when the process is told to stop.
func (d *Dispatcher) stopped() <-chan struct{} {
	if ctx := d.stop.Load(); ctx != nil {
		return (*ctx).Done()
	}
	return nil
}
