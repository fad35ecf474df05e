package plan

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"tidings/streams/event"
)

// Lint writes the template of every route, of everybody and of tenants that have one of
// their own, in every language that it has, for the sample beside it. It returns what
// fails, and what has no sample and so is not proved, as warnings.
func (p *Planner) Lint() (problems Problems, warnings []string) {
	l := linter{Planner: p, seen: map[string]bool{}}
	l.rules("", p.base)
	for _, tenant := range slices.Sorted(maps.Keys(p.tenants)) {
		l.rules(tenant, p.tenants[tenant])
	}
	return l.problems.unique(), l.warnings
}

type linter struct {
	*Planner
	problems Problems
	warnings []string
	seen     map[string]bool // templates without a sample
}

func (l *linter) rules(tenant string, rules *ruleset) {
	for i := range rules.routes {
		r := &rules.routes[i]
		switch {
		case r.template == nil:
		case r.template.sample == nil && !l.seen[r.Template]:
			l.seen[r.Template] = true
			l.warnings = append(l.warnings, fmt.Sprintf("%s: there is no sample, so nothing shows that it can be written: put the data of an event there", l.folder(r.Template+"/"+sampleFile)))
		case r.template.sample != nil:
			l.route(tenant, r)
		}
	}
}

// route writes a route's template in all of its languages.
func (l *linter) route(tenant string, r *route) {
	e := l.sampleEvent(tenant, r)
	if err := l.of(tenant).keeps(e); err != nil {
		l.add(r, err)
		return
	}
	for _, locale := range r.template.locales.names {
		if _, err := l.Render(r.Name, e, Reader{Locale: locale}); err != nil {
			l.add(r, err)
		}
	}
}

func (l *linter) add(r *route, err error) {
	detail := err.Error()
	if of, ok := errors.AsType[*Error](err); ok {
		detail = strings.TrimPrefix(of.Detail, fmt.Sprintf("route %q: ", r.Name))
	}
	l.problems = append(l.problems, Problem{Key: l.folder(r.Template), Route: r.Name, Text: detail})
}

// sampleEvent is the event of a route's sample.
func (p *Planner) sampleEvent(tenant string, r *route) event.Envelope {
	e := event.Envelope{
		Tenant: cmp.Or(tenant, event.DefaultTenant), Source: "sample", ID: "sample", ContentType: "application/json",
		Type:       strings.ReplaceAll(strings.ReplaceAll(r.Event, "**", "sample"), "*", "sample"),
		OccurredAt: time.Date(2026, 3, 29, 1, 30, 0, 0, time.UTC),
	}
	if r.template != nil {
		e.Data = r.template.sample
	}
	return e
}

// Reader is for whom a message is rendered. What is empty is as the route finds it.
type Reader struct {
	Address, Locale, Timezone string
}

// Render writes the message of one route for an event, whatever the route's condition
// says, as its first recipient would read it, or the reader. An event without data is
// that of the sample beside the template; one without a type has that of the route. It
// returns an [*Error] if the template fails, and an error that says which routes there
// are.
func (p *Planner) Render(name string, e event.Envelope, as Reader) (Message, error) {
	e.Tenant = cmp.Or(e.Tenant, event.DefaultTenant)
	d := draft{Planner: p, ruleset: p.of(e.Tenant), key: event.NewKey(e.Tenant, e.Source, e.ID)}
	r := d.ruleset.route(name)
	if r == nil {
		return Message{}, d.noRoute(name)
	}
	if r.template == nil && r.Template != "" {
		return Message{}, &Error{event.CauseTemplateError, d.folder(r.Template) + " has no template"}
	}
	sample := p.sampleEvent(e.Tenant, r)
	e.Type, e.ContentType = cmp.Or(e.Type, sample.Type), cmp.Or(e.ContentType, sample.ContentType)
	e.Source, e.ID = cmp.Or(e.Source, sample.Source), cmp.Or(e.ID, sample.ID)
	if e.OccurredAt.IsZero() {
		e.OccurredAt = sample.OccurredAt
	}
	if len(e.Data) == 0 {
		e.Data = sample.Data
	}
	if len(e.Data) == 0 && r.template != nil {
		return Message{}, &Error{event.CauseTemplateError, fmt.Sprintf("there is nothing to fill the template with: give an event, or put a sample into %s", d.folder(r.Template+"/"+sampleFile))}
	}
	d.envelope, d.env = e, newEnvironment(e, d.vars, d.groups)
	c, err := d.reader(r, as)
	if err != nil {
		return Message{}, r.fault(err)
	}
	w := writer{draft: &d, left: outputs * p.o.MaxOutput}
	m, err := w.message(c)
	if err != nil {
		return Message{}, r.fault(err)
	}
	return m, nil
}

// reader returns the choice of a message for who reads it.
func (d *draft) reader(r *route, as Reader) (choice, error) {
	targets, _, err := r.targets(d.env, 1)
	if err != nil {
		return choice{}, err
	}
	t := newTarget(r.channel.Kind.somebody(), nil)
	if len(targets) > 0 {
		t = targets[0]
	}
	if as.Address != "" {
		usable, ok := r.channel.Kind.address(as.Address)
		if !ok {
			return choice{}, fmt.Errorf("the address is not %s", r.channel.Kind.inWords())
		}
		t = newTarget(usable, t.object)
	}
	locale, err := textOf(r.locale, d.env)
	if err != nil {
		return choice{}, err
	}
	zone, err := textOf(r.timezone, d.env)
	if err != nil {
		return choice{}, err
	}
	t.locale = cmp.Or(as.Locale, t.locale)
	return choice{r, t, locale, d.zones.first(d.zone, as.Timezone, t.timezone, zone)}, nil
}

// somebody is an address that nobody has.
func (k Kind) somebody() string {
	if k == Email {
		return "somebody@example.com"
	}
	return "https://example.com/"
}
