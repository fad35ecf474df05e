package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"tidings/dispatcher"
	"tidings/dispatcher/channel"
	"tidings/dispatcher/plan"
	"tidings/streams/event"
)

// The channels: one whose messages of unknown fate are sent again, and one whose
// messages are held.
const (
	hooks = "hook"
	mails = "mail"
)

func (w *world) policy(concurrency int) dispatcher.Policy {
	p := dispatcher.Policy{Rounds: []time.Duration{20 * time.Second, 2 * time.Minute}, Concurrency: concurrency}
	if !w.breakers {
		p.Failures = 1_000_000
	}
	return p
}

// provider is who is called. It counts by idempotency key.
type provider struct {
	w     *world
	calls []*call // in the order in which they were started
}

// call is one call of a provider by a sender.
type call struct {
	who     *process
	key     string // the idempotency key
	message string
	code    string // unique; it comes back in the record of the call
	started time.Time
	// What the provider knows.
	arrived, took bool
	// What the caller knows.
	returned, refused bool
	result            event.TryResult
}

func newProvider(w *world) *provider { return &provider{w: w} }

// sender calls the provider of a channel for a process.
type sender struct {
	p       *process
	channel string
}

type reply struct {
	receipt channel.Receipt
	err     error
}

// Send implements channel.Sender. Two things wait for their moment: the call
// going out, and its answer coming back.
func (s sender) Send(ctx context.Context, m channel.Message) (channel.Receipt, error) {
	w, answer := s.p.w, make(chan reply, 1)
	w.server.mu.Lock()
	if s.p.dead {
		w.server.mu.Unlock()
		return channel.Receipt{}, channel.Unknown("dead", errDead)
	}
	c := w.provider.start(s.p, m)
	w.await(&move{
		who: s.p, what: "calls for " + c.code, fates: []fate{done, lost, unanswered, late, failed},
		happen: func(f fate) string { return w.provider.happen(c, s.channel, f, answer) },
		gone:   func() bool { close(answer); return true },
	})
	w.server.mu.Unlock()
	select {
	case r, alive := <-answer:
		if !alive {
			return channel.Receipt{}, c.end(channel.Unknown("dead", errDead))
		}
		return r.receipt, c.end(r.err)
	case <-ctx.Done():
		return channel.Receipt{}, c.end(channel.Unknown(c.code, ctx.Err()))
	}
}

func (p *provider) start(who *process, m channel.Message) *call {
	message, _, _ := strings.Cut(m.ID, ".g")
	who.calls[m.ID]++
	c := &call{
		who: who, key: m.ID, message: message, started: time.Now(),
		code: fmt.Sprintf("%s#%d by %s", m.ID, who.calls[m.ID], who.name),
	}
	p.w.checker.calls(c)
	p.calls = append(p.calls, c)
	return c
}

// end notes what the caller was told.
func (c *call) end(err error) error {
	w := c.who.w
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	c.returned = !c.who.dead
	c.result, _, _ = channel.Classify(err)
	c.refused = c.returned && c.result != event.TryDelivered && c.result != event.TryUnknown
	if err == nil {
		return nil
	}
	return err
}

// happen is what the provider does about a call.
func (p *provider) happen(c *call, ch string, f fate, answer chan reply) string {
	switch f {
	case lost:
		return "" // the caller waits until its time is over
	case failed:
		c.hears(answer, reply{err: channel.Transient(c.code, errors.New("no connection"))})
		return ""
	}
	c.arrived = true
	r := p.answers(c)
	c.took = r.err == nil
	said := "taken"
	if r.err != nil {
		said = r.err.Error()
	}
	switch f {
	case late:
		p.w.await(&move{
			who: c.who, what: "hears about " + c.code, fates: []fate{done, lost}, gone: func() bool { return false },
			happen: func(f fate) string {
				if f == done {
					c.hears(answer, r)
				}
				return said
			},
		})
	case done:
		c.hears(answer, r)
	}
	return said
}

// hears tells the caller, if it is still there.
func (c *call) hears(answer chan reply, r reply) {
	if !c.who.dead {
		answer <- r
	}
}

// answers says what the provider makes of a call: most recipients can be reached,
// some cannot at first, and some never.
func (p *provider) answers(c *call) reply {
	before := 0
	for _, other := range p.calls {
		if other.key == c.key && other.arrived && other != c {
			before++
		}
	}
	switch p.w.luck("recipient "+c.message, 16) {
	case 0:
		return reply{err: channel.Permanent(c.code, nil)}
	case 1:
		return reply{err: channel.Transient(c.code, nil)} // until its event is edited or given up
	case 2:
		if before < 2 {
			return reply{err: channel.RateLimited(c.code, time.Duration(1+p.w.luck(c.code, 40))*time.Second, nil)}
		}
	case 3, 4:
		if before < 4 {
			e := channel.Transient(c.code, nil)
			e.After = time.Duration(p.w.luck(c.code, 3)) * time.Second
			return reply{err: e}
		}
	case 5:
		if before < 2 {
			return reply{err: channel.Unknown(c.code, nil)}
		}
	}
	return reply{receipt: channel.Receipt{Code: c.code}}
}

// payload is what the events of the simulation hold.
type payload struct {
	Hooks int    `json:"hooks,omitempty"`
	Mails int    `json:"mails,omitempty"`
	Fault string `json:"fault,omitempty"` // "template" or "panic"
	Body  string `json:"body,omitempty"`
}

// planner plans what the payload says. That it is asked is a moment of its own, at
// which the process may die.
type planner struct{ p *process }

// Revision implements dispatcher.Planner.
func (planner) Revision() string { return "r1" }

// Providers implements [dispatcher.Planner].
func (planner) Providers(_, _ string) []string { return nil }

// Needs implements dispatcher.Planner.
func (planner) Needs(_, typ string) []plan.Need {
	needs := []plan.Need{{Channel: hooks}}
	if strings.Contains(typ, mails) {
		needs = append(needs, plan.Need{Channel: mails, Held: true})
	}
	return needs
}

// Plan implements dispatcher.Planner.
func (pl planner) Plan(key event.Key, e event.Envelope) (plan.Plan, error) {
	if _, alive := ask(pl.p, "plans "+pl.p.w.nameOf(key), []fate{done}, func(fate) (bool, string) { return true, "" }); !alive {
		return plan.Plan{}, errDead
	}
	var data payload
	if err := json.Unmarshal(e.Data, &data); err != nil {
		return plan.Plan{}, err
	}
	switch data.Fault {
	case "template":
		return plan.Plan{}, &plan.Error{Cause: event.CauseTemplateError, Detail: "nil map"}
	case "panic":
		panic("the payload is poison")
	}
	var out plan.Plan
	out.Fact.Config = "r1"
	add := func(ch string, n int, unknown event.OnUnknown) {
		for i := range n {
			m := event.PlannedMessage{ID: fmt.Sprintf("%s.%s%d", e.ID, ch, i), Route: ch, Channel: ch, OnUnknown: unknown}
			m.Recipient = event.Recipient{Hash: m.ID, Mask: m.ID}
			out.Fact.Messages = append(out.Fact.Messages, m)
			out.Messages = append(out.Messages, plan.Message{PlannedMessage: m, Address: m.ID})
		}
	}
	add(hooks, data.Hooks, event.Resend)
	add(mails, data.Mails, event.Hold)
	if len(out.Messages) == 0 {
		out.Fact.Nothing = event.NoRecipient
	}
	return out, nil
}

// suppressions suppress one recipient in twenty.
type suppressions struct{ p *process }

// Suppressed implements dispatcher.Suppressions.
func (s suppressions) Suppressed(ctx context.Context, _, _ string, to event.Recipient) (string, bool, error) {
	type verdict struct {
		yes bool
		err error
	}
	v, alive := ask(s.p, "asks whether to write to "+to.Hash, []fate{done, failed}, func(f fate) (verdict, string) {
		if f == failed {
			return verdict{err: errors.New("not known")}, ""
		}
		s.p.asked[to.Hash] = s.p.w.now()
		yes := s.p.w.luck("suppressed "+to.Hash, 20) == 0
		return verdict{yes: yes}, map[bool]string{true: "no"}[yes]
	})
	if !alive {
		return "", false, errDead
	}
	return "unsubscribed", v.yes, v.err
}
