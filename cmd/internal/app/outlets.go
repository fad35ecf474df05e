package app

import (
	"errors"
	"fmt"

	"tidings/cmd/internal/config"
	"tidings/dispatcher"
	"tidings/dispatcher/channel"
	"tidings/dispatcher/channel/email"
	"tidings/dispatcher/channel/webhook"
	"tidings/dispatcher/plan"
	"tidings/streams/event"
)

// outlets are what the configuration says about messages: who gets which, on
// which channel, and who gets none.
type outlets struct {
	config       config.Config
	planner      *plan.Planner
	channels     map[string]dispatcher.Channel
	tenants      map[string]dispatcher.Tenant
	suppressions dispatcher.SuppressionList
	senders      *senders
	held         []*heldSender
}

func newOutlets(c config.Config, dir *directory, senders *senders) (_ *outlets, err error) {
	secret, err := dir.secret(recipientsKey, "restore it from a backup; without it recipients cannot be recognised")
	if err != nil {
		return nil, err
	}
	o := &outlets{config: c, channels: map[string]dispatcher.Channel{}, tenants: map[string]dispatcher.Tenant{}, senders: senders}
	defer func() {
		if err != nil {
			err = errors.Join(err, o.close())
		}
	}()
	for name, ch := range c.Channels {
		if o.channels[name], err = o.channel(name, ch, c.Policy); err != nil {
			return nil, fmt.Errorf("channels.%s: %w", name, err)
		}
	}
	for tenant, t := range c.Tenants {
		if t == nil {
			continue
		}
		own := dispatcher.Tenant{Channels: map[string]dispatcher.Channel{}}
		for name, ch := range t.Channels {
			if own.Channels[name], err = o.channel(name, &ch.Channel, c.Policy); err != nil {
				return nil, fmt.Errorf("tenants.%s.channels.%s: %w", tenant, name, err)
			}
		}
		o.tenants[tenant] = own
	}
	for _, s := range c.Suppressions {
		o.suppressions = append(o.suppressions, dispatcher.Suppression{
			Tenant: s.Tenant, Channel: s.Channel, Reason: s.Reason, Recipient: event.NewRecipient(secret, s.Address),
		})
	}
	o.planner, err = c.Planner(secret)
	return o, err
}

// setup is what the dispatcher works by.
func (o *outlets) setup() dispatcher.Setup {
	return dispatcher.Setup{
		Planner: o.planner, Channels: o.channels, Tenants: o.tenants, Suppressions: o.suppressions,
		Staleness: o.config.Staleness.Std(), Crashes: o.config.Policy.Crashes,
	}
}

// channel makes the senders of a channel, one for each provider.
func (o *outlets) channel(name string, ch *config.Channel, base config.Policy) (dispatcher.Channel, error) {
	c := dispatcher.Channel{Policy: channelPolicy(base, ch)}
	providers := ch.Providers
	if len(providers) == 0 {
		providers = []*config.Override{{Name: name, Channel: *ch}}
	}
	for _, p := range providers {
		sender, err := o.senders.get(p.Channel)
		if err != nil {
			return c, err
		}
		o.held = append(o.held, sender)
		c.Providers = append(c.Providers, dispatcher.Provider{Name: p.Name, Sender: sender.Sender, Policy: channelPolicy(base, &p.Channel)})
	}
	return c, nil
}

func channelPolicy(base config.Policy, ch *config.Channel) dispatcher.Policy {
	policy := policyOf(base, ch.Tuning)
	if ch.Email != nil && policy.Concurrency == 0 {
		policy.Concurrency = mailConnections
	}
	return policy
}

// mailConnections is how many connections a mail server gets at a time: servers
// refuse more, and each is a mail in doubt if the process is killed.
const mailConnections = 16

func newSender(c config.Channel) (channel.Sender, error) {
	timeout := c.Tuning.Timeout.Std()
	if c.Email != nil {
		return email.New(c.Email.Config(timeout))
	}
	return webhook.New(c.Webhook.Config(timeout))
}

func policyOf(base config.Policy, t config.Tuning) dispatcher.Policy {
	p := t.Policy(base)
	out := dispatcher.Policy{
		Tries: p.Tries, Base: p.Base.Std(), Factor: p.Factor,
		Timeout: t.Timeout.Std(), Concurrency: t.Concurrency, DeadLetterPermanent: t.DeadLetterPermanent,
		Rate: t.Rate.PerSecond(), Burst: t.Burst, Failures: t.Breaker.Failures, OpenFor: t.Breaker.OpenFor.Std(),
	}
	for _, r := range p.Rounds {
		out.Rounds = append(out.Rounds, r.Std())
	}
	return out
}

// close gives its senders back. It is called once, when nobody sends by them any more.
func (o *outlets) close() error { return o.senders.release(o.held) }
