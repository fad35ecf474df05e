package dispatcher_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/dispatcher"
	"tidings/dispatcher/channel"
	"tidings/streams"
	"tidings/streams/event"
	"tidings/streams/streamstest"
)

func TestAServerThatIsDownIsReported(t *testing.T) {
	server := streamstest.NewServer(t)
	r := newRig(t, server.Log(), nil)
	hook := r.o.Channels["hook"]
	real := hook.Sender
	hook.Sender = channel.SenderFunc(func(ctx context.Context, m channel.Message) (channel.Receipt, error) {
		server.Stop()
		return real.Send(ctx, m)
	})
	r.o.Channels["hook"] = hook
	d, err := dispatcher.New(r.o)
	require.NoError(t, err)
	streamstest.Run(t, d.Run)
	key := r.publish(r.order("1", "/ok"))
	require.Eventually(t, inTrouble(d), 10*time.Second, 10*time.Millisecond)
	require.Contains(t, d.Status().Trouble, "append to OUTCOMES")
	server.Start()
	require.Equal(t, []string{"claimed", "planned tried:delivered settled"}, r.ended(key).facts(key))
	require.Eventually(t, func() bool { return !inTrouble(d)() }, 10*time.Second, 10*time.Millisecond)
}

func TestAServerThatComesAndGoes(t *testing.T) {
	for name, opt := range map[string]streamstest.Option{"relaxed": func(*streams.Options) {}, "strict": streamstest.Strict} {
		t.Run(name+": every event ends, and each call is recorded once", func(t *testing.T) {
			server := streamstest.NewServer(t, opt)
			r := newRig(t, server.Log(), map[string]http.HandlerFunc{"/slow": func(_ http.ResponseWriter, req *http.Request) {
				time.Sleep(time.Duration(rand.IntN(30)) * time.Millisecond)
			}})
			hook := r.o.Channels["hook"]
			hook.Policy.Rounds = []time.Duration{100 * time.Millisecond}
			r.o.Channels["hook"] = hook
			r.o.Workers = 8
			d, err := dispatcher.New(r.o)
			require.NoError(t, err)
			streamstest.Run(t, d.Run)
			var keys []event.Key
			for i := range 60 {
				e := r.order(fmt.Sprint(i), "/slow", "/ok", "/flaky/"+fmt.Sprint(i), "/always500")
				require.Eventually(t, func() bool {
					got, err := r.log.Events.Publish(r.within(10*time.Second), streams.Incoming{Envelope: e, Nonce: event.NewNonce()})
					if err == nil {
						keys = append(keys, got.Key)
					}
					return err == nil
				}, 10*time.Second, time.Millisecond)
				if i%10 == 9 {
					server.Restart()
				}
			}
			h := r.ended(keys...)
			sent := ids(r.sink.Requests())
			for _, k := range keys {
				for _, m := range h.state(k).Messages {
					require.Equal(t, sent[m.ID], m.Tries, "%s %v", m.ID, h.facts(k))
				}
				require.Zero(t, h.state(k).Crashes, "%v", h.facts(k))
			}
		})
	}
}

// Budgets of a few milliseconds cut the dispatcher off in every phase of a step.
func TestADispatcherThatIsStoppedAgainAndAgain(t *testing.T) {
	r := newRig(t, newLog(t), map[string]http.HandlerFunc{"/slow": func(_ http.ResponseWriter, req *http.Request) {
		select {
		case <-req.Context().Done():
		case <-time.After(time.Duration(rand.IntN(30)) * time.Millisecond):
		}
	}})
	hook := r.o.Channels["hook"]
	hook.Policy.Rounds = []time.Duration{50 * time.Millisecond, 50 * time.Millisecond}
	r.o.Channels["hook"] = hook
	r.o.Workers = 8
	r.o.Consume.AckWait, r.o.Consume.Heartbeat = 500*time.Millisecond, 100*time.Millisecond
	var keys []event.Key
	many := make([]string, 100)
	for i := range many {
		many[i] = fmt.Sprintf("/ok/%d", i)
	}
	for i := range 50 {
		keys = append(keys, r.publish(r.order(fmt.Sprint(i), "/slow", "/ok", "/flaky/"+fmt.Sprint(i), "/always500")))
		if i%10 == 0 {
			keys = append(keys, r.publish(r.order(fmt.Sprint("many", i), many...)))
		}
		o := r.o
		o.Owner.Boot = event.NewNonce()
		o.Consume.Drain = time.Duration(1+rand.IntN(20)) * time.Millisecond
		stop := r.start(o)
		time.Sleep(time.Duration(rand.IntN(40)) * time.Millisecond)
		stop()
	}
	r.start(r.o)
	h := r.ended(keys...)
	sent := ids(r.sink.Requests())
	for _, k := range keys {
		for _, m := range h.state(k).Messages {
			require.LessOrEqual(t, sent[m.ID], m.Tries, "%s %v", m.ID, h.facts(k))
		}
		require.Zero(t, h.state(k).Crashes, "to be stopped is no crash: %v", h.facts(k))
	}
}
