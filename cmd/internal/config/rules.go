package config

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"tidings/dispatcher/plan"
	"tidings/streams/event"
)

// Planner returns what plans messages by the rules and templates. secret keys
// the hashes of recipients. Of a configuration that is valid there is one, unless
// the templates have changed since.
func (c Config) Planner(secret []byte) (*plan.Planner, error) { return c.compile(secret, "") }

// compile lets messages call the directory of templates folder.
func (c Config) compile(secret []byte, folder string) (*plan.Planner, error) {
	channels := map[string]plan.Channel{}
	for name, ch := range c.Channels {
		if ch != nil {
			channels[name] = plan.Channel{Kind: plan.Kind(ch.Kind), OnUnknown: event.OnUnknown(ch.Tuning.OnUnknown), Providers: c.providers(name)}
		}
	}
	rules := c.Rules
	rules.Tenants = map[string]plan.Overlay{}
	for name, tenant := range c.Tenants {
		if tenant != nil {
			rules.Tenants[name] = tenant.Overlay
		}
	}
	return plan.Compile(rules, templatesIn(c.Templates), plan.Options{Secret: secret, Channels: channels, Folder: folder, Read: readFile})
}

// providers returns the names of a channel's providers, first those that all have.
func (c Config) providers(channel string) (names []string) {
	add := func(ch *Channel) {
		for _, o := range ch.overrides("") {
			if !slices.Contains(names, o.Name) {
				names = append(names, o.Name)
			}
		}
	}
	add(c.Channels[channel])
	for _, tenant := range slices.Sorted(maps.Keys(c.Tenants)) {
		if t := c.Tenants[tenant]; t != nil && t.Channels[channel] != nil {
			add(&t.Channels[channel].Channel)
		}
	}
	return names
}

// templatesIn returns the directory of templates; none is an empty one.
func templatesIn(path string) fs.FS {
	if path == "" {
		return embed.FS{}
	}
	return os.DirFS(path)
}

// validateRules asks the planner itself; making one starts nothing.
func (c Config) validateRules(ps *Problems) {
	_, err := c.compile([]byte("any"), c.Templates)
	problems, _ := errors.AsType[plan.Problems](err)
	for _, p := range problems {
		switch {
		case p.Key != "":
			ps.add(p.Key, "%s%s", within(p), p.Text)
		case p.File == c.Templates:
			ps.add("templates", "%s: %s", p.File, p.Text)
		default:
			file, _ := strings.CutSuffix(p.String(), ": "+p.Text) // with line and column
			ps.add(file, "%s", p.Text)
		}
	}
}

// within says which route a problem is about, and where in an expression.
func within(p plan.Problem) string {
	text := ""
	if p.Route != "" {
		text = fmt.Sprintf("route %q: ", p.Route)
	}
	if p.Line > 0 {
		text += fmt.Sprintf("at %d:%d of the expression: ", p.Line, p.Column)
	}
	return text
}
