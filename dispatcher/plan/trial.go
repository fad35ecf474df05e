package plan

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"tidings/streams/event"
)

// trial is where the messages of a test go, see [event.TestSource]. A test
// without an address, which no operator makes, tells nobody.
type trial struct{ to, channel, route string }

// trialOf returns nil for an event that is no test.
func trialOf(e event.Envelope) *trial {
	if !e.IsTest() {
		return nil
	}
	return &trial{
		e.Extensions[event.ExtensionTestTo], e.Extensions[event.ExtensionTestChannel], e.Extensions[event.ExtensionTestRoute],
	}
}

// takes reports whether a route is part of the test.
func (t *trial) takes(r *route) bool {
	return t == nil || (t.channel == "" || t.channel == r.Channel) && (t.route == "" || t.route == r.Name)
}

// named reports whether the test is of one route.
func (t *trial) named() bool { return t != nil && t.route != "" }

// instead returns what a test has in the place of the recipients: its own address,
// in the language and with the details of the first of them.
func (t *trial) instead(k Kind, found []target) []target {
	address, ok := k.address(t.to)
	if t.to == "" || !ok {
		return nil
	}
	if len(found) == 0 {
		return []target{newTarget(address, nil)}
	}
	one := newTarget(address, found[0].object)
	one.locale = found[0].locale
	return []target{one}
}

// CheckTest says why a test cannot reach its address, as far as that is known
// before it is planned: a route or channel that does not exist, a type that no
// route is for, or an address that is none for the channels of those routes.
func (p *Planner) CheckTest(e event.Envelope) error {
	t := trialOf(e)
	if t == nil {
		return errors.New("the event is no test")
	}
	if _, ok := p.o.Channels[t.channel]; t.channel != "" && !ok {
		return fmt.Errorf("there is no channel %q: %s", t.channel, listed("channels", maps.Keys(p.o.Channels)))
	}
	rules := p.of(e.Tenant)
	if t.route != "" && rules.route(t.route) == nil {
		return rules.noRoute(t.route)
	}
	matched, kinds := 0, ""
	for i := range rules.routes {
		r := &rules.routes[i]
		if !t.takes(r) || !r.pattern.matches(e.Type) {
			continue
		}
		if matched++; len(t.instead(r.channel.Kind, nil)) > 0 {
			return nil
		}
		kinds = r.channel.Kind.inWords()
	}
	if matched == 0 {
		return fmt.Errorf("no such route is for events of type %.255q", e.Type)
	}
	return fmt.Errorf("the address is not %s, which the route's channel needs", kinds)
}

// Sample is what a test of one route can do with where it says nothing else.
type Sample struct {
	Type string // of the events that the route is for; empty where it is for several
	To   string // an address that nobody has
	// Data is the file _sample.json beside the route's template; nil: there is none.
	Data []byte
	// File is what that file is called, empty where the route has no template.
	File string
}

// Sample returns what there is for a test of a route of a tenant. The error says which
// routes there are.
func (p *Planner) Sample(tenant, name string) (Sample, error) {
	rules := p.of(tenant)
	r := rules.route(name)
	if r == nil {
		return Sample{}, rules.noRoute(name)
	}
	s := Sample{To: r.channel.Kind.somebody()}
	if !strings.Contains(r.Event, "*") {
		s.Type = r.Event
	}
	if r.template != nil {
		s.Data, s.File = r.template.sample, p.o.folder(r.Template, sampleFile)
	}
	return s, nil
}

func (r *ruleset) noRoute(name string) error {
	return fmt.Errorf("there is no route %.64q: %s", name, listed("routes", r.names))
}
