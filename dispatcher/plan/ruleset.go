package plan

import (
	"fmt"
	"maps"
	"slices"
	"time"
	_ "time/tzdata" // the same zones on every machine

	"github.com/expr-lang/expr/types"
	"golang.org/x/text/language"
)

// ruleset is what counts for the events of a tenant, or of those who have nothing of
// their own.
type ruleset struct {
	vars   map[string]string
	groups map[string][]any // in the form that expressions see
	routes []route
	locale string // the tenant's; empty: none
	zone   *time.Location

	contracts []contract
}

// of returns the rules for the events of a tenant.
func (p *Planner) of(tenant string) *ruleset {
	if r := p.tenants[tenant]; r != nil {
		return r
	}
	return p.base
}

func (r *ruleset) route(name string) *route {
	i := slices.IndexFunc(r.routes, func(x route) bool { return x.Name == name })
	if i < 0 {
		return nil
	}
	return &r.routes[i]
}

// names yields the names of the routes.
func (r *ruleset) names(yield func(string) bool) {
	for i := range r.routes {
		if !yield(r.routes[i].Name) {
			return
		}
	}
}

// types is what the expressions of the rules are checked against.
func (r *ruleset) types() types.Map { return environmentTypes(r.vars, r.groups) }

// baseRules compiles what counts for everybody.
func (c *compiler) baseRules() *ruleset {
	r := &ruleset{vars: maps.Clone(c.rules.Vars), groups: c.groups("groups", c.rules.Groups), zone: time.UTC}
	if c.rules.Timezone != "" {
		r.zone = c.zone("timezone", c.rules.Timezone)
	}
	r.contracts = c.contracts("contracts", c.rules.Contracts)
	for i, source := range c.rules.Routes {
		key := fmt.Sprintf("routes[%d]", i)
		c.name(key, source.Name, c.rules.Routes[:i])
		r.routes = append(r.routes, c.route(key, source, r.types()))
	}
	return r
}

// overlay compiles what counts for a tenant, on top of what counts for everybody.
func (c *compiler) overlay(tenant string, base *ruleset) *ruleset {
	o, key := c.rules.Tenants[tenant], "tenants."+tenant
	r := &ruleset{vars: maps.Clone(base.vars), groups: maps.Clone(base.groups), locale: o.DefaultLocale, zone: base.zone}
	r.vars, r.groups = over(r.vars, o.Vars), over(r.groups, c.groups(key+".groups", o.Groups))
	if _, err := language.Parse(o.DefaultLocale); o.DefaultLocale != "" && err != nil {
		c.add(Problem{Key: key + ".default_locale", Text: noLanguage})
	}
	if o.Timezone != "" {
		r.zone = c.zone(key+".timezone", o.Timezone)
	}
	r.contracts = slices.DeleteFunc(slices.Clone(base.contracts), func(x contract) bool { return o.Contracts[x.event] != "" })
	r.contracts = append(r.contracts, c.contracts(key+".contracts", o.Contracts)...)
	r.routes = c.overlayRoutes(key, o.Routes, base, r.types())
	return r
}

func over[V any](base, changed map[string]V) map[string]V {
	if base == nil {
		base = map[string]V{}
	}
	maps.Copy(base, changed)
	return base
}

// overlayRoutes returns the routes of a tenant: those of everybody in their order, some
// of them changed, and then its own.
func (c *compiler) overlayRoutes(key string, changes []RouteOverlay, base *ruleset, env types.Map) []route {
	routes := slices.Clone(base.routes)
	var before []Route
	for i, change := range changes {
		key := fmt.Sprintf("%s.routes[%d]", key, i)
		c.name(key, change.Name, before)
		before = append(before, change.Route)
		at := slices.IndexFunc(routes, func(r route) bool { return r.Name == change.Name })
		switch {
		case change.Disabled && at < 0:
			c.add(Problem{Key: key + ".disabled", Text: fmt.Sprintf("there is no route %q to take away", change.Name)})
		case change.Disabled:
			routes = slices.Delete(routes, at, at+1)
		case at < 0:
			routes = append(routes, c.route(key, change.Route, env))
		default:
			routes[at] = c.route(key, routes[at].over(change.Route), env)
		}
	}
	return routes
}

// groups returns groups in the form that expressions see.
func (c *compiler) groups(key string, groups map[string][]any) map[string][]any {
	out := map[string][]any{}
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		if !category.MatchString(name) {
			c.add(Problem{Key: key + "." + name, Text: "a group's name has 1 to 32 of the characters a-z, 0-9, - and _"})
		}
		out[name] = c.fixed(key+"."+name, groups[name])
	}
	return out
}

// fixed returns a list of recipients in the configuration in the form that an
// expression would yield.
func (c *compiler) fixed(key string, list []any) []any {
	out := make([]any, 0, len(list))
	for i, one := range list {
		address, object, err := recipient(one)
		if err != nil || address == "" {
			c.add(Problem{Key: fmt.Sprintf("%s[%d]", key, i), Text: "want an address, or an object with an address"})
			continue
		}
		if object != nil {
			c.personal(fmt.Sprintf("%s[%d]", key, i), object)
		}
		out = append(out, one)
	}
	return out
}

// personal checks what is known about a recipient in the configuration.
func (c *compiler) personal(key string, object map[string]any) {
	if name, _ := object["locale"].(string); name != "" {
		if _, err := language.Parse(name); err != nil {
			c.add(Problem{Key: key + ".locale", Text: noLanguage})
		}
	}
	if name, _ := object["timezone"].(string); name != "" {
		c.zone(key+".timezone", name)
	}
}

// zone returns a zone in the configuration.
func (c *compiler) zone(key, name string) *time.Location {
	zone, ok := c.zones.of(name)
	if !ok {
		c.add(Problem{Key: key, Text: fmt.Sprintf("there is no time zone %q: want a name of the IANA database, such as Europe/Berlin", name)})
		return time.UTC
	}
	return zone
}

const noLanguage = "is not a language tag such as en or pt-BR"
