package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/expr-lang/expr/types"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"

	"tidings/streams/event"
)

// Planner makes plans by compiled rules.
type Planner struct {
	o        Options
	base     *ruleset
	tenants  map[string]*ruleset // of those who have something of their own
	zones    *zones
	warnings []string
	revision string

	defaultLocale string
}

// route is a compiled Route.
type route struct {
	Route
	pattern                            pattern
	when, locale, timezone, recipients *expression
	to                                 []any // in the form that recipients yields
	channel                            Channel
	template                           *template // nil: there is none
}

// Revision returns the fingerprint of everything a plan depends on beside the
// event and the secret: the same revision makes the same plans.
func (p *Planner) Revision() string { return p.revision }

// Need is a channel on which an event may have messages.
type Need struct {
	Channel   string
	Providers []string // those that are used, in order; nil: as the channel has them
	Held      bool     // some of them are held, not sent again, when their fate is unknown
}

// Needs returns the channels on which an event of a tenant and type may have messages,
// in the order of the routes.
func (p *Planner) Needs(tenant, typ string) []Need {
	var needs []Need
	routes := p.of(tenant).routes
	for i := range routes {
		r := &routes[i]
		if !r.pattern.matches(typ) {
			continue
		}
		held := r.channel.onUnknown(r.OnUnknown) == event.Hold
		j := slices.IndexFunc(needs, func(n Need) bool { return n.Channel == r.Channel && slices.Equal(n.Providers, r.Providers) })
		if j < 0 {
			needs = append(needs, Need{Channel: r.Channel, Providers: r.Providers, Held: held})
		} else {
			needs[j].Held = needs[j].Held || held
		}
	}
	return needs
}

// Providers returns which providers of its channel a route uses, in order; nil: as
// the channel has them, or there is no such route.
func (p *Planner) Providers(tenant, route string) []string {
	if r := p.of(tenant).route(route); r != nil {
		return r.Providers
	}
	return nil
}

// Warnings returns what is allowed but hardly meant: routes whose template does
// not exist, so that their events end with no_template.
func (p *Planner) Warnings() []string { return slices.Clone(p.warnings) }

// Compile checks rules and templates and returns what plans by them. The
// templates' folders are at the root of templates, which may be nil. The error
// is [Problems]: everything that is wrong.
func Compile(rules Rules, templates fs.FS, o Options) (*Planner, error) {
	c := &compiler{rules: rules, o: o.withDefaults(), schemas: map[string]*jsonschema.Schema{}, contents: map[string]string{}}
	if c.rules.DefaultLocale == "" {
		c.rules.DefaultLocale = "en"
	}
	if len(o.Secret) == 0 {
		c.add(Problem{Key: "secret", Text: "is empty: the hashes of recipients need a key"})
	}
	if _, err := language.Parse(c.rules.DefaultLocale); err != nil {
		c.add(Problem{Key: "default_locale", Text: noLanguage})
		c.rules.DefaultLocale = "en" // to look at the rest
	}
	c.loadShared(templates)
	c.templates = c.loadTemplates(templates)
	p := &Planner{o: c.o, zones: &c.zones, defaultLocale: c.rules.DefaultLocale, base: c.baseRules(), tenants: map[string]*ruleset{}}
	for _, tenant := range slices.Sorted(maps.Keys(rules.Tenants)) {
		p.tenants[tenant] = c.overlay(tenant, p.base)
	}
	if err := c.problems.unique().err(); err != nil {
		return nil, err
	}
	p.warnings, p.revision = c.warnings, c.revision()
	return p, nil
}

// compiler collects what is wrong on the way.
type compiler struct {
	rules     Rules
	o         Options
	templates map[string]*template
	shared    map[string][]sharedFile // by ending
	zones     zones
	schemas   map[string]*jsonschema.Schema // by file
	contents  map[string]string             // their digests
	problems  Problems
	warnings  []string
}

func (c *compiler) add(p Problem) { c.problems = append(c.problems, p) }

// folder returns the name by which messages call a template's file or folder.
func (o Options) folder(name ...string) string {
	return path.Join(append([]string{o.Folder}, name...)...)
}

func (p *Planner) folder(name string) string { return p.o.folder(name) }

// route compiles a route, whose keys begin with key.
func (c *compiler) route(key string, source Route, env types.Map) route {
	r := route{Route: source}
	at := func(name, format string, args ...any) {
		c.add(Problem{Key: key + "." + name, Route: source.Name, Text: fmt.Sprintf(format, args...)})
	}
	var err error
	if r.pattern, err = parsePattern(source.Event); err != nil {
		at("event", "%v", err)
	}
	c.expressions(key, &r, env)
	r.to = c.fixed(key+".to", source.To)
	if source.Recipients == "" && len(source.To) == 0 {
		at("recipients", "is empty: give an expression such as data.customer.email, or a list of addresses in to")
	}
	switch source.OnUnknown {
	case "", event.Resend, event.Hold:
	default:
		at("on_unknown", "%q is neither resend nor hold", source.OnUnknown)
	}
	switch source.OnTemplateError {
	case "", DeadLetter, Degrade:
	default:
		at("on_template_error", "%q is neither dead_letter nor degrade", source.OnTemplateError)
	}
	if source.Category != "" && !category.MatchString(source.Category) {
		at("category", "a category has 1 to 32 of the characters a-z, 0-9, - and _")
	}
	known := false
	if r.channel, known = c.o.Channels[source.Channel]; !known {
		at("channel", "there is no channel %q: %s", source.Channel, listed("channels", maps.Keys(c.o.Channels)))
		return r
	}
	c.delivery(&r, at)
	c.words(&r, at)
	return r
}

// delivery checks what depends on the route's channel.
func (c *compiler) delivery(r *route, at func(string, string, ...any)) {
	for i, name := range r.Providers {
		switch {
		case !slices.Contains(r.channel.Providers, name):
			at(fmt.Sprintf("providers[%d]", i), "channel %q has no provider %q: %s", r.Channel, name, listed("providers", slices.Values(r.channel.Providers)))
		case slices.Contains(r.Providers[:i], name):
			at(fmt.Sprintf("providers[%d]", i), "%q is there twice", name)
		}
	}
	for i, one := range r.to {
		address, _, _ := recipient(one)
		if _, ok := r.channel.Kind.address(address); !ok {
			at(fmt.Sprintf("to[%d]", i), "is not %s, which channel %q needs", r.channel.Kind.inWords(), r.Channel)
		}
	}
}

// name checks the name of a route that comes after others.
func (c *compiler) name(key, name string, before []Route) {
	if !routeName.MatchString(name) {
		c.add(Problem{Key: key + ".name", Route: name, Text: "must have 1 to 64 letters, digits, dots, dashes and underscores, and begin with a letter or digit"})
		return
	}
	if j := slices.IndexFunc(before, func(r Route) bool { return r.Name == name }); j >= 0 {
		c.add(Problem{Key: key + ".name", Route: name, Text: fmt.Sprintf("routes[%d] has this name already: ids of messages need it to be unique", j)})
	}
}

func (c *compiler) expressions(key string, r *route, env types.Map) {
	r.when = c.expression(key, "when", r, r.When, env, reflect.Bool)
	r.locale = c.expression(key, "locale", r, r.Locale, env, reflect.String)
	r.timezone = c.expression(key, "timezone", r, r.Timezone, env, reflect.String)
	r.recipients = c.expression(key, "recipients", r, r.Recipients, env, reflect.String, reflect.Slice, reflect.Map)
}

func (c *compiler) expression(key, name string, r *route, source string, env types.Map, results ...reflect.Kind) *expression {
	x, problem := compileExpression(name, source, env, results...)
	if problem != nil {
		problem.Key, problem.Route = key+"."+name, r.Name
		c.add(*problem)
	}
	if x != nil {
		x.account(env)
	}
	return x
}

// words finds the route's template and checks that it suits the channel.
func (c *compiler) words(r *route, at func(string, string, ...any)) {
	if r.Template == "" {
		if r.channel.Kind != Webhook {
			at("template", "is empty: only a webhook can do without")
		}
		return
	}
	t, ok := c.templates[r.Template]
	if !ok {
		c.warnings = append(c.warnings, fmt.Sprintf("route %q: %s has no template, so nothing is sent", r.Name, c.o.folder(r.Template)))
		return
	}
	if lack := r.channel.Kind.lacks(t); lack != "" {
		at("template", "%s has no %s, which channel %q needs", c.o.folder(r.Template), lack, r.Channel)
	}
	r.template = t
}

func listed(what string, names func(func(string) bool)) string {
	sorted := slices.Sorted(names)
	if len(sorted) == 0 {
		return "there are no " + what
	}
	return "the " + what + " are " + strings.Join(sorted, ", ")
}

// revision is a hash over the rules, the templates and the options, without the
// secret.
func (c *compiler) revision() string {
	versions := map[string]string{}
	for name, t := range c.templates {
		versions[name] = t.version
	}
	content, err := json.Marshal([]any{c.rules, c.contents, versions, c.o.Channels, c.o.MaxMessages, c.o.MaxOutput})
	if err != nil {
		panic(err) // plain data
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:8])
}
