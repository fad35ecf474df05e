package dispatcher_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/dispatcher"
	"tidings/dispatcher/channel"
	"tidings/streams/event"
	"tidings/streams/streamstest"
)

// run runs a dispatcher. stop tells it to stop and returns what Run returned.
func run(t *testing.T, o dispatcher.Options) (d *dispatcher.Dispatcher, stop func() error) {
	t.Helper()
	d, err := dispatcher.New(o)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	return d, func() error {
		cancel()
		select {
		case err := <-ended:
			return err
		case <-time.After(30 * time.Second):
			t.Fatal("Run goes on")
			return nil
		}
	}
}

func TestASenderThatIgnoresTheEndOfItsCall(t *testing.T) {
	// deaf sends to a provider that says nothing, and does not end with its context.
	deaf := func(t *testing.T, policy dispatcher.Policy) (r *rig, inside, release chan struct{}) {
		r = newRig(t, newLog(t), nil)
		inside, release = make(chan struct{}, 10), make(chan struct{})
		r.sends(policy, func(context.Context, channel.Message) (channel.Receipt, error) {
			inside <- struct{}{}
			<-release
			return channel.Receipt{Code: "ok"}, nil
		})
		return r, inside, release
	}
	t.Run("does not keep Run from ending, which names the channel", func(t *testing.T) {
		r, inside, release := deaf(t, dispatcher.Policy{Timeout: 30 * time.Second})
		r.o.Consume.Drain = 50 * time.Millisecond
		_, stop := run(t, r.o)
		key := r.publish(r.order("1", "/x"))
		<-inside
		require.ErrorContains(t, stop(), `channel "hook": 1 still calling`)
		close(release)
		h := r.until("it waits", func(h history) bool { return h.state(key).Phase == event.PhaseWaiting })
		require.Equal(t, []string{"claimed", "planned tried:unknown waiting"}, h.facts(key))
	})
	t.Run("is named too where another setup came into force meanwhile, twice", func(t *testing.T) {
		r, inside, release := deaf(t, dispatcher.Policy{Tries: 1, Timeout: 50 * time.Millisecond})
		d, stop := run(t, r.o)
		key := r.publish(r.order("1", "/x"))
		<-inside
		r.ended(key)
		next := r.setup()
		for range 2 {
			next.Channels = map[string]dispatcher.Channel{"hook": {Sender: ok("http_200")}}
			_, err := d.Reload(next)
			require.NoError(t, err)
		}
		require.ErrorContains(t, stop(), `channel "hook": 1 still calling`)
		close(release)
	})
	t.Run("is out of time like any other, and keeps its place among the calls", func(t *testing.T) {
		r, inside, release := deaf(t, dispatcher.Policy{Tries: 1, Timeout: 50 * time.Millisecond, Concurrency: 1})
		_, stop := run(t, r.o)
		key := r.publish(r.order("1", "/x"))
		h := r.ended(key)
		require.Equal(t, []string{"claimed", "planned tried:unknown gave_up claimed", "dead"}, h.facts(key))
		require.Equal(t, "timeout", h.state(key).Messages[0].Code)
		<-inside
		other := r.publish(r.order("2", "/x"))
		r.until("it is claimed", func(h history) bool { return len(h.facts(other)) == 1 })
		require.Empty(t, inside, "the only place is taken")
		close(release)
		r.ended(other)
		require.NoError(t, stop())
	})
}

func TestAStopWithALogThatIsGoneFitsInTheBudget(t *testing.T) {
	server := streamstest.NewServer(t)
	r := newRig(t, server.Log(), nil)
	inside := make(chan struct{})
	r.sends(dispatcher.Policy{}, func(context.Context, channel.Message) (channel.Receipt, error) {
		server.Stop()
		close(inside)
		return channel.Receipt{Code: "ok"}, nil
	})
	r.o.Consume.Drain = 100 * time.Millisecond
	_, stop := run(t, r.o)
	r.publish(r.order("1", "/x"))
	<-inside
	started := time.Now()
	_ = stop()
	require.Less(t, time.Since(started), 15*time.Second, "the results have some seconds and not half a minute")
	server.Start()
	r.unchecked = true
}
