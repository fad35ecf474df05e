package dispatcher

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"tidings/dispatcher/channel"
)

// Channel is a way out: who sends, and how patiently.
type Channel struct {
	// Sender is short for one provider with the name and the policy of the channel.
	Sender channel.Sender
	// Providers are asked in this order: the next one when the breaker of one is open,
	// or when it did not take a message for reasons of its own.
	Providers []Provider
	Policy    Policy
}

// Provider is one of those who can take the messages of a channel.
type Provider struct {
	Name   string // what records and status call it
	Sender channel.Sender
	// Policy bounds the calls of this provider: of its fields Timeout, Concurrency,
	// Rate, Burst, Failures and OpenFor count. The others are of the channel.
	Policy Policy
}

// Tenant is what one tenant has of its own.
type Tenant struct {
	// Channels take the place of those of the same name, with everything that they
	// have: senders, breakers and bounds.
	Channels map[string]Channel
}

// check says what a channel lacks.
func (c Channel) check() error {
	if c.Sender == nil && len(c.Providers) == 0 {
		return errors.New("has no sender")
	}
	for i, p := range c.Providers {
		switch {
		case p.Sender == nil:
			return fmt.Errorf("has no sender for its provider %q", p.Name)
		case slices.ContainsFunc(c.Providers[:i], func(other Provider) bool { return other.Name == p.Name }):
			return fmt.Errorf("has two providers %q", p.Name)
		}
	}
	return nil
}

// withDefaults returns the channel with at least one provider, and so many tries in
// a round that each can be asked.
func (c Channel) withDefaults(name string) Channel {
	if len(c.Providers) == 0 {
		c.Providers = []Provider{{Name: name, Sender: c.Sender, Policy: c.Policy}}
	}
	c.Policy = c.Policy.withDefaults()
	c.Policy.Tries = max(c.Policy.Tries, len(c.Providers))
	return c
}

// Policy bounds what is done for one message on a channel. Zero fields have the
// defaults named with them.
type Policy struct {
	Tries  int           // calls in one round, the first at once; 3, and no fewer than there are providers
	Base   time.Duration // pause after the first call; 200 ms
	Factor float64       // by which the pause grows; 2
	// Rounds are the waits before each further round. Empty means one round.
	Rounds []time.Duration
	// Timeout bounds one call; 10 s, at most 30 s, so that it fits in a lease.
	Timeout time.Duration
	// Concurrency is how many calls the channel has under way at most; 64. Where
	// messages of unknown fate are held, it is also how many events may be claimed
	// for it at a time, and so how many a killed process leaves in doubt.
	Concurrency int
	// Rate is how many calls are made in a second at most, and Burst how many of them
	// at once; no bound and 1.
	Rate  float64
	Burst int
	// Failures is how many failures in a row shut the channel; 5. A failure is a
	// transient result or an unknown end, not a refusal for good. As many rate
	// limits in a row shut it too, for as long as the provider asks.
	Failures int
	// OpenFor is how long it is shut before one call is let through; 30 s. That
	// doubles each time that the call fails, up to 5 min.
	OpenFor time.Duration
	// DeadLetterPermanent makes a dead letter of an event that a provider refused
	// for good. Without it such a refusal is only recorded.
	DeadLetterPermanent bool
}

func (p Policy) withDefaults() Policy {
	if p.Tries <= 0 {
		p.Tries = 3
	}
	if p.Base <= 0 {
		p.Base = 200 * time.Millisecond
	}
	if p.Factor < 1 {
		p.Factor = 2
	}
	if p.Timeout <= 0 {
		p.Timeout = 10 * time.Second
	}
	p.Timeout = min(p.Timeout, 30*time.Second)
	if p.Concurrency <= 0 {
		p.Concurrency = 64
	}
	if p.Burst <= 0 {
		p.Burst = 1
	}
	if p.Failures <= 0 {
		p.Failures = 5
	}
	if p.OpenFor <= 0 {
		p.OpenFor = 30 * time.Second
	}
	return p
}

// longestPause bounds what is slept in process between two tries of a round.
// Longer waits are wake-ups, so that they hold nothing.
const longestPause = 5 * time.Second

// pause returns how long to wait after the given number of tries in a round:
// base × factor^(tries-1), up to longestPause.
func (p Policy) pause(tries int) time.Duration {
	if tries <= 0 {
		return 0
	}
	d := float64(p.Base) * math.Pow(p.Factor, float64(tries-1))
	return time.Duration(min(d, float64(longestPause)))
}

// jitter spreads a pause by ± 20 %, so that messages that failed together do not
// return together.
func (d *Dispatcher) jitter(pause time.Duration) time.Duration {
	if d.steady {
		return pause
	}
	return time.Duration(float64(pause) * (0.8 + 0.4*rand.Float64()))
}
