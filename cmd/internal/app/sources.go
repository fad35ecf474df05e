package app

import (
	"context"
	"fmt"

	"tidings/bridge"
	"tidings/cmd/internal/api"
)

// newBridges makes the bridge of every source that the configuration names.
func (a *App) newBridges() ([]*bridge.Bridge, error) {
	var bridges []*bridge.Bridge
	for _, source := range a.Config.AllSources() {
		b, err := bridge.New(source.Config(), a.log.door.Load(), bridge.Options{
			Log: a.Logger, Probe: a.log.probe, Held: a.metrics.Held(source.Name),
		})
		if err != nil {
			return nil, fmt.Errorf("source %q: %w", source.Name, err)
		}
		bridges = append(bridges, b)
	}
	if len(bridges) == 0 {
		a.Logger.Info("no AMQP_URL is set: events come by POST /v1/events alone")
	}
	a.bridges.Store(bridges)
	return bridges, nil
}

func bridgeHealth(b *bridge.Bridge) part {
	return func(context.Context) api.Part {
		s := b.Status()
		return api.Part{Name: "bridge " + s.Name, Ready: s.Ready(), Reason: s.Reason}
	}
}

// statuses says how the bridges are doing.
func (a *App) statuses() []bridge.Status {
	var out []bridge.Status
	bridges, _ := a.bridges.Load().([]*bridge.Bridge)
	for _, b := range bridges {
		out = append(out, b.Status())
	}
	return out
}

func (a *App) sources() []api.Source {
	var out []api.Source
	for _, s := range a.statuses() {
		out = append(out, api.Source(s))
	}
	return out
}
