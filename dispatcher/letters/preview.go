package letters

import (
	"context"
	"errors"
	"fmt"

	"tidings/dispatcher/plan"
	"tidings/streams/event"
)

// Planner makes the messages of an event, or says why there are none.
// [plan.Planner] is one.
type Planner interface {
	Plan(key event.Key, e event.Envelope) (plan.Plan, error)
}

// Suppressions says whom not to write to.
type Suppressions interface {
	Suppressed(ctx context.Context, tenant, channel string, to event.Recipient) (reason string, suppressed bool, err error)
}

// Preview is what a requeue would do now: by the configuration, the suppressions
// and the history as they are.
type Preview struct {
	// Messages are those of the plan, with what would become of each.
	Messages []PreviewMessage      `json:"messages"`
	Routes   []event.RouteDecision `json:"routes,omitempty"` // what became of each route that was considered
	// Nothing is why there would be no messages.
	Nothing event.Outcome `json:"nothing,omitempty"`
	// Known is the event that a delivery is already: nothing would be sent, and the
	// letter would be gone.
	Known event.Key `json:"known,omitempty"`
	// Blocked are the channels that do not get through now, of those that something
	// would be sent by: it waits for them. A [Desk] knows of none.
	Blocked []string `json:"blocked,omitempty"`
	// Problem is why it would be a dead letter again at once.
	Problem string `json:"problem,omitempty"`
}

// Recorded returns 0: nothing was recorded.
func (Preview) Recorded() uint64 { return 0 }

// Sends returns how many messages would be sent.
func (p Preview) Sends() int {
	n := 0
	for _, m := range p.Messages {
		if m.Would == WouldSend {
			n++
		}
	}
	return n
}

// PreviewMessage is one message, and what would become of it.
type PreviewMessage struct {
	ID        string             `json:"id"`
	Route     string             `json:"route"`
	Channel   string             `json:"channel"`
	Recipient string             `json:"recipient"` // masked
	Subject   string             `json:"subject,omitempty"`
	Was       event.MessageState `json:"was,omitempty"` // before; empty where it is new
	Would     Would              `json:"would"`
	Why       string             `json:"why,omitempty"`
}

// Would is what would become of a message.
type Would string

// What would become of a message.
const (
	WouldSend     Would = "send"
	WouldStay     Would = "stay"     // as it is: it was delivered, or is not meant
	WouldSuppress Would = "suppress" // its recipient gets nothing now
	WouldGiveUp   Would = "give_up"  // the configuration in force does not produce it any more
)

// Preview says what [Desk.Requeue] of a letter would do, or [Desk.Edit] with a change
// if there is one. It changes nothing. Errors are theirs, but that a delivery would
// be refused is a problem in the preview.
func (d *Desk) Preview(ctx context.Context, t Target, c Change) (Preview, error) {
	p, err := d.preview(ctx, t, c)
	if err != nil {
		return Preview{}, fmt.Errorf("preview %s: %w", t.Key, err)
	}
	return p, nil
}

func (d *Desk) preview(ctx context.Context, t Target, c Change) (Preview, error) {
	letter, _, err := d.letter(ctx, t, "")
	if err != nil {
		return Preview{}, err
	}
	if isDelivery(letter) {
		return d.previewDelivery(ctx, letter, c)
	}
	data := c.Data
	if data != nil || len(c.Set) > 0 {
		if err := checkChange(letter, c); err != nil {
			return Preview{}, err
		}
	}
	e, err := d.end(ctx, letter.Tenant, letter.Key)
	if err != nil {
		return Preview{}, err
	}
	fact := event.Requeued{Generation: letter.Generation + 1}
	ref, facts, err := d.onDead(ctx, letter, e, fact)
	if err != nil {
		return Preview{}, err
	}
	opened := e.state.Apply("", d.o.Now(), facts...)
	stored, err := d.payloads().Of(ctx, ref, opened)
	if err != nil {
		return Preview{}, err
	}
	if data != nil {
		stored.Envelope.Data = data
		fact.Edit = &event.Edit{Digest: event.Digest(data), Size: len(data)}
		facts[len(facts)-1] = fact
		opened = e.state.Apply("", d.o.Now(), facts...)
	}
	before := e.state
	if e.seq == 0 {
		before = *letter.State
	}
	return d.foresee(ctx, ref, stored.Envelope, before, opened)
}

// PreviewEvent says what an event under a key would become that came in now. An empty key
// is one that nobody knows yet.
func (d *Desk) PreviewEvent(ctx context.Context, key event.Key, e event.Envelope) (Preview, error) {
	if key != "" {
		known, err := d.end(ctx, e.Tenant, key)
		if err != nil {
			return Preview{}, err
		}
		if known.seq != 0 {
			return Preview{Messages: []PreviewMessage{}, Known: key}, nil
		}
	}
	return d.foresee(ctx, event.Ref{Key: key, Tenant: e.Tenant}, e, event.State{}, event.State{})
}

// foresee plans an event as the dispatcher would in the state after.
func (d *Desk) foresee(ctx context.Context, ref event.Ref, e event.Envelope, before, after event.State) (Preview, error) {
	p, err := d.o.Planner.Plan(ref.Key, e)
	if broken, ok := errors.AsType[*plan.Error](err); ok {
		return Preview{Messages: []PreviewMessage{}, Problem: broken.Error()}, nil
	}
	if err != nil {
		return Preview{}, err
	}
	after = after.Apply("", d.o.Now(), p.Fact)
	out := Preview{Messages: []PreviewMessage{}, Routes: p.Fact.Routes, Nothing: after.Nothing}
	made := map[string]plan.Message{}
	for _, m := range p.Messages {
		made[m.ID] = m
	}
	for _, m := range after.Messages {
		message, err := d.would(ctx, ref, m, made)
		if err != nil {
			return Preview{}, err
		}
		if was := before.Message(m.ID); was != nil {
			message.Was = was.State
		}
		out.Messages = append(out.Messages, message)
	}
	return out, nil
}

func (d *Desk) would(ctx context.Context, ref event.Ref, m event.Message, made map[string]plan.Message) (PreviewMessage, error) {
	message, there := made[m.ID]
	out := PreviewMessage{
		ID: m.ID, Route: m.Route, Channel: m.Channel, Recipient: m.Recipient.Mask,
		Subject: message.Content.Subject, Would: WouldSend,
	}
	switch {
	case m.State == event.MessageDelivered:
		out.Would, out.Why = WouldStay, "it was delivered"
	case !m.Open():
		out.Would, out.Why = WouldStay, "it is not meant"
	case !there:
		out.Would, out.Why = WouldGiveUp, "the configuration in force does not produce it any more"
	default:
		reason, suppressed, err := d.o.Suppressions.Suppressed(ctx, ref.Tenant, m.Channel, m.Recipient)
		if err != nil {
			return out, err
		}
		if suppressed {
			out.Would, out.Why = WouldSuppress, reason
		}
	}
	return out, nil
}
