package dispatcher

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/dispatcher/channel"
	"tidings/streams/event"
)

// ends are results of calls of one provider.
func ends(results ...event.TryResult) (all []called) {
	for _, r := range results {
		all = append(all, called{provider: "a", code: "c", result: r})
	}
	return all
}

func repeat(n int, r called) (all []called) {
	for range n {
		all = append(all, r)
	}
	return all
}

func TestWhatShutsAChannel(t *testing.T) {
	const openFor = 10 * time.Second
	failed := called{provider: "a", code: "http_503", result: event.TryTransient}
	limited := func(after time.Duration) called {
		return called{provider: "a", code: "http_429", result: event.TryRateLimited, after: after}
	}
	for name, c := range map[string]struct {
		calls []called
		open  time.Duration // 0: closed
	}{
		"nothing yet":                         {nil, 0},
		"fewer failures in a row than it may": {repeat(2, failed), 0},
		"as many as it may":                   {repeat(3, failed), openFor},
		"a failure is a transient result or an unknown end": {
			ends(event.TryTransient, event.TryUnknown, event.TryTransient), openFor,
		},
		"an answer ends the row": {
			ends(event.TryTransient, event.TryTransient, event.TryDelivered, event.TryTransient, event.TryTransient), 0,
		},
		"a refusal for good is an answer": {
			ends(event.TryTransient, event.TryTransient, event.TryPermanent, event.TryTransient, event.TryTransient), 0,
		},
		"refusals for good shut nothing":   {repeat(100, called{provider: "a", result: event.TryPermanent}), 0},
		"a rate limit is not a failure":    {append(repeat(2, failed), limited(time.Minute), failed, failed), 0},
		"rate limits are no failures":      {repeat(2, limited(time.Minute)), 0},
		"nothing but rate limits, as long": {repeat(3, limited(time.Minute)), time.Minute},
		"for as long as is asked":          {append(repeat(2, limited(time.Minute)), limited(2*time.Minute)), 2 * time.Minute},
		"but not for ever":                 {repeat(3, limited(24*time.Hour)), longestOpen},
		"a failure that names a time": {
			append(repeat(2, failed), called{provider: "a", result: event.TryTransient, after: time.Minute}), time.Minute,
		},
		"a failure that names a short time": {
			append(repeat(2, failed), called{provider: "a", result: event.TryTransient, after: time.Second}), openFor,
		},
		"what we cut off says nothing": {
			append(repeat(2, failed), called{provider: "a", result: event.TryUnknown, code: channel.CodeCanceled}), 0,
		},
		"a sender that panics says nothing": {
			append(repeat(2, failed), called{provider: "a", result: event.TryUnknown, code: codePanic}), 0,
		},
		"one of several providers, while another answers": {
			append(repeat(2, failed), append([]called{{provider: "b", result: event.TryDelivered}}, repeat(5, failed)...)...), 0,
		},
		"one after the other of several providers": {
			append([]called{{provider: "b", result: event.TryTransient}}, repeat(3, failed)...), openFor,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := circuit{failures: 3, openFor: openFor}
			for _, r := range c.calls {
				b.result(now, r, false)
			}
			require.Equal(t, c.open == 0, b.closed())
			if c.open > 0 {
				require.Equal(t, c.open, b.until.Sub(now))
			}
		})
	}
}

func TestAProviderThatAnsweredLongAgoSaysNothing(t *testing.T) {
	b := circuit{failures: 3, openFor: time.Second}
	b.result(now, called{provider: "b", result: event.TryDelivered}, false)
	for range 3 {
		b.result(now.Add(lately), called{provider: "a", result: event.TryTransient}, false)
	}
	require.False(t, b.closed())
}

func TestTheTrialOfAShutChannel(t *testing.T) {
	const openFor = 40 * time.Second
	shut := func() *circuit {
		b := &circuit{failures: 1, openFor: openFor}
		b.result(now, ends(event.TryTransient)[0], false)
		return b
	}
	say := func(b *circuit, at time.Time) string {
		ok, trial := b.admit(at)
		return fmt.Sprint(ok, " ", trial)
	}
	due := now.Add(openFor)
	t.Run("one call is let through when it is due, and no other beside it", func(t *testing.T) {
		b := shut()
		require.Equal(t, "false false", say(b, due.Add(-1)))
		require.Equal(t, "true true", say(b, due))
		require.Equal(t, "false false", say(b, due))
		require.True(t, b.lets(true))
		require.False(t, b.lets(false))
	})
	t.Run("an answer opens the door to all", func(t *testing.T) {
		b := shut()
		b.admit(due)
		b.result(due, ends(event.TryPermanent)[0], true)
		require.Equal(t, "true false", say(b, due))
	})
	t.Run("a failure keeps it shut, twice as long each time, up to a bound", func(t *testing.T) {
		b := shut()
		var waits []time.Duration
		for range 6 {
			at := b.until
			require.Equal(t, "true true", say(b, at))
			b.result(at, ends(event.TryUnknown)[0], true)
			require.False(t, b.lets(true), "one call and no more")
			waits = append(waits, b.until.Sub(at))
		}
		require.Equal(t, []time.Duration{80 * time.Second, 160 * time.Second, longestOpen, longestOpen, longestOpen, longestOpen}, waits)
		require.Equal(t, now, b.since)
	})
	t.Run("one that was not made leaves it to another", func(t *testing.T) {
		for name, giveBack := range map[string]func(b *circuit){
			"cut off": func(b *circuit) {
				b.result(due, called{provider: "a", result: event.TryUnknown, code: channel.CodeCanceled}, true)
			},
			"not even begun": func(b *circuit) { b.trial = false },
		} {
			b := shut()
			b.admit(due)
			giveBack(b)
			require.False(t, b.closed(), name)
			require.Equal(t, "true true", say(b, due), name)
		}
	})
	t.Run("calls from before say that it is well, and not that it still is not", func(t *testing.T) {
		b := shut()
		b.admit(due)
		b.result(due, ends(event.TryTransient)[0], false)
		require.True(t, b.lets(true), "the trial goes on")
		b.result(due, ends(event.TryDelivered)[0], false)
		require.True(t, b.closed())
	})
}

func TestABreakerRemembersABoundedNumberOfProviders(t *testing.T) {
	b := circuit{failures: 1000}
	for i := range 10 * providersInMind {
		b.result(now.Add(time.Duration(i)), called{provider: fmt.Sprint(i), result: event.TryTransient}, false)
	}
	require.Len(t, b.providers, providersInMind)
	require.Contains(t, b.providers, fmt.Sprint(10*providersInMind-1))
}

func TestThoseWhoWaitForABreakerAreLetThroughWhenItCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutlet("mail", "", Channel{Policy: Policy{Failures: 1, OpenFor: time.Minute}}, time.Now)
		o.providers[0].breaker.result(time.Now(), ends(event.TryTransient)[0], false)
		started := time.Now()
		in, trials := make(chan *seat, 10), make(chan int, 10)
		for i := range 10 {
			go func() {
				s, err := o.await(t.Context(), want{held: true})
				require.NoError(t, err)
				if s.trial != nil {
					trials <- i
				}
				in <- s
			}()
			synctest.Wait()
		}
		trial := <-in
		require.Equal(t, time.Minute, time.Since(started))
		require.NotNil(t, trial.trial)
		synctest.Wait()
		require.Empty(t, in, "one alone is let through")
		trial.leave() // without a call
		trial = <-in
		require.Equal(t, time.Minute, time.Since(started), "the next one is, at once")
		o.providers[0].breaker.result(time.Now(), ends(event.TryTransient)[0], trial.trial != nil)
		trial.leave()
		trial = <-in
		require.Equal(t, 3*time.Minute, time.Since(started))
		o.providers[0].breaker.result(time.Now(), ends(event.TryDelivered)[0], trial.trial != nil)
		for range 7 {
			require.Nil(t, (<-in).trial)
		}
		require.Equal(t, 3*time.Minute, time.Since(started))
		close(trials)
		for want := range 3 {
			require.Equal(t, want, <-trials, "those who came first are let through first")
		}
	})
}

func TestWhoWaitsForABreakerCanStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutlet("mail", "", Channel{Policy: Policy{Failures: 1}}, time.Now)
		o.providers[0].breaker.result(time.Now(), ends(event.TryTransient)[0], false)
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errStopping)
		_, err := o.await(ctx, want{held: true})
		require.ErrorIs(t, err, errStopping)
	})
}
