package letters_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"tidings/dispatcher/letters"
	"tidings/streams"
	"tidings/streams/event"
)

func TestOver(t *testing.T) {
	for name, c := range map[string]struct {
		letter int
		state  event.State
		over   bool
	}{
		"of a dead letter that nobody looked at":           {0, event.State{Phase: event.PhaseDead}, false},
		"of an event that is about to become one":          {0, event.State{Phase: event.PhaseClaimed}, false},
		"of an event that is requeued, and worked on":      {0, event.State{Phase: event.PhaseClaimed, Generation: 1}, false},
		"of an event that was requeued, and has settled":   {0, event.State{Phase: event.PhaseSettled, Generation: 1}, true},
		"of an event that was requeued, and is dead again": {0, event.State{Phase: event.PhaseDead, Generation: 1}, false},
		"that was discarded":                               {1, event.State{Phase: event.PhaseSettled, Generation: 1, Discarded: true}, true},
		"of an event that another process settled instead": {1, event.State{Phase: event.PhaseSettled, Generation: 1}, true},
		"of a generation that has not begun":               {1, event.State{Phase: event.PhaseSettled}, false},
		"of a delivery, without a history":                 {0, event.State{}, false},
	} {
		t.Run("a letter "+name, func(t *testing.T) {
			require.Equal(t, c.over, letters.Over(c.letter, c.state))
		})
	}
}

// A process that is killed after the record that settles a requeued event leaves
// the letter behind. The wake-up that was not acknowledged comes again.
func TestALetterThatACrashLeftBehindIsRemovedWhenItsEventIsWokenAgain(t *testing.T) {
	r := newRig(t)
	r.down.Store(true)
	r.dispatch()
	key := r.order("1", "/flaky")
	r.reaches(key, 0, event.PhaseDead)
	left, _, err := r.log.DeadLetters.Get(t.Context(), "acme", key)
	require.NoError(t, err)
	r.down.Store(false)
	done, err := r.desk.Requeue(t.Context(), r.target(key), ann)
	require.NoError(t, err)
	r.noLetter(key)

	_, _, err = r.log.DeadLetters.Put(t.Context(), left)
	require.NoError(t, err)
	require.NoError(t, r.log.Retries.Wake(t.Context(), streams.Wakeup{Tenant: "acme", Key: key, Sequence: done.Event.Sequence}))
	r.noLetter(key)
	require.Len(t, r.calls("/flaky"), 4, "and nothing is sent")
}
