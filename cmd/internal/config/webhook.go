package config

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"tidings/dispatcher/channel/webhook"
)

// Config returns what makes the sender of the channel, whose calls take at most
// timeout. It is to be validated before.
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

// validate leaves what the sender itself checks to the sender, where asking it
// starts nothing.
func (w Webhook) validate(ps *Problems, key string) {
	for i, text := range w.AllowedCIDRs {
		if _, err := netip.ParsePrefix(text); err != nil {
			ps.add(fmt.Sprintf("%s.allowed_cidrs[%d]", key, i), "%q is not a network such as 10.0.0.0/8", text)
		}
	}
	if w.Secret == "" {
		ps.add(key+".secret", "is missing: set %q and 24 to 64 random bytes in base64, such as whsec_$(openssl rand -base64 32)", "whsec_")
	}
}
