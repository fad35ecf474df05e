package app

import (
	"errors"
	"fmt"
	"io"
	"log/slog"

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
	planner      *plan.Planner
	channels     map[string]dispatcher.Channel
	tenants      map[string]dispatcher.Tenant
	suppressions dispatcher.SuppressionList
	closers      []io.Closer
}

func newOutlets(c config.Config, dir *directory, logger *slog.Logger) (outlets, error) {
	secret, err := dir.secret(recipientsKey, "restore it from a backup; without it recipients cannot be recognised")
	if err != nil {
		return outlets{}, err
	}
	o := outlets{channels: map[string]dispatcher.Channel{}, tenants: map[string]dispatcher.Tenant{}}
	for name, ch := range c.Channels {
		if o.channels[name], err = o.channel(name, ch, c.Policy); err != nil {
			return o, errors.Join(fmt.Errorf("channels.%s: %w", name, err), o.close())
		}
	}
	for tenant, t := range c.Tenants {
		own := dispatcher.Tenant{Channels: map[string]dispatcher.Channel{}}
		for name, ch := range t.Channels {
			if own.Channels[name], err = o.channel(name, &ch.Channel, c.Policy); err != nil {
				return o, errors.Join(fmt.Errorf("tenants.%s.channels.%s: %w", tenant, name, err), o.close())
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
	if err != nil {
		return o, errors.Join(err, o.close())
	}
	for _, w := range o.planner.Warnings() {
		logger.Warn(w)
	}
	return o, nil
}

// channel makes the senders of a channel, one for each provider.
func (o *outlets) channel(name string, ch *config.Channel, base config.Policy) (dispatcher.Channel, error) {
	c := dispatcher.Channel{Policy: channelPolicy(base, ch)}
	providers := ch.Providers
	if len(providers) == 0 {
		providers = []*config.Override{{Name: name, Channel: *ch}}
	}
	for _, p := range providers {
		sender, err := newSender(p.Channel)
		if err != nil {
			return c, err
		}
		if closer, ok := sender.(io.Closer); ok {
			o.closers = append(o.closers, closer)
		}
		c.Providers = append(c.Providers, dispatcher.Provider{Name: p.Name, Sender: sender, Policy: channelPolicy(base, &p.Channel)})
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

func (o outlets) close() error {
	var errs []error
	for _, c := range o.closers {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}
