package app

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tidings/cmd/internal/api"
	"tidings/cmd/internal/config"
	"tidings/dispatcher/plan"
	"tidings/streams/event"
)

// inForce is what is in force of the configuration, for whoever asks and does not send.
type inForce struct{ atomic.Pointer[outlets] }

// Plan implements [letters.Planner] and [api.Planner].
func (f *inForce) Plan(key event.Key, e event.Envelope) (plan.Plan, error) {
	return f.Load().planner.Plan(key, e)
}

// CheckTest implements [api.Planner].
func (f *inForce) CheckTest(e event.Envelope) error { return f.Load().planner.CheckTest(e) }

// Recipient implements [api.Planner].
func (f *inForce) Recipient(address string) event.Recipient {
	return f.Load().planner.Recipient(address)
}

// Sample implements [api.Planner].
func (f *inForce) Sample(tenant, route string) (plan.Sample, error) {
	return f.Load().planner.Sample(tenant, route)
}

// Suppressed implements [letters.Suppressions].
func (f *inForce) Suppressed(ctx context.Context, tenant, channel string, to event.Recipient) (string, bool, error) {
	return f.Load().suppressions.Suppressed(ctx, tenant, channel, to)
}

// reloads is what there is to say of them.
type reloads struct {
	mu      sync.Mutex // one at a time
	said    atomic.Pointer[api.Configuration]
	retired sync.WaitGroup // outlets whose events are not finished
}

// firstOutlets makes what the process begins with.
func (a *App) firstOutlets() error {
	out, err := newOutlets(a.Config, a.dir, &a.senders)
	if err != nil {
		return err
	}
	for _, w := range out.planner.Warnings() {
		a.Logger.Warn(w)
	}
	a.current.Store(out)
	a.onClose(func() error {
		a.reloads.retired.Wait()
		return a.current.Load().close()
	})
	a.reloads.said.Store(&api.Configuration{Revision: out.planner.Revision(), LoadedAt: time.Now().UTC()})
	return nil
}

func (a *App) configuration() api.Configuration { return *a.reloads.said.Load() }

func (a *App) configurations() []api.Configuration { return []api.Configuration{a.configuration()} }

// outdated says why what runs is not what is configured, as far as one can see without
// reading all of it, or "".
func (a *App) outdated() string {
	if c := a.configuration(); c.Refused != nil {
		return c.Refused.String()
	}
	if file := a.current.Load().config.Outdated(); file != "" {
		return file + " is not what runs: it has changed since it was loaded; tidings config reload puts it in force"
	}
	return ""
}

// reload returns what the API reloads by, nil if it cannot.
func (a *App) reload() func(context.Context, string) (api.Reload, error) {
	if a.Load == nil {
		return nil
	}
	return a.Reload
}

// Reload reads the configuration anew and puts it in force. All that can fail comes
// first; then the dispatcher gets the new one with one swap, and what is in hand is
// finished by the one before. The error is an *[api.RefusedConfiguration]: nothing has changed
// then. by is who wants it. Two at a time follow each other.
func (a *App) Reload(_ context.Context, by string) (api.Reload, error) {
	a.reloads.mu.Lock()
	defer a.reloads.mu.Unlock()
	done, err := a.exchange()
	said := a.configuration()
	if err != nil {
		refused := refusal(err)
		said.Failed, said.Refused = said.Failed+1, refused
		a.reloads.said.Store(&said)
		a.Logger.Error("the configuration was not reloaded: what ran before runs on", "by", by, "problems", refused.Problems, "revision", said.Revision)
		return api.Reload{}, refused
	}
	said.Revision, said.LoadedAt, said.Reloads, said.Refused = done.Revision, done.At, said.Reloads+1, nil
	a.reloads.said.Store(&said)
	for _, w := range done.Warnings {
		a.Logger.Warn(w)
	}
	a.Logger.Info("the configuration was reloaded", "by", by, "revision", done.Revision, "before", done.Before, "changed", strings.Join(done.Changed, ", "))
	return done, nil
}

// exchange puts what is configured by now in the place of what is in force.
func (a *App) exchange() (done api.Reload, err error) {
	before := a.current.Load()
	next, changes, err := a.prepare(before)
	if err != nil {
		return done, err
	}
	var ended <-chan struct{}
	if d := a.dispatcher.Load(); d != nil {
		if ended, err = d.Reload(next.setup()); err != nil {
			return done, errors.Join(err, next.close())
		}
	}
	a.current.Store(next)
	a.retire(before, ended)
	done = api.Reload{
		Revision: next.planner.Revision(), Before: before.planner.Revision(), At: time.Now().UTC(),
		Changed: keysOf(changes), Warnings: next.planner.Warnings(),
	}
	if done.Revision != done.Before && !slices.ContainsFunc(changes, ofThePlan) {
		done.Changed = append(done.Changed, "files of templates or contracts")
	}
	return done, nil
}

// prepare does all that can fail.
func (a *App) prepare(before *outlets) (*outlets, []config.Change, error) {
	c, err := a.Load()
	if err != nil {
		return nil, nil, err
	}
	changes := config.Changes(before.config, c)
	if err := restarts(changes); err != nil {
		return nil, nil, err
	}
	if err := c.Validate(); err != nil {
		return nil, nil, err
	}
	next, err := newOutlets(c, a.dir, &a.senders)
	return next, changes, err
}

// restarts returns an error if one of the changes wants a restart.
func restarts(changes []config.Change) error {
	refused := &api.RefusedConfiguration{Restart: true, At: time.Now().UTC()}
	for _, c := range changes {
		if c.Restart {
			refused.Problems = append(refused.Problems, api.ConfigurationProblem{
				Key: c.Key, Message: c.String() + ", which takes a restart",
			})
		}
	}
	if len(refused.Problems) > 0 {
		return refused
	}
	return nil
}

// retire closes outlets once their events are finished.
func (a *App) retire(o *outlets, ended <-chan struct{}) {
	a.reloads.retired.Go(func() {
		if ended != nil {
			<-ended
		}
		if err := o.close(); err != nil {
			a.Logger.Log(context.Background(), slog.LevelWarn, "a sender of the configuration before was not closed", "error", err)
		}
	})
}

func keysOf(changes []config.Change) []string {
	keys := []string{}
	for _, c := range changes {
		keys = append(keys, c.Key)
	}
	return keys
}

// ofThePlan reports whether plans depend on a change.
func ofThePlan(c config.Change) bool {
	top, _, _ := strings.Cut(c.Key, ".")
	return !slices.Contains([]string{"staleness", "accept_duplicates_after_horizon", "policy", "suppressions", "tenant_limits"}, top)
}

// refusal says why a configuration was not taken.
func refusal(err error) *api.RefusedConfiguration {
	if refused, ok := errors.AsType[*api.RefusedConfiguration](err); ok {
		return refused
	}
	refused := &api.RefusedConfiguration{At: time.Now().UTC()}
	problems, ok := errors.AsType[config.Problems](err)
	if !ok {
		problems = config.Problems{{Message: err.Error()}}
	}
	for _, p := range problems {
		refused.Problems = append(refused.Problems, api.ConfigurationProblem{Key: p.Key, Place: p.Exact(), Message: p.Message})
	}
	return refused
}
