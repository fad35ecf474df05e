package config

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"tidings/streams/event"
)

// Problem is one thing that is wrong with a configuration.
type Problem struct {
	Key     string `json:"key,omitempty"`    // such as api.listen or routes[2].when; of a template its file
	Place   string `json:"place,omitempty"`  // where the configuration file has it, such as tidings.yaml:7; empty if it does not
	Column  int    `json:"column,omitempty"` // on that line; 0 where Place says it or has none
	Message string `json:"message"`          // what to do about it; never holds a secret
}

// String is the problem as one line.
func (p Problem) String() string {
	text := p.Message
	if p.Key != "" {
		text = p.Key + ": " + text
	}
	if p.Place != "" {
		text = p.Place + ": " + text
	}
	return text
}

// Exact is where the problem is with everything that is known of it: file, line and
// column.
func (p Problem) Exact() string {
	if p.Column > 0 {
		return fmt.Sprintf("%s:%d", p.Place, p.Column)
	}
	return p.Place
}

// Problems is everything that is wrong with a configuration, and an error.
type Problems []Problem

// Error lists the problems, one a line.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

func (ps *Problems) add(key, format string, args ...any) {
	*ps = append(*ps, Problem{Key: key, Message: fmt.Sprintf(format, args...)})
}

func (ps *Problems) choice(key, value string, choices ...string) {
	if !slices.Contains(choices, value) {
		ps.add(key, "%q is not one of %s", value, strings.Join(choices, ", "))
	}
}

// longest bounds how long rate limits may make an event wait in a generation,
// and how far clocks and projections may lag: both are part of the horizon.
const (
	longestDeferral = 24 * time.Hour
	horizonMargin   = 24 * time.Hour
	longestTimeout  = 30 * time.Second // of a call: it must fit in a lease
	longestOpen     = time.Hour        // of a breaker
)

// Validate returns nil, or everything that is wrong as [Problems]. It reads the
// templates.
func (c Config) Validate() error {
	var ps Problems
	if c.Data == "" {
		ps.add("data", "is empty: name a directory")
	}
	c.API.validate(&ps)
	c.validateSources(&ps)
	c.NATS.validate(&ps)
	c.validateStreams(&ps)
	c.validateIdentity(&ps)
	c.Policy.validate(&ps, "policy")
	if c.MaxWaiting < 1 {
		ps.add("max_waiting", "must be more than 0")
	}
	c.validateChannels(&ps)
	c.validateHorizon(&ps)
	c.validateSuppressions(&ps)
	c.validateRules(&ps)
	if len(ps) == 0 {
		return nil
	}
	for i := range ps {
		ps[i].Place, ps[i].Column = c.where.of(ps[i].Key)
	}
	return ps
}

func (a API) validate(ps *Problems) {
	host, ok := listenHost(ps, "api.listen", a.Listen)
	if !ok {
		return
	}
	if !loopback(host) && a.Token == "" {
		ps.add("api.listen", "%s can be reached from other machines: set api.token or api.token_file, or listen on 127.0.0.1", a.Listen)
	}
	if a.Token != "" && len(a.Token) < 16 {
		ps.add("api.token", "is shorter than 16 characters, so it can be guessed")
	}
}

// listenHost returns the host of an address to listen on, false if it is none.
func listenHost(ps *Problems, key, address string) (string, bool) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		ps.add(key, "%q is not host:port", address)
		return "", false
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		ps.add(key, "%q is not a port", port)
	}
	return host, true
}

// loopback reports whether host is this machine alone. An empty host is every
// interface.
func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

func (n NATS) validate(ps *Problems) {
	if n.URL != "" {
		for part := range strings.SplitSeq(n.URL.Reveal(), ",") {
			validateURL(ps, "nats.url", strings.TrimSpace(part), "nats", "tls", "ws", "wss")
		}
	}
	n.validateFollowers(ps)
	ps.choice("nats.durability", n.Durability, DurabilityStrict, DurabilityRelaxed)
	switch {
	case n.Replicas < 1 || n.Replicas > 5:
		ps.add("nats.replicas", "%d is not between 1 and 5", n.Replicas)
	case n.Replicas > 1 && n.URL == "":
		ps.add("nats.replicas", "%d replicas need a cluster: set nats.url", n.Replicas)
	}
}

// validateURL says nothing of the value, which may hold a password.
func validateURL(ps *Problems, key, value string, schemes ...string) {
	u, err := url.Parse(value)
	if err != nil || u.Host == "" || !slices.Contains(schemes, u.Scheme) {
		ps.add(key, "is not a URL that begins with %s:// and names a host (a password in it must be percent-encoded)",
			strings.Join(schemes, ":// or "))
	}
}

// leastStream is what a stream must hold: some of the largest events.
const leastStream = 64 << 20

func (c Config) validateStreams(ps *Problems) {
	for key, s := range map[string]Stream{
		"events": c.Events.Stream, "outcomes": c.Outcomes, "dead_letters": c.DeadLetters, "oversize": c.Oversize,
	} {
		if s.MaxBytes < leastStream {
			ps.add(key+".max_bytes", "%s is less than %s", s.MaxBytes, Size(leastStream))
		}
	}
	if c.Events.Keep < 0 {
		ps.add("events.keep", "is negative")
	}
}

func (c Config) validateIdentity(ps *Problems) {
	sorted := slices.Sorted(slices.Values(c.Identity))
	if !slices.Equal(sorted, []string{"id", "source", "tenant"}) && !slices.Equal(sorted, []string{"id", "tenant"}) {
		ps.add("identity", "must be [tenant, source, id] or [tenant, id]")
	}
	ps.choice("missing_id", c.MissingID, MissingDerive, MissingQuarantine)
}

func (p Policy) validate(ps *Problems, key string) {
	if p.Tries < 1 || p.Tries > 100 {
		ps.add(key+".tries", "%d is not between 1 and 100", p.Tries)
	}
	if p.Base <= 0 {
		ps.add(key+".base", "must be more than 0")
	}
	if p.Factor < 1 || p.Factor > 100 {
		ps.add(key+".factor", "%g is not between 1 and 100", p.Factor)
	}
	if p.Crashes < 1 || p.Crashes > 100 {
		ps.add(key+".crashes", "%d is not between 1 and 100", p.Crashes)
	}
	for i, r := range p.Rounds {
		if r <= 0 || r > Duration(7*24*time.Hour) {
			ps.add(fmt.Sprintf("%s.rounds[%d]", key, i), "%s is not between 1ns and 168h", r)
		}
	}
}

func (c Config) validateChannels(ps *Problems) {
	for _, name := range slices.Sorted(maps.Keys(c.Channels)) {
		key := "channels." + name
		channel := c.Channels[name]
		if channel == nil {
			ps.add(key, "is empty: set kind to email or webhook")
			continue
		}
		if !validName(name) {
			ps.add(key, "a channel's name has 1 to 64 of the characters a-z, 0-9, - and _")
		}
		channel.validate(ps, key, c.Policy)
	}
	c.validateTenants(ps)
}

func (c *Channel) validate(ps *Problems, key string, base Policy) {
	c.Tuning.validate(ps, key, base)
	for i, o := range c.Providers {
		key := fmt.Sprintf("%s.providers[%d]", key, i)
		switch {
		case o == nil || !validName(o.Name):
			ps.add(key+".name", "a provider's name has 1 to 64 of the characters a-z, 0-9, - and _")
			continue
		case slices.ContainsFunc(c.Providers[:i], func(p *Override) bool { return p != nil && p.Name == o.Name }):
			ps.add(key+".name", "there is a provider %q before this one", o.Name)
		}
		o.Channel.validate(ps, key, base)
	}
	switch {
	case len(c.Providers) > 0: // what the channel has beside is theirs
	case c.Email != nil:
		c.Email.validate(ps, key)
	case c.Webhook != nil:
		c.Webhook.validate(ps, key)
	}
}

// validateTenants looks at the channels that tenants have of their own.
func (c Config) validateTenants(ps *Problems) {
	for _, tenant := range slices.Sorted(maps.Keys(c.Tenants)) {
		if c.Tenants[tenant] == nil {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(c.Tenants[tenant].Channels)) {
			key, o := "tenants."+tenant+".channels."+name, c.Tenants[tenant].Channels[name]
			switch {
			case c.Channels[name] == nil:
				ps.add(key, "there is no channel %q whose keys could be other ones", name)
			case o == nil || len(o.keys) == 0:
				ps.add(key, "is empty: give the keys that are the tenant's own, such as from")
			default:
				o.validateIdentity(ps, key)
				o.Channel.validate(ps, key, c.Policy)
			}
		}
	}
}

// validateIdentity sees to it that nobody logs in with another's password.
func (o *Override) validateIdentity(ps *Problems, key string) {
	e := o.Channel.Email
	if e == nil || o.gives("providers") {
		return
	}
	switch {
	case o.gives("username") && e.Username != "" && !o.gives("password"):
		ps.add(key+".password", "is missing: a user name of the tenant's own needs a password of its own")
	case o.gives("host") && e.Username != "" && !o.gives("username"):
		ps.add(key+".username", "is missing: a server of the tenant's own is not told the password of all; set username and password, or username: \"\"")
	}
}

func validName(name string) bool {
	for _, r := range name {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_' {
			return false
		}
	}
	return name != "" && len(name) <= 64
}

func (t Tuning) validate(ps *Problems, key string, base Policy) {
	var own Problems
	t.Policy(base).validate(&own, key)
	var inherited Problems
	base.validate(&inherited, key)
	for _, p := range own {
		if !slices.Contains(inherited, p) { // said once, of the policy
			*ps = append(*ps, p)
		}
	}
	if t.OnUnknown != "" {
		ps.choice(key+".on_unknown", t.OnUnknown, string(event.Resend), string(event.Hold))
	}
	if t.Timeout < 0 || t.Timeout.Std() > longestTimeout {
		ps.add(key+".timeout", "%s is not between 0 and %s, which is what fits in a lease", t.Timeout, Duration(longestTimeout))
	}
	if t.Concurrency < 0 || t.Concurrency > 10_000 {
		ps.add(key+".concurrency", "%d is not between 0 and 10000", t.Concurrency)
	}
	t.validateLimits(ps, key)
}

func (t Tuning) validateLimits(ps *Problems, key string) {
	if t.Burst < 0 || t.Burst > 10_000 {
		ps.add(key+".burst", "%d is not between 0 and 10000", t.Burst)
	}
	if t.Burst > 0 && t.Rate == "" {
		ps.add(key+".burst", "is of a rate, and there is none: set rate")
	}
	if t.Breaker.Failures < 0 {
		ps.add(key+".breaker.failures", "must not be negative; 0 is the default")
	}
	if t.Breaker.OpenFor < 0 || t.Breaker.OpenFor.Std() > longestOpen {
		ps.add(key+".breaker.open_for", "%s is not between 0 and %s", t.Breaker.OpenFor, Duration(longestOpen))
	}
}

// longestRounds returns the longest time that the rounds of a channel may take.
func (c Config) longestRounds() time.Duration {
	longest := c.Policy.Total()
	for _, channel := range c.senders() {
		longest = max(longest, channel.Tuning.Policy(c.Policy).Total())
	}
	return longest
}

func (c Config) validateHorizon(ps *Problems) {
	if c.Staleness < 0 {
		ps.add("staleness", "must not be negative; 0 switches the check off")
	}
	if c.Horizon < 0 {
		ps.add("horizon", "must not be negative; 0 remembers for ever")
	}
	if c.Horizon <= 0 || c.Staleness < 0 {
		return
	}
	if c.Staleness == 0 {
		if !c.AcceptDuplicates {
			ps.add("staleness", "0 with a horizon of %s sends an event again that comes back after it: set horizon to 0, "+
				"or accept_duplicates_after_horizon to true", c.Horizon)
		}
		return
	}
	need := c.Staleness.Std() + c.longestRounds() + longestDeferral + horizonMargin
	if c.Horizon.Std() < need {
		ps.add("horizon", "%s is too short: an event may still be retried or come back for %s "+
			"(staleness %s + rounds %s + deferral %s + margin %s)",
			c.Horizon, Duration(need), c.Staleness, Duration(c.longestRounds()),
			Duration(longestDeferral), Duration(horizonMargin))
	}
}

func (c Config) validateSuppressions(ps *Problems) {
	for i, s := range c.Suppressions {
		key := fmt.Sprintf("suppressions[%d]", i)
		if strings.TrimSpace(s.Address) == "" {
			ps.add(key+".address", "is empty: a suppression needs the address that gets nothing")
		}
		if _, known := c.Channels[s.Channel]; s.Channel != "" && !known {
			ps.add(key+".channel", "there is no channel %q", s.Channel)
		}
	}
}
