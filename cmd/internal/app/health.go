package app

import (
	"context"

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
	return func(context.Context) api.Part {
		s := d.Status()
		return api.Part{Name: "dispatcher", Ready: s.Trouble == "", Reason: s.Trouble}
	}
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
