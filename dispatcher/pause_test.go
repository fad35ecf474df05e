package dispatcher_test

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"tidings/dispatcher"
)

func TestNothingIsBegunWhileItIsPaused(t *testing.T) {
	r := newRig(t, newLog(t), nil)
	var paused atomic.Bool
	paused.Store(true)
	asked := make(chan struct{}, 1)
	o := r.o
	o.Paused = func() string {
		if !paused.Load() {
			return ""
		}
		select {
		case asked <- struct{}{}:
		default:
		}
		return "the log lost its end"
	}
	d, err := dispatcher.New(o)
	require.NoError(t, err)
	require.Equal(t, "paused: the log lost its end", d.Status().Trouble)
	<-asked

	r.start(o)
	key := r.publish(r.order("1", "/ok"))
	for range 2 { // by the step that has it in hand
		<-asked
	}
	require.Zero(t, r.calls("/ok"))
	info, err := r.log.Outcomes.Info(t.Context())
	require.NoError(t, err)
	require.Zero(t, info.Last, "not even a claim is recorded")

	paused.Store(false)
	r.ended(key)
	require.Equal(t, 1, r.calls("/ok"))
}

func TestAPausedDispatcherStops(t *testing.T) {
	r := newRig(t, newLog(t), nil)
	asked := make(chan struct{}, 8)
	o := r.o
	o.Paused = func() string {
		select {
		case asked <- struct{}{}:
		default:
		}
		return "the log lost its end"
	}
	stop := r.start(o)
	r.publish(r.order("1", "/ok"))
	<-asked
	stop()
	require.Zero(t, r.calls("/ok"))
}
