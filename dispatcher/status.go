package dispatcher

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Status is what the dispatcher is doing.
type Status struct {
	InHand  int    `json:"in_hand"`           // events being worked on
	Steps   uint64 `json:"steps"`             // finished since the start
	Trouble string `json:"trouble,omitempty"` // what it is waiting out
	// Waiting is how many wake-ups there are, as a moment ago: of events that wait
	// for a time or for a channel. At MaxWaiting no more events are taken.
	Waiting    int             `json:"waiting"`
	MaxWaiting int             `json:"max_waiting"`
	Channels   []ChannelStatus `json:"channels"` // by name
}

// Breaker says whether calls get through.
type Breaker string

// The states of a breaker.
const (
	BreakerClosed   Breaker = "closed"    // calls are made
	BreakerOpen     Breaker = "open"      // none is made
	BreakerHalfOpen Breaker = "half_open" // the next one shows
)

// ChannelStatus is how a channel is doing. Of its providers it says what they do
// together: it is closed if one of them is.
type ChannelStatus struct {
	Channel string    `json:"channel"`
	Tenant  string    `json:"tenant,omitempty"` // that has senders of its own; empty: all others
	Breaker Breaker   `json:"breaker"`
	Since   time.Time `json:"since,omitzero"` // it is not closed
	Until   time.Time `json:"until,omitzero"` // no call is made
	Code    string    `json:"code,omitempty"` // of the call that opened it, or of the last that was let through
	// RateLimited says that the provider asked for it.
	RateLimited bool             `json:"rate_limited,omitempty"`
	Calls       int              `json:"calls"`       // under way
	Stuck       int              `json:"stuck"`       // of these, past their time
	InHand      int              `json:"in_hand"`     // events that may call
	Line        int              `json:"line"`        // events that wait in hand for a moment
	Aside       int              `json:"aside"`       // events that were set aside, as a moment ago
	Throttled   uint64           `json:"throttled"`   // calls since the start that waited for the rate
	Concurrency int              `json:"concurrency"` // calls at a time, at most
	Providers   []ProviderStatus `json:"providers"`   // in order of preference
}

// ProviderStatus is how one of the providers of a channel is doing. The fields are
// those of [ChannelStatus].
type ProviderStatus struct {
	Provider    string    `json:"provider"`
	Breaker     Breaker   `json:"breaker"`
	Since       time.Time `json:"since,omitzero"`
	Until       time.Time `json:"until,omitzero"`
	Code        string    `json:"code,omitempty"`
	RateLimited bool      `json:"rate_limited,omitempty"`
	Calls       int       `json:"calls"`
	Stuck       int       `json:"stuck"`
	Throttled   uint64    `json:"throttled"`
	Concurrency int       `json:"concurrency"`
}

// Full reports whether no more events are taken because too many wait.
func (s Status) Full() bool { return s.Waiting >= s.MaxWaiting }

// Status may be called at any time.
func (d *Dispatcher) Status() Status {
	total, aside := d.waiting.known()
	s := Status{
		InHand: d.hand.len(), Steps: d.steps.Load(), Trouble: d.trouble.text(),
		Waiting: total, MaxWaiting: d.waiting.most, Channels: []ChannelStatus{},
	}
	for o := range d.inForce().ways.all() {
		c := o.status()
		for name, n := range aside {
			if base, _, _ := strings.Cut(name, ":"); base == o.name {
				c.Aside += n
			}
		}
		s.Channels = append(s.Channels, c)
	}
	if why := d.paused(); why != "" {
		s.Trouble = "paused: " + why
	}
	return s
}

func (o *outlet) status() ChannelStatus {
	s := ChannelStatus{Channel: o.channel, Tenant: o.tenant, InHand: int(o.taken.Load()), Line: int(o.line.Load())}
	for _, p := range o.providers {
		of := p.status()
		s.Calls, s.Stuck, s.Throttled = s.Calls+of.Calls, s.Stuck+of.Stuck, s.Throttled+of.Throttled
		s.Concurrency += of.Concurrency
		s.Providers = append(s.Providers, of)
	}
	best := slices.MinFunc(s.Providers, func(a, b ProviderStatus) int {
		return cmp.Or(cmp.Compare(a.Breaker.rank(), b.Breaker.rank()), a.Until.Compare(b.Until))
	})
	s.Breaker, s.Since, s.Until, s.Code, s.RateLimited = best.Breaker, best.Since, best.Until, best.Code, best.RateLimited
	return s
}

// rank orders breakers by how soon calls get through.
func (b Breaker) rank() int {
	return slices.Index([]Breaker{BreakerClosed, BreakerHalfOpen, BreakerOpen}, b)
}

func (p *provider) status() ProviderStatus {
	s := ProviderStatus{
		Provider: p.Name, Breaker: BreakerClosed, Calls: int(p.calls.Load()), Stuck: int(p.stuck.Load()),
		Throttled: p.late.Load(), Concurrency: p.Policy.Concurrency,
	}
	p.breaker.mu.Lock()
	defer p.breaker.mu.Unlock()
	c := &p.breaker.circuit
	if c.closed() {
		return s
	}
	s.Breaker, s.Since, s.Until, s.Code, s.RateLimited = BreakerOpen, c.since, c.until, c.code, c.limited
	if c.trial || !p.now().Before(c.until) {
		s.Breaker = BreakerHalfOpen
	}
	return s
}
