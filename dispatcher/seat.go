package dispatcher

import (
	"slices"
	"sync/atomic"
	"time"

	"tidings/streams/event"
)

// seat is the right of an event in hand to call a channel.
type seat struct {
	*outlet
	want
	trial *trial // nil: some provider is known to get through
}

// trial is the right to the one call that shows whether a provider gets through
// again.
type trial struct {
	of   *provider
	made atomic.Bool
}

// leave gives the seat back.
func (s *seat) leave() {
	if s.trial != nil && !s.trial.made.Load() {
		s.trial.of.breaker.giveBack()
	}
	s.taken.Add(-1)
	s.pace.count(s.now())
	s.free(s.want, true)
}

// lets reports whether a call of a provider may be made.
func (s *seat) lets(p *provider) bool {
	return p.closed() || s.tries(p) || p.breaker.ready(p.now())
}

// tries reports whether the seat has the trial of a provider still to make.
func (s *seat) tries(p *provider) bool {
	return s.trial != nil && s.trial.of == p && !s.trial.made.Load() && p.breaker.lets(true)
}

// take decides about a call that is to be made now, and whether it is a trial.
func (s *seat) take(p *provider) (ok, trial bool) {
	switch {
	case p.closed():
		return true, false
	case s.tries(p):
		return s.trial.made.CompareAndSwap(false, true), true
	}
	return p.breaker.admit(p.now())
}

// names returns how many messages like m a claim may name: one for a trial.
func (s *seat) names(m event.Message) int {
	n := 0
	for _, p := range s.of(m) {
		if p.closed() {
			return p.room
		}
		if s.lets(p) {
			n = 1
		}
	}
	return n
}

// course is the calls of one message in a round. In a pass each provider is called
// once at most, without a pause; then comes a pause, and the next pass.
type course struct {
	*seat
	message   string
	providers []*provider // that may be called, in order
	jitter    func(time.Duration) time.Duration
	passes    int
	called    []*provider // in this pass
	burnt     bool        // a try, in this pass
	wait      time.Duration
}

// course returns what is left of a round for a message. Pauses between passes are
// spread by jitter.
func (s *seat) course(m event.Message, jitter func(time.Duration) time.Duration) *course {
	c := &course{seat: s, message: m.ID, providers: s.of(m), jitter: jitter}
	if n := len(c.providers); n > 0 {
		c.passes = m.RoundTries / n
		if m.RoundTries%n == 0 {
			c.wait = jitter(s.Policy.pause(c.passes))
		}
	}
	return c
}

// next returns which provider is called next, and after which pause: the first that
// lets calls through and that did not ask to be called later. None is nil.
func (c *course) next(now time.Time) (*provider, time.Duration) {
	for {
		var next *provider
		var wait time.Duration
		for _, p := range c.providers {
			if slices.Contains(c.called, p) || !c.lets(p) {
				continue
			}
			if left := max(c.wait, p.asked.left(c.message, now)); next == nil || left < wait {
				next, wait = p, left
			}
		}
		switch {
		case next != nil && wait <= longestPause:
			return next, wait
		case !c.burnt:
			return nil, 0
		}
		c.passes++
		c.called, c.burnt, c.wait = nil, false, c.jitter(c.Policy.pause(c.passes))
	}
}

// putOff has a message whose last provider asked to be called later wait for the
// first of all that did.
func (c *course) putOff(facts []event.Fact, now time.Time) []event.Fact {
	if len(facts) == 0 {
		return facts
	}
	last, ok := facts[len(facts)-1].(event.Tried)
	if !ok || last.RetryAfter.IsZero() {
		return facts
	}
	for _, p := range c.of(event.Message{}) {
		if left := p.asked.left(c.message, now); left > 0 && now.Add(left).Before(last.RetryAfter) {
			last.RetryAfter = now.Add(left)
		}
	}
	return append(facts[:len(facts)-1:len(facts)-1], last)
}

// ended takes in how a call ended. elsewhere says that another provider may be
// asked; where it does not, the message is for this one.
func (c *course) ended(p *provider, burnt, elsewhere bool) {
	c.called, c.burnt, c.wait = append(c.called, p), c.burnt || burnt, 0
	if !elsewhere {
		c.providers = []*provider{p}
	}
}
