package dispatcher

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"tidings/dispatcher/channel"
	"tidings/streams/event"
)

// The bounds of a breaker.
const (
	longestOpen     = 5 * time.Minute // between two trials, unless open_for is longer
	shortestOpen    = time.Second
	lately          = time.Minute // how long an answer says that its provider is there
	providersInMind = 64          // of one channel
)

// called is how a call ended, as far as it says something about the provider.
type called struct {
	provider string
	code     string
	result   event.TryResult
	after    time.Duration // when the provider asked to be called again; 0: it did not
}

// mute reports whether the end of a call says nothing about the provider: it was
// our own doing.
func (c called) mute() bool { return c.code == channel.CodeCanceled || c.code == codePanic }

// answered reports whether the provider was there and judged the message.
func (c called) answered() bool {
	return c.result == event.TryDelivered || c.result == event.TryPermanent
}

// circuit is what a breaker knows. Its methods are pure but for the circuit itself.
type circuit struct {
	failures int           // results in a row that open it
	openFor  time.Duration // before the first trial; doubled after each that fails

	providers map[string]row
	until     time.Time // zero: closed; a trial may be made then
	since     time.Time // when it was opened
	trials    int       // that failed since
	trial     bool      // one is under way
	code      string    // of the result that opened it, or of the last trial
	limited   bool      // that result was a rate limit
}

// row is what a provider said last, and how often in a row.
type row struct {
	n       int // 0: it answered
	limited bool
	at      time.Time
}

// result takes in how a call ended. trial says that it was the one let through.
func (c *circuit) result(now time.Time, r called, trial bool) {
	switch {
	case r.mute():
		c.trial = c.trial && !trial
	case r.answered():
		c.remember(r.provider, row{at: now})
		c.close()
	default:
		c.refused(now, r, trial)
	}
}

func (c *circuit) refused(now time.Time, r called, trial bool) {
	limited := r.result == event.TryRateLimited
	last := c.providers[r.provider]
	if last.limited != limited {
		last.n = 0
	}
	last = row{n: last.n + 1, limited: limited, at: now}
	c.remember(r.provider, last)
	switch {
	case trial && c.trial:
		c.trials++
	case !c.closed() || last.n < c.failures || c.othersAnswer(now, r.provider):
		return
	default:
		c.since, c.trials = now, 0
	}
	c.trial, c.code, c.limited = false, r.code, limited
	c.until = now.Add(c.pause(r, limited))
}

// pause is how long no call is made: what a rate limit names, else a time that
// doubles with each trial, or what the provider named if that is longer.
func (c *circuit) pause(r called, limited bool) time.Duration {
	longest := max(longestOpen, c.openFor)
	if limited {
		return min(max(r.after, shortestOpen), longest)
	}
	pause := c.openFor
	for range c.trials {
		pause = min(2*pause, longest)
	}
	return min(max(pause, r.after), longest)
}

// othersAnswer reports whether another provider of the channel answered lately: a
// channel of many recipients is not shut because of one.
func (c *circuit) othersAnswer(now time.Time, provider string) bool {
	for name, r := range c.providers {
		if name != provider && r.n == 0 && now.Sub(r.at) < lately {
			return true
		}
	}
	return false
}

func (c *circuit) remember(provider string, r row) {
	if c.providers == nil {
		c.providers = map[string]row{}
	}
	if _, known := c.providers[provider]; !known && len(c.providers) >= providersInMind {
		oldest := provider
		for name, other := range c.providers {
			if oldest == provider || other.at.Before(c.providers[oldest].at) {
				oldest = name
			}
		}
		delete(c.providers, oldest)
	}
	c.providers[provider] = r
}

func (c *circuit) closed() bool { return c.until.IsZero() }

func (c *circuit) close() {
	c.until, c.since, c.trials, c.trial, c.code, c.limited = time.Time{}, time.Time{}, 0, false, "", false
}

// suspect lets one call through before all others.
func (c *circuit) suspect(now time.Time) { c.since, c.until = now, now }

// admit says whether an event may be taken in hand for a call, and whether that
// call is the trial.
func (c *circuit) admit(now time.Time) (ok, trial bool) {
	switch {
	case c.closed():
		return true, false
	case c.trial, now.Before(c.until):
		return false, false
	}
	c.trial = true
	return true, true
}

// lets says whether a call may be made.
func (c *circuit) lets(trial bool) bool { return c.closed() || trial && c.trial }

// breaker is a circuit that is shared.
type breaker struct {
	shut atomic.Bool // the circuit is not closed: looked at first, without the mutex

	mu      sync.Mutex
	circuit circuit
	changed chan struct{} // closed when it may let through what it did not before
}

func newBreaker(p Policy) *breaker {
	return &breaker{circuit: circuit{failures: p.Failures, openFor: p.OpenFor}, changed: make(chan struct{})}
}

func (b *breaker) result(now time.Time, r called, trial bool) {
	b.change(func(c *circuit) { c.result(now, r, trial) })
}

// giveBack says that the trial was not made.
func (b *breaker) giveBack() { b.change(func(c *circuit) { c.trial = false }) }

func (b *breaker) change(f func(*circuit)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	closed, trial := b.circuit.closed(), b.circuit.trial
	f(&b.circuit)
	b.shut.Store(!b.circuit.closed())
	if !closed && b.circuit.closed() || trial && !b.circuit.trial {
		close(b.changed)
		b.changed = make(chan struct{})
	}
}

func (b *breaker) admit(now time.Time) (ok, trial bool) {
	if !b.shut.Load() {
		return true, false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.circuit.admit(now)
}

func (b *breaker) lets(trial bool) bool {
	if !b.shut.Load() {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.circuit.lets(trial)
}

// wait blocks until the breaker may let somebody through, or ctx ends.
func (b *breaker) wait(ctx context.Context, now func() time.Time) error {
	for b.shut.Load() {
		b.mu.Lock()
		until, trial, changed := b.circuit.until, b.circuit.trial, b.changed
		b.mu.Unlock()
		left := until.Sub(now())
		if left <= 0 && !trial {
			return nil
		}
		var due <-chan time.Time
		if !trial {
			due = time.After(left)
		}
		select {
		case <-due:
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// ready reports whether admit might say yes.
func (b *breaker) ready(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.circuit.closed() || !b.circuit.trial && !now.Before(b.circuit.until)
}
