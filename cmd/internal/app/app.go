// Package app wires the parts of Tidings into one process.
//
//	RabbitMQ ──► bridge ──┐                      ┌──► mail, webhooks
//	                      ▼                      │
//	HTTP ──► api ──► door ──► EVENTS ──► dispatcher ──► OUTCOMES, DEADLETTERS
//	          ▲                  ▲           ▲                │
//	          │                  └─ steward ─┴── RETRIES      ▼
//	          └──────────────── store (bbolt) ◄────────── projector
//
// What to believe: [New] opens the data directory and checks everything that
// the configuration says, and starts nothing. [App.Run] runs all parts until it
// is told to stop, and then ends them from the intake down: what takes work
// stops first, what is in hand is finished and recorded, and the log and the
// ledger close last.
package app

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"tidings/cmd/internal/api"
	"tidings/cmd/internal/config"
	"tidings/cmd/internal/metrics"
	"tidings/dispatcher"
	"tidings/dispatcher/letters"
	"tidings/dispatcher/replay"
	"tidings/dispatcher/steward"
	"tidings/projector"
	"tidings/store"
	"tidings/streams"
	"tidings/streams/event"
)

// Options are what an App is made of.
type Options struct {
	Config config.Config
	// Load reads the configuration anew, as Config was read; nil: it cannot be.
	Load    func() (config.Config, error)
	Version string
	Logger  *slog.Logger // nil: discard
	// Listening is called once with the API's base URL, when it takes requests. It may be nil.
	Listening func(url string)
}

// App is one process of Tidings. Make it with New, run it once, and Close it.
type App struct {
	Options
	dir        *directory
	store      *store.Store
	api        *api.Server
	metrics    *metrics.Metrics
	senders    senders // those that are open
	current    inForce // planner, channels, suppressions
	reloads    reloads
	log        logPart                      // there once it is open
	desk       atomic.Pointer[letters.Desk] // the same
	replays    atomic.Pointer[replay.Replayer]
	parts      atomic.Value // of []part: what can say how it is doing
	bridges    atomic.Value // of []*bridge.Bridge: one of every source
	ledger     atomic.Pointer[projector.Projector]
	upkeep     *projector.Upkeep
	stop       atomic.Bool    // Run was told to stop
	closes     []func() error // in reverse order
	dispatcher atomic.Pointer[dispatcher.Dispatcher]
}

// New opens and locks the data directory and prepares all parts. Its errors say
// what in the configuration, its templates or the directory is to be mended.
func New(o Options) (_ *App, err error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	a := &App{Options: o}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
		}
	}()
	if err := o.Config.Validate(); err != nil {
		return nil, err
	}
	if a.dir, err = openDirectory(o.Config.Data); err != nil {
		return nil, err
	}
	a.onClose(a.dir.close)
	if err := a.firstOutlets(); err != nil {
		return nil, err
	}
	if a.store, err = store.Open(a.dir.file(ledgerFile), store.Options{}); err != nil {
		return nil, err
	}
	a.onClose(a.store.Close)
	token, err := a.token()
	if err != nil {
		return nil, err
	}
	a.upkeep = projector.NewUpkeep(projector.UpkeepOptions{Store: a.store, Source: a.source, Logger: o.Logger})
	a.metrics = metrics.New(metrics.Options{Version: o.Version, Sources: a.statuses, Dispatcher: a.dispatchers, Configuration: a.configurations, Logger: o.Logger})
	a.api, err = api.New(api.Options{
		Ledger: a.store, Door: &a.log, Letters: &a.log, Records: a.log.records, Archive: a.log.archive, Desk: a.desk.Load, Replays: a.replays.Load, Skips: a.skips, Upkeep: a.upkeep, Read: a.log.Read, Planner: &a.current, Folded: a.folded, Reload: a.reload(), Configuration: a.configuration, Token: token, Version: o.Version,
		Parts: a.health, Behind: a.behind, Sources: a.sources, Dispatcher: a.dispatching, Streams: a.log.sizes, Metrics: a.metrics.Handler(), Logger: o.Logger,
	})
	return a, err
}

func (a *App) onClose(f func() error) { a.closes = append(a.closes, f) }

// Close releases what New opened. It is called after Run has returned.
func (a *App) Close() error {
	var errs []error
	for i := len(a.closes) - 1; i >= 0; i-- {
		errs = append(errs, a.closes[i]())
	}
	a.closes = nil
	return errors.Join(errs...)
}

// folded waits until the ledger has the entry of OUTCOMES at a sequence.
func (a *App) folded(ctx context.Context, sequence uint64) error {
	if p := a.ledger.Load(); p != nil {
		return p.CaughtUp(ctx, sequence)
	}
	return errNoLog
}

// source is what the ledger is made anew from, false while the log is not open. It is
// read on the connection of readers, which may be cut.
func (a *App) source() (projector.Source, bool) {
	p, r := a.ledger.Load(), a.log.copied.Load()
	if p == nil || r == nil {
		return projector.Source{}, false
	}
	return projector.Source{Outcomes: r.Outcomes, DeadLetters: r.DeadLetters, Live: p}, true
}

// skipping is where entries are skipped that cannot be folded.
type skipping struct {
	*projector.Projector
	log projector.Skipping
}

// Skip implements [api.Skips].
func (s skipping) Skip(ctx context.Context, sequence uint64, operator, reason string) (event.Skip, uint64, error) {
	return s.Projector.Skip(ctx, s.log, sequence, operator, reason)
}

func (a *App) skips() api.Skips {
	if p, log := a.ledger.Load(), a.log.get(); p != nil && log != nil {
		return skipping{p, log.Outcomes}
	}
	return nil
}

// token returns the API's token: the configured one, or that of the directory.
func (a *App) token() (string, error) {
	if t := a.Config.API.Token.Reveal(); t != "" {
		return t, nil
	}
	return api.EnsureToken(a.dir.path)
}

// Run runs all parts until ctx is done or one of them cannot go on. It waits
// out a RabbitMQ or NATS that is down, now or later.
func (a *App) Run(ctx context.Context) error {
	told := context.AfterFunc(ctx, func() {
		a.Logger.Info("stopping: finishing what is in hand, at most 25 s; interrupt again to end at once")
	})
	defer told()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	context.AfterFunc(ctx, func() { a.stop.Store(true) })
	a.Logger.Info("tidings starts", "version", a.Version, "data", a.dir.path)
	if a.dir.fresh {
		a.Logger.Info("the data directory is new: nothing is remembered from before", "data", a.dir.path)
	}
	a.parts.Store([]part{a.log.health})

	base, endBase := newStage(ctx, cancel)
	listener, err := api.Listen(ctx, a.Config.API.Listen)
	if err != nil {
		return errors.Join(err, endBase())
	}
	base.Go(func(ctx context.Context) error { return a.api.Run(ctx, listener) })
	if a.Listening != nil {
		a.Listening("http://" + listener.Addr().String())
	}
	err = a.runOnLog(ctx, cancel)
	return errors.Join(err, endBase())
}

// runOnLog opens the log and runs everything that lives on it.
func (a *App) runOnLog(ctx context.Context, cancel context.CancelFunc) error {
	closeLog, err := a.log.open(ctx, a.Config, a.dir, a.Logger)
	if err != nil {
		if ctx.Err() != nil {
			return nil // told to stop while it waited
		}
		return err
	}
	defer closeLog()
	if err := a.log.openFollowers(ctx, a.Config.NATS); err != nil {
		return err
	}
	log := a.log.get()

	a.desk.Store(letters.New(letters.Options{
		Outcomes: log.Outcomes, Letters: log.DeadLetters, Events: log.Events, Waker: log.Retries,
		Door:    readmission{door: a.log.door.Load(), sources: a.Config.AllSources()},
		Planner: &a.current, Suppressions: &a.current, Logger: a.Logger,
	}))
	a.replays.Store(replay.New(replay.Options{Log: log.Outcomes, Desk: a.desk.Load(), Logger: a.Logger}))

	projection := projector.New(projector.Options{
		Outcomes: log.Outcomes, DeadLetters: log.DeadLetters, Store: a.store, Logger: a.Logger,
	})
	a.ledger.Store(projection)
	core, endCore := newStage(ctx, cancel)
	core.Go(log.Run)
	core.Go(projection.Run)
	core.Go(a.upkeep.Run)

	work, err := a.workParts(log, projection)
	if err != nil {
		return errors.Join(err, endCore())
	}
	g, workCtx := errgroup.WithContext(ctx)
	for _, run := range work {
		g.Go(func() error { return run(workCtx) })
	}
	err = g.Wait()
	a.finishProjection(log, projection)
	return errors.Join(err, endCore())
}

// workParts makes the parts that take work: they stop first.
func (a *App) workParts(log *streams.Log, projection *projector.Projector) ([]func(context.Context) error, error) {
	d, err := a.newDispatcher(log, projection)
	if err != nil {
		return nil, err
	}
	s := steward.New(steward.Options{
		Ledger: stewardship{a.store, projection, log}, Waker: log.Retries, Events: log.Events,
		Histories: log.Outcomes, Letters: log.DeadLetters,
		Keep: a.Config.Events.Keep.Std(), Horizon: a.Config.Horizon.Std(), Logger: a.Logger,
	})
	parts := []part{a.log.health, dispatcherHealth(d), projectorHealth(projection), stewardHealth(s)}
	work := []func(context.Context) error{d.Run, a.replays.Load().Run, afterCatchingUp(log, projection, s.Run)}
	bridges, err := a.newBridges()
	if err != nil {
		return nil, err
	}
	for _, b := range bridges {
		work, parts = append(work, b.Run), append(parts, bridgeHealth(b))
	}
	a.parts.Store(parts)
	return work, nil
}

// newDispatcher makes the dispatcher by what is in force by now.
func (a *App) newDispatcher(log *streams.Log, projection *projector.Projector) (*dispatcher.Dispatcher, error) {
	a.reloads.mu.Lock()
	defer a.reloads.mu.Unlock()
	s := a.current.Load().setup()
	d, err := dispatcher.New(dispatcher.Options{
		Log: log, Owner: a.dir.owner, Planner: s.Planner, Channels: s.Channels, Tenants: s.Tenants,
		Suppressions: s.Suppressions, Staleness: s.Staleness, Crashes: s.Crashes,
		MaxWaiting: a.Config.MaxWaiting, Logger: a.Logger, Tried: a.metrics.Tried,
		Paused: func() string { return projection.Status().Damaged() },
	})
	if err == nil {
		a.dispatcher.Store(d)
	}
	return d, err
}

// afterCatchingUp delays a part that reads the ledger until it is what the log was
// when the process began. A projector that halted is never caught up with:
// readiness says so, events still move, and nobody is woken by the ledger.
func afterCatchingUp(log *streams.Log, p *projector.Projector, run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		for {
			info, err := log.Outcomes.Info(ctx)
			if err == nil {
				err = p.CaughtUp(ctx, info.Last)
			}
			if err == nil {
				return run(ctx)
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(time.Second):
			}
		}
	}
}

// finishProjection lets the ledger take in what the drain recorded, for a
// moment: what it misses it takes in at the next start.
func (a *App) finishProjection(log *streams.Log, p *projector.Projector) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if info, err := log.Outcomes.Info(ctx); err == nil {
		_ = p.CaughtUp(ctx, info.Last)
	}
}

// stage is a group of parts that outlives the context it was made with, until
// it is ended. A part of it that fails ends the whole process.
type stage struct {
	ctx    context.Context
	failed context.CancelFunc
	group  *errgroup.Group
}

func newStage(ctx context.Context, failed context.CancelFunc) (*stage, func() error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	g, ctx := errgroup.WithContext(ctx)
	s := &stage{ctx: ctx, failed: failed, group: g}
	return s, func() error { cancel(); return g.Wait() }
}

// Go runs a part until the stage ends.
func (s *stage) Go(run func(context.Context) error) {
	s.group.Go(func() error {
		if err := run(s.ctx); err != nil && !errors.Is(err, context.Canceled) {
			s.failed()
			return err
		}
		return nil
	})
}
