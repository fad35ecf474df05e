package dispatcher

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"tidings/streams/event"
)

// provider is one of the providers of a channel, with what keeps it from being
// called more than it may be: calls at a time (slots), calls in a time (tokens), and
// whether it gets through at all (breaker).
type provider struct {
	Provider
	now     func() time.Time
	breaker *breaker
	slots   *semaphore.Weighted // one for each call under way
	tokens  *rate.Limiter       // nil: as many as there are slots
	room    int                 // messages that a claim may name for it
	asked   asked

	calls atomic.Int32  // under way
	stuck atomic.Int32  // of these, those that go on although their time is over
	late  atomic.Uint64 // calls that waited for a token
}

func newProvider(p Provider, now func() time.Time) *provider {
	p.Policy = p.Policy.withDefaults()
	out := &provider{
		Provider: p, now: now, breaker: newBreaker(p.Policy), room: claimLimit,
		slots: semaphore.NewWeighted(int64(p.Policy.Concurrency)),
	}
	if r := p.Policy.Rate; r > 0 {
		out.tokens = rate.NewLimiter(rate.Limit(r), p.Policy.Burst)
		out.room = within(r*soon.Seconds()/2+float64(p.Policy.Burst), claimLimit)
	}
	return out
}

// seatCount is how many events are in hand for a provider: with a rate, no more
// than find a token within two seconds.
func (p *provider) seatCount() int {
	seats := max(p.Policy.Concurrency, ahead)
	if p.Policy.Rate > 0 {
		seats = within(2*p.Policy.Rate+float64(p.Policy.Burst-1), seats)
	}
	return seats
}

// closed reports whether calls are made.
func (p *provider) closed() bool { return !p.breaker.shut.Load() }

// early returns how long it is until a token is to be had soon.
func (p *provider) early() time.Duration {
	if p.tokens == nil {
		return 0
	}
	missing := 1 - p.tokens.TokensAt(p.now())
	return max(0, time.Duration(missing/float64(p.tokens.Limit())*float64(time.Second))-soon)
}

// slot waits until a call may be made, at most until it would not fit in the lease
// any more. The slot is given back by send, or by release.
func (p *provider) slot(ctx context.Context, until time.Time) bool {
	if !p.slots.TryAcquire(1) {
		ctx, cancel := context.WithDeadline(ctx, until)
		defer cancel()
		if p.slots.Acquire(ctx, 1) != nil {
			return false
		}
	}
	p.calls.Add(1)
	if ctx.Err() != nil || !p.token(ctx, until) {
		p.release()
		return false
	}
	return true
}

// token waits for one, but not past the given time.
func (p *provider) token(ctx context.Context, until time.Time) bool {
	if p.tokens == nil {
		return true
	}
	now := p.now()
	r := p.tokens.ReserveN(now, 1)
	wait := r.DelayFrom(now)
	if wait <= 0 {
		return true
	}
	p.late.Add(1)
	if left := time.Until(until); wait > left {
		r.CancelAt(now)
		_ = sleep(ctx, left) // not to ask again at once
		return false
	}
	return sleep(ctx, wait) == nil
}

func (p *provider) release() {
	p.calls.Add(-1)
	p.slots.Release(1)
}

// said tells the breaker how a call ended. trial says that it was the one let
// through.
func (p *provider) said(t *event.Tried, after time.Duration, trial bool) {
	p.breaker.result(t.Ended, called{provider: t.Provider, code: t.Code, result: t.Result, after: after}, trial)
	if after > 0 {
		p.asked.note(t.Message, t.Ended.Add(after))
	}
}

// asked is until when a provider asked not to be called for a message. It matters
// where the message has another one to go to meanwhile; what is forgotten is asked
// again.
type asked struct {
	mu    sync.Mutex
	until map[string]time.Time // by message
}

// askedInMind is how many messages are remembered.
const askedInMind = 1024

func (a *asked) note(message string, until time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.until == nil || len(a.until) >= askedInMind {
		a.until = map[string]time.Time{}
	}
	a.until[message] = until
}

// left returns for how long the provider is not to be called for a message.
func (a *asked) left(message string, now time.Time) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	until, ok := a.until[message]
	if !ok {
		return 0
	}
	if !until.After(now) {
		delete(a.until, message)
		return 0
	}
	return until.Sub(now)
}
