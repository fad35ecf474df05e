package config

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"tidings/dispatcher/channel/email"
	"tidings/dispatcher/channel/webhook"
)

// The values of an email channel's tls.
const (
	TLSStart         = "starttls" // no mail without; what empty means
	TLSOpportunistic = "opportunistic"
	TLSImplicit      = "implicit" // from the first byte
	TLSNone          = "none"
)

// Config returns what makes the sender of the channel, whose calls take at most
// timeout; 0 leaves it to the sender.
func (e Email) Config(timeout time.Duration) email.Config {
	c := email.Config{
		Host: e.Host, Port: e.Port, CAFile: e.CAFile, HELO: e.HELO, Timeout: timeout,
		Username: e.Username, Password: e.Password.Reveal(), Auth: email.Auth(e.Auth),
		From: e.From, ReplyTo: e.ReplyTo,
	}
	switch e.TLS {
	case TLSImplicit:
		c.ImplicitTLS = true
	case TLSOpportunistic:
		c.StartTLS = email.Opportunistic
	case TLSNone:
		c.StartTLS = email.None
	default:
		c.StartTLS = email.Mandatory
	}
	return c
}

// Config returns what makes the sender of the channel, whose calls take at most
// timeout; 0 leaves it to the sender.
func (w Webhook) Config(timeout time.Duration) webhook.Config {
	c := webhook.Config{
		Secrets: strings.Fields(w.Secret.Reveal()), AllowPrivate: w.AllowPrivate,
		Timeout: timeout, MaxResponse: w.MaxResponse, CAFile: w.CAFile, UserAgent: w.UserAgent,
	}
	for _, text := range w.AllowedCIDRs {
		if prefix, err := netip.ParsePrefix(text); err == nil {
			c.AllowedCIDRs = append(c.AllowedCIDRs, prefix)
		}
	}
	return c
}

// validate asks the sender itself what is wrong; making one starts nothing.
func (e Email) validate(ps *Problems, key string) {
	if e.TLS != "" {
		ps.choice(key+".tls", e.TLS, TLSStart, TLSOpportunistic, TLSImplicit, TLSNone)
	}
	if _, err := email.New(e.Config(0)); err != nil {
		ps.lines(key, err)
	}
}

func (w Webhook) validate(ps *Problems, key string) {
	for i, text := range w.AllowedCIDRs {
		if _, err := netip.ParsePrefix(text); err != nil {
			ps.add(fmt.Sprintf("%s.allowed_cidrs[%d]", key, i), "%q is not a network such as 10.0.0.0/8", text)
		}
	}
	if w.Secret == "" {
		ps.add(key+".secret", "is missing: set whsec_ and 24 to 64 random bytes in base64, such as whsec_$(openssl rand -base64 32)")
		return
	}
	sender, err := webhook.New(w.Config(0))
	if err != nil {
		ps.lines(key, err)
		return
	}
	_ = sender.Close() // it has no connection yet
}

// lines adds each line of an error that another package made of several.
func (ps *Problems) lines(key string, err error) {
	if inner := errors.Unwrap(err); inner != nil {
		err = inner // the rest only says what was made
	}
	for _, line := range slices.Sorted(strings.SplitSeq(err.Error(), "\n")) {
		ps.add(key, "%s", line)
	}
}
