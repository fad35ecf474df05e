package app

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"tidings/cmd/internal/api"
	"tidings/dispatcher"
	"tidings/dispatcher/steward"
	"tidings/projector"
)

// part says how one part is doing.
type part func(context.Context) api.Part

// health asks every part whether work moves through it.
func (a *App) health(ctx context.Context) []api.Part {
	var out []api.Part
	if a.stop.Load() {
		out = append(out, api.Part{Name: "process", Reason: "stopping: finishing what is in hand"})
	}
	if why := a.outdated(); why != "" {
		out = append(out, api.Part{Name: "configuration", Ready: true, Reason: why})
	}
	parts, _ := a.parts.Load().([]part)
	for _, p := range parts {
		out = append(out, p(ctx))
	}
	return out
}

// behind says why the ledger is not what the log has, or "".
func (a *App) behind() string {
	p := a.ledger.Load()
	if p == nil {
		return "the log is not open yet"
	}
	return projectorHealth(p)(context.Background()).Reason
}

func dispatcherHealth(d *dispatcher.Dispatcher) part {
	return func(context.Context) api.Part { return ofStatus(d.Status()) }
}

func ofStatus(s dispatcher.Status) api.Part {
	out := api.Part{Name: "dispatcher"}
	switch {
	case s.Trouble != "":
		out.Reason = s.Trouble
	case s.Full():
		out.Reason = fmt.Sprintf("%d events wait, and max_waiting is %d: no more are taken until they are fewer; %s",
			s.Waiting, s.MaxWaiting, cmp.Or(shut(s), "tidings events list --phase waiting shows them"))
	default:
		out.Ready, out.Reason = true, shut(s)
	}
	return out
}

// shut says which channels do not get through. That does not make the process
// unready: all else moves, and another process would not get through either.
func shut(s dispatcher.Status) string {
	var all []string
	say := func(what string, limited bool, since time.Time, code string) string {
		why := "does not get through"
		if limited {
			why = "is rate limited by its provider"
		}
		return fmt.Sprintf("%s %s since %s (%s)", what, why, since.UTC().Format(time.RFC3339), cmp.Or(code, "not tried yet"))
	}
	for _, c := range s.Channels {
		name := fmt.Sprintf("channel %q", c.Channel)
		if c.Tenant != "" {
			name += fmt.Sprintf(" of tenant %q", c.Tenant)
		}
		if c.Breaker != dispatcher.BreakerClosed {
			all = append(all, say(name, c.RateLimited, c.Since, c.Code)+fmt.Sprintf(", and %d events wait for it", c.Aside))
			continue
		}
		for _, p := range c.Providers {
			if p.Breaker != dispatcher.BreakerClosed {
				all = append(all, say(fmt.Sprintf("provider %q of %s", p.Provider, name), p.RateLimited, p.Since, p.Code)+", and others take its messages")
			}
		}
	}
	return strings.Join(all, "; ")
}

// dispatchers says what the dispatcher is doing, once there is one.
func (a *App) dispatchers() []dispatcher.Status {
	if d := a.dispatcher.Load(); d != nil {
		return []dispatcher.Status{d.Status()}
	}
	return nil
}

// dispatching says what the dispatcher is doing, once there is one.
func (a *App) dispatching() api.Dispatching {
	if d := a.dispatcher.Load(); d != nil {
		return api.Dispatching(d.Status())
	}
	return api.Dispatching{}
}

func projectorHealth(p *projector.Projector) part {
	return func(context.Context) api.Part {
		out := api.Part{Name: "projector", Ready: true}
		s := p.Status()
		for _, stream := range []projector.StreamStatus{s.Outcomes, s.DeadLetters} {
			if !stream.Ready {
				out.Ready, out.Reason = false, stream.Stream+": "+stream.Reason
			}
		}
		return out
	}
}

func stewardHealth(s *steward.Steward) part {
	return func(context.Context) api.Part {
		alarm := s.Status().Alarm
		return api.Part{Name: "steward", Ready: alarm == "", Reason: alarm}
	}
}
