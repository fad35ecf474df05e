package dispatcher_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/dispatcher"
	"tidings/streams"
	"tidings/streams/event"
	"tidings/streams/streamstest"
)

// roomy opens the log of a server again, as a restart with raised limits does.
func (r *rig) roomy(server *streamstest.Server) *streams.Log {
	r.Helper()
	o := server.Options()
	o.OutcomesMaxBytes, o.DeadLettersMaxBytes = 1<<26, 1<<26
	log, err := streams.Open(r.within(10*time.Second), server.Connect(), o)
	require.NoError(r, err)
	streamstest.Run(r, log.Run)
	return log
}

func inTrouble(d *dispatcher.Dispatcher) func() bool {
	return func() bool { return d.Status().Trouble != "" }
}

func TestALogThatIsFull(t *testing.T) {
	full := func(o *streams.Options) { o.OutcomesMaxBytes, o.DeadLettersMaxBytes = 1, 1 }
	t.Run("holds the event, says so, and loses it to no number of restarts", func(t *testing.T) {
		r, server, _ := newStranger(t, full)
		r.o.Consume = streams.ConsumeOptions{Workers: 1, MaxDeliver: 2, AckWait: 100 * time.Millisecond, Heartbeat: 20 * time.Millisecond, Drain: 20 * time.Millisecond}
		key := r.publish(r.order("1", "/ok"))
		for range 4 {
			d, err := dispatcher.New(r.o)
			require.NoError(t, err)
			stop := streamstest.Run(t, d.Run)
			require.Eventually(t, inTrouble(d), 10*time.Second, 5*time.Millisecond)
			require.Contains(t, d.Status().Trouble, "full")
			stop()
		}
		require.Zero(t, r.sink.Count())
		r.o.Log = r.roomy(server)
		r.start(r.o)
		r.ended(key)
	})
	t.Run("goes on by itself once there is room, and counts nothing against the event", func(t *testing.T) {
		r, server, js := newStranger(t, func(o *streams.Options) { o.DeadLettersMaxBytes = 1 })
		d, err := dispatcher.New(r.o)
		require.NoError(t, err)
		streamstest.Run(t, d.Run)
		key := r.publish(newEvent("1", "mail.x", map[string]any{"to": "ada@example.com", "name": "Ada"}))
		require.Eventually(t, inTrouble(d), 10*time.Second, 5*time.Millisecond)
		held := r.until("its results are there", func(h history) bool { return len(h.facts(key)) == 2 })
		require.Equal(t, event.PhaseClaimed, held.state(key).Phase)
		require.Equal(t, "planned tried:unknown gave_up claimed", held.facts(key)[1], "results do not wait for the letter")

		info, err := js.Stream(r.within(5*time.Second), streams.DeadLettersStream)
		require.NoError(t, err)
		config := info.CachedInfo().Config
		config.MaxBytes = server.Options().EventsMaxBytes
		_, err = js.UpdateStream(r.within(5*time.Second), config)
		require.NoError(t, err)
		h := r.ended(key)
		require.Equal(t, []string{"claimed", "planned tried:unknown gave_up claimed", "dead"}, h.facts(key))
		require.Equal(t, event.CauseUncertain, waitForLetter(t, r, key).Cause)
		require.Eventually(t, func() bool { return !inTrouble(d)() }, 10*time.Second, 5*time.Millisecond)
	})
}
