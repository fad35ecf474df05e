package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"tidings/streams/event"
)

// Plan is what an event becomes.
type Plan struct {
	Fact     event.Planned
	Messages []Message // in the order of Fact.Messages
}

// Message is one message with what the history must not hold: where it goes
// and what it says.
type Message struct {
	event.PlannedMessage
	Address string
	Content Content
	Zone    *time.Location // of the recipient
}

// Content is what a message says. E-mail has Subject and Text or HTML or both,
// everything else has Body and its ContentType.
type Content struct {
	Subject, Text, HTML string
	Body                []byte
	ContentType         string
}

func (c Content) size() int { return len(c.Subject) + len(c.Text) + len(c.HTML) + len(c.Body) }

// Error says that an event cannot be planned and never will be by the same
// rules: it is a dead letter.
type Error struct {
	Cause  event.Cause // template_error, contract_violated or too_many_recipients
	Detail string      // what and where; never an address or a value of the payload
}

// Error implements error.
func (e *Error) Error() string { return string(e.Cause) + ": " + e.Detail }

// The verdicts about a route.
const (
	planned        = "planned"
	conditionFalse = "condition_false"
	noRecipient    = "no_recipient"
	noTemplate     = "no_template"
)

// draft is a plan in the making.
type draft struct {
	*Planner
	*ruleset
	key      event.Key
	envelope event.Envelope
	trial    *trial // nil: a real event
	env      *environment
	taken    map[claim]string // the route that tells it, by what it tells
	chosen   []choice
}

// claim is what only one route may tell: the same words on the same channel to
// the same address.
type claim struct{ channel, template, address string }

// choice is a message before it has contents.
type choice struct {
	route  *route
	target target
	locale string // wanted by the route
	zone   *time.Location
}

// Plan returns the messages of the event e with the key key, or why there are
// none. The error is an [*Error]. It may be called by several goroutines at once.
func (p *Planner) Plan(key event.Key, e event.Envelope) (Plan, error) {
	d := draft{Planner: p, ruleset: p.of(e.Tenant), key: key, envelope: e, trial: trialOf(e), taken: map[claim]string{}}
	out := Plan{Fact: event.Planned{Config: p.revision}}
	if err := d.keeps(e); err != nil {
		return Plan{}, err
	}
	for i := range d.routes {
		r := &d.routes[i]
		if !r.pattern.matches(e.Type) || !d.trial.takes(r) {
			continue
		}
		decision, err := d.consider(r)
		if err != nil {
			return Plan{}, err
		}
		out.Fact.Routes = append(out.Fact.Routes, decision)
	}
	if len(d.chosen) == 0 {
		out.Fact.Routes, out.Fact.Nothing = nothing(e.Type, out.Fact.Routes)
		d.explain(out.Fact.Routes)
		return out, nil
	}
	var err error
	out.Messages, err = d.write()
	if err != nil {
		return Plan{}, err
	}
	for _, m := range out.Messages {
		out.Fact.Messages = append(out.Fact.Messages, m.PlannedMessage)
	}
	return out, nil
}

// Recipient returns how an address is known in histories, whichever channel it was
// told on: without a display name, in any case and with blanks around it.
func (p *Planner) Recipient(address string) event.Recipient {
	if bare, ok := mailbox(strings.TrimSpace(address)); ok {
		address = bare
	}
	return event.NewRecipient(p.o.Secret, address)
}

// nothing says why there are no messages: nobody to tell if any route got as
// far as that, else no words.
func nothing(typ string, decisions []event.RouteDecision) ([]event.RouteDecision, event.Outcome) {
	for _, d := range decisions {
		if d.Verdict != noTemplate {
			return decisions, event.NoRecipient
		}
	}
	if len(decisions) == 0 {
		decisions = []event.RouteDecision{{Verdict: noTemplate, Detail: fmt.Sprintf("no route for events of type %.255q", typ)}}
	}
	return decisions, event.NoTemplate
}

// consider decides about one route and adds its messages to the draft.
func (d *draft) consider(r *route) (event.RouteDecision, error) {
	if d.env == nil {
		d.env = newEnvironment(d.envelope, d.vars, d.groups)
	}
	decision := event.RouteDecision{Route: r.Name}
	if r.template == nil && r.Template != "" {
		decision.Verdict, decision.Detail = noTemplate, d.folder(r.Template)+" has no template"
		return decision, nil
	}
	use, err := d.trial.named(), error(nil)
	if !use {
		use, err = r.condition(d.env)
	}
	if err != nil {
		return decision, r.fault(err)
	}
	if !use {
		decision.Verdict, decision.Detail = conditionFalse, r.when.quoted()+" is not true"
		return decision, nil
	}
	return d.recipients(r, decision)
}

func (d *draft) recipients(r *route, decision event.RouteDecision) (event.RouteDecision, error) {
	targets, invalid, err := r.targets(d.env, d.o.MaxMessages)
	if err != nil {
		return decision, r.fault(err)
	}
	if d.trial != nil {
		if targets, invalid = d.trial.instead(r.channel.Kind, targets), 0; targets == nil {
			decision.Verdict, decision.Detail = noRecipient, "the address of the test is not "+r.channel.Kind.inWords()
			return decision, nil
		}
	}
	locale, err := textOf(r.locale, d.env)
	if err != nil {
		return decision, r.fault(err)
	}
	zone, err := textOf(r.timezone, d.env)
	if err != nil {
		return decision, r.fault(err)
	}
	others := d.choose(r, targets, locale, zone)
	if len(d.chosen) > d.o.MaxMessages {
		return decision, &Error{event.CauseTooManyRecipients, fmt.Sprintf("route %q: more than %d messages for one event", r.Name, d.o.MaxMessages)}
	}
	return r.verdict(decision, len(targets), others, invalid), nil
}

// choose adds the targets that no other route tells the same. It returns the
// numbers of the others, by the route that tells them.
func (d *draft) choose(r *route, targets []target, locale, zone string) (others told) {
	for _, t := range targets {
		c := claim{r.Channel, r.Template, event.NormalizeAddress(t.address)}
		if first, ok := d.taken[c]; ok {
			others = others.by(first)
			continue
		}
		d.taken[c] = r.Name
		d.chosen = append(d.chosen, choice{r, t, locale, d.zones.first(d.zone, t.timezone, zone)})
	}
	return others
}

// condition evaluates when. Nothing is false.
func (r *route) condition(env *environment) (bool, error) {
	if r.when == nil {
		return true, nil
	}
	switch value, err := r.when.run(env); value := value.(type) {
	case nil:
		return false, err
	case bool:
		return value, err
	default:
		return false, r.when.mismatch(value)
	}
}

// targets returns the recipients of a route: those that it names, and those that its
// expression yields.
func (r *route) targets(env *environment, limit int) ([]target, int, error) {
	value := any(r.to)
	if r.recipients != nil {
		yielded, err := r.recipients.run(env)
		if err != nil {
			return nil, 0, err
		}
		if value = yielded; len(r.to) > 0 {
			value = append(slices.Clone(r.to), elements(yielded)...)
		}
	}
	targets, invalid, err := r.channel.Kind.targets(value, limit)
	if err != nil {
		err = fmt.Errorf("recipients: %w, want %s", err, wanted["recipients"])
	}
	return targets, invalid, err
}

// textOf evaluates an expression that yields a text; nothing is an empty one.
func textOf(x *expression, env *environment) (string, error) {
	if x == nil {
		return "", nil
	}
	switch value, err := x.run(env); value := value.(type) {
	case nil:
		return "", err
	case string:
		return value, err
	default:
		return "", x.mismatch(value)
	}
}

func (r *route) fault(err error) error {
	return &Error{event.CauseTemplateError, fmt.Sprintf("route %q: %v", r.Name, err)}
}

// told counts recipients who are told the same by another route, the first one.
type told struct {
	count int
	route string
}

func (t told) by(route string) told {
	if t.count == 0 {
		t.route = route
	}
	t.count++
	return t
}

// verdict completes the decision about a route that was used.
func (r *route) verdict(d event.RouteDecision, targets int, others told, invalid int) event.RouteDecision {
	d.Verdict, d.Count = planned, targets-others.count
	if d.Count == 0 {
		d.Verdict = noRecipient
	}
	switch {
	case invalid > 0:
		d.Detail = fmt.Sprintf("%s: %d of its values %s not %s", r.whom(), invalid, isAre(invalid), r.channel.Kind.inWords())
	case others.count > 0:
		d.Detail = fmt.Sprintf("route %q tells %d of its recipients the same", others.route, others.count)
	case targets == 0:
		d.Detail = r.whom() + " gave nothing"
	}
	return d
}

// whom says where the recipients come from.
func (r *route) whom() string {
	if r.recipients == nil {
		return "to"
	}
	return r.recipients.quoted()
}

func isAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}
