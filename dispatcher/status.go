package dispatcher

import (
	"maps"
	"slices"
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

// ChannelStatus is how a channel is doing.
type ChannelStatus struct {
	Channel string    `json:"channel"`
	Breaker Breaker   `json:"breaker"`
	Since   time.Time `json:"since,omitzero"` // it is not closed
	Until   time.Time `json:"until,omitzero"` // no call is made
	Code    string    `json:"code,omitempty"` // of the call that opened it, or of the last that was let through
	// RateLimited says that the provider asked for it.
	RateLimited bool   `json:"rate_limited,omitempty"`
	Calls       int    `json:"calls"`       // under way
	Stuck       int    `json:"stuck"`       // of these, past their time
	InHand      int    `json:"in_hand"`     // events that may call
	Line        int    `json:"line"`        // events that wait in hand for a moment
	Aside       int    `json:"aside"`       // events that were set aside, as a moment ago
	Throttled   uint64 `json:"throttled"`   // calls since the start that waited for the rate
	Concurrency int    `json:"concurrency"` // calls at a time, at most
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
	for _, name := range slices.Sorted(maps.Keys(d.channels)) {
		c := d.channels[name].status()
		c.Channel, c.Aside = name, aside[name]
		s.Channels = append(s.Channels, c)
	}
	if why := d.paused(); why != "" {
		s.Trouble = "paused: " + why
	}
	return s
}

func (o *outlet) status() ChannelStatus {
	s := ChannelStatus{
		Breaker: BreakerClosed, Calls: int(o.calls.Load()), Stuck: int(o.stuck.Load()), InHand: int(o.taken.Load()),
		Line: int(o.line.Load()), Throttled: o.late.Load(), Concurrency: o.Policy.Concurrency,
	}
	o.breaker.mu.Lock()
	defer o.breaker.mu.Unlock()
	c := &o.breaker.circuit
	if c.closed() {
		return s
	}
	s.Breaker, s.Since, s.Until, s.Code, s.RateLimited = BreakerOpen, c.since, c.until, c.code, c.limited
	if c.trial || !o.now().Before(c.until) {
		s.Breaker = BreakerHalfOpen
	}
	return s
}
