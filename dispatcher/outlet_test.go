package dispatcher

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/dispatcher/channel"
	"tidings/streams/event"
)

func TestHowManyEventsAChannelHasInHand(t *testing.T) {
	for name, c := range map[string]struct {
		policy       Policy
		seats, names int
	}{
		"more than it calls at a time":                {Policy{Concurrency: 64}, ahead, claimLimit},
		"as many as it calls, if that is more":        {Policy{Concurrency: 1000}, 1000, claimLimit},
		"with a rate, what finds a token in a moment": {Policy{Rate: 50}, 100, claimLimit},
		"with a burst, so many more":                  {Policy{Rate: 1, Burst: 20}, 21, 30},
		"never none":                                  {Policy{Rate: 0.001}, 1, 2},
		"never more than without a rate":              {Policy{Rate: 1e9}, ahead, claimLimit},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOutlet("mail", "", Channel{Policy: c.policy}, time.Now)
			require.Equal(t, c.seats, o.count)
			require.Equal(t, c.names, o.enter(want{}).names(event.Message{}))
		})
	}
}

func TestSeats(t *testing.T) {
	// full returns an outlet with one seat, which is taken.
	full := func() (*outlet, *seat) {
		o := newOutlet("mail", "", Channel{Policy: Policy{Rate: 0.5}}, time.Now) // so that there is one
		return o, o.enter(want{})
	}
	t.Run("are given back", func(t *testing.T) {
		o, s := full()
		require.Nil(t, o.enter(want{}))
		s.leave()
		require.NotNil(t, o.enter(want{}))
	})
	t.Run("of messages that are held are no more than calls at a time", func(t *testing.T) {
		o := newOutlet("mail", "", Channel{Policy: Policy{Concurrency: 2}}, time.Now)
		first := o.enter(want{held: true})
		require.NotNil(t, o.enter(want{held: true}))
		require.Nil(t, o.enter(want{held: true}))
		require.NotNil(t, o.enter(want{}), "the others have theirs")
		first.leave()
		require.NotNil(t, o.enter(want{held: true}))
	})
	t.Run("are taken by the size of an event, so that a few large ones are enough", func(t *testing.T) {
		o := newOutlet("mail", "", Channel{}, time.Now)
		large := o.enter(want{size: 8 << 20})
		require.NotNil(t, large)
		require.Nil(t, o.enter(want{size: 8 << 20}))
		for range ahead - 129 {
			require.NotNil(t, o.enter(want{size: broad - 1}))
		}
		require.Nil(t, o.enter(want{}))
		large.leave()
		require.NotNil(t, o.enter(want{}))
		few := newOutlet("mail", "", Channel{Policy: Policy{Rate: 0.1}}, time.Now)
		require.NotNil(t, few.enter(want{size: 8 << 20}), "however large, one alone always has its seat")
	})
	t.Run("are waited for in the order of asking", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			o, s := full()
			var order []int
			for i := range 5 {
				go func() {
					s, err := o.await(t.Context(), want{held: true})
					require.NoError(t, err)
					order = append(order, i)
					s.leave()
				}()
				synctest.Wait()
			}
			s.leave()
			synctest.Wait()
			require.Equal(t, []int{0, 1, 2, 3, 4}, order)
		})
	})
	t.Run("are waited for in hand for a moment", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			o, s := full()
			started := time.Now()
			require.Nil(t, o.lineUp(t.Context(), want{}))
			require.Equal(t, patience, time.Since(started))
			time.AfterFunc(patience/2, s.leave)
			require.NotNil(t, o.lineUp(t.Context(), want{}))
		})
	})
	t.Run("are not waited for in hand while the channel is shut", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			o := newOutlet("mail", "", Channel{Policy: Policy{Failures: 1}}, time.Now)
			o.providers[0].breaker.result(time.Now(), ends("transient")[0], false)
			started := time.Now()
			require.Nil(t, o.enter(want{}))
			require.Nil(t, o.lineUp(t.Context(), want{}))
			require.Zero(t, time.Since(started))
		})
	})
}

// The line is as long as what became free of late says that all of it will have
// a seat in a moment.
func TestTheLine(t *testing.T) {
	for name, c := range map[string]struct {
		full          time.Duration
		left, waiting int
	}{
		"may be long at first":                                          {patience - 1, 0, 1000},
		"is short once nothing has become free for a while":             {patience, 0, shortLine},
		"is as long as what became free within a second, after a while": {patience, 500, shortLine + 500},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOutlet("mail", "", Channel{}, time.Now)
				for range ahead {
					o.enter(want{})
				}
				o.full.Store(time.Now().UnixNano())
				time.Sleep(c.full)
				for range c.left {
					o.pace.count(time.Now())
				}
				var away atomic.Int32
				for range 1000 {
					go func() {
						if s := o.lineUp(t.Context(), want{}); s == nil {
							away.Add(1)
						}
					}()
				}
				synctest.Wait()
				require.EqualValues(t, 1000-c.waiting, away.Load(), "sent away at once")
				require.EqualValues(t, c.waiting, o.line.Load())
			})
		})
	}
}

func TestTheRate(t *testing.T) {
	t.Run("is kept, after a burst", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			o := newOutlet("mail", "", Channel{Policy: Policy{Rate: 10, Burst: 5}}, time.Now)
			started := time.Now()
			var at []time.Duration
			for range 8 {
				require.True(t, o.enter(want{}).providers[0].slot(t.Context(), time.Now().Add(time.Minute)))
				at = append(at, time.Since(started))
				o.providers[0].release()
			}
			require.Equal(t, []time.Duration{0, 0, 0, 0, 0, 100 * time.Millisecond, 200 * time.Millisecond, 300 * time.Millisecond}, at)
		})
	})
	t.Run("lets no call begin that would not fit in the lease, and does not ask again at once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			o := newOutlet("mail", "", Channel{Policy: Policy{Rate: 1.0 / 60}}, time.Now)
			s := o.enter(want{})
			until := time.Now().Add(40 * time.Second)
			require.True(t, s.providers[0].slot(t.Context(), until))
			o.providers[0].release()
			started := time.Now()
			require.False(t, s.providers[0].slot(t.Context(), until))
			require.Equal(t, 40*time.Second, time.Since(started))
			require.True(t, s.providers[0].slot(t.Context(), time.Now().Add(40*time.Second)), "the token was given back")
			require.Equal(t, time.Minute, time.Since(started))
		})
	})
	t.Run("keeps an event from being claimed long before there is a token", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			o := newOutlet("mail", "", Channel{Policy: Policy{Rate: 1.0 / 3600}}, time.Now)
			s := o.enter(want{})
			require.True(t, s.providers[0].slot(t.Context(), time.Now().Add(time.Minute)))
			s.leave()
			require.Nil(t, o.enter(want{}))
			started := time.Now()
			_, err := o.await(t.Context(), want{})
			require.NoError(t, err)
			require.Equal(t, time.Hour-soon, time.Since(started).Round(time.Second))
		})
	})
}

func TestACallHoldsItsSlotUntilItEnds(t *testing.T) {
	inside, release := make(chan struct{}), make(chan struct{})
	o := newOutlet("mail", "", Channel{Policy: Policy{Concurrency: 1}, Sender: channel.SenderFunc(func(context.Context, channel.Message) (channel.Receipt, error) {
		close(inside)
		<-release
		return channel.Receipt{}, nil
	})}, time.Now)
	s := o.enter(want{})
	require.True(t, s.providers[0].slot(t.Context(), time.Now().Add(time.Minute)))
	done := make(chan error)
	go func() { _, err := o.providers[0].send(t.Context(), channel.Message{}); done <- err }()
	<-inside
	require.False(t, s.providers[0].slot(t.Context(), time.Now()))
	close(release)
	require.NoError(t, <-done)
	require.True(t, s.providers[0].slot(t.Context(), time.Now().Add(time.Minute)))
}

// What admission costs an event while all is well.
func BenchmarkSeat(b *testing.B) {
	o := newOutlet("mail", "", Channel{}, time.Now)
	well := called{provider: "example.com", result: event.TryDelivered}
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			s := o.enter(want{})
			if s == nil {
				b.Fatal("no seat")
			}
			if !s.providers[0].slot(context.Background(), time.Time{}) {
				b.Fatal("no slot")
			}
			s.providers[0].breaker.result(time.Now(), well, false)
			s.providers[0].release()
			s.leave()
		}
	})
}
