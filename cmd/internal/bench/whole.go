package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"tidings/dispatcher"
	"tidings/dispatcher/channel/webhook"
	"tidings/dispatcher/plan"
	"tidings/projector"
	"tidings/store"
	"tidings/streams"
	"tidings/streams/event"
)

// The one route of the benchmark, and its channel.
const (
	hookRoute   = "bench"
	hookChannel = "hook"
)

// whole is the product in one process and a directory of its own: the parts as
// the process runs them, but for the API and the steward, and a provider.
type whole struct {
	*place
	receiver   *receiver
	hooks      *webhook.Sender
	store      *store.Store
	projection *projector.Projector
	dispatcher *dispatcher.Dispatcher
	stopBase   func() error // ends log and projector
}

// openWhole starts the provider, the log and the projector. The dispatcher is
// for work to start.
func openWhole(ctx context.Context, o streams.Options, expect int) (_ *whole, err error) {
	w := &whole{}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	if w.receiver, err = startReceiver(expect); err != nil {
		return nil, err
	}
	if w.hooks, err = webhook.New(webhook.Config{AllowPrivate: true, Secrets: []string{webhook.NewSecret()}}); err != nil {
		return nil, err
	}
	if w.place, err = openLog(ctx, o); err != nil {
		return nil, err
	}
	if w.store, err = store.Open(filepath.Join(w.dir, "ledger.db"), store.Options{}); err != nil {
		return nil, err
	}
	w.projection = projector.New(projector.Options{Outcomes: w.log.Outcomes, DeadLetters: w.log.DeadLetters, Store: w.store})
	if w.dispatcher, err = w.newDispatcher(); err != nil {
		return nil, err
	}
	w.runBase(ctx)
	return w, nil
}

func (w *whole) newDispatcher() (*dispatcher.Dispatcher, error) {
	rules := plan.Rules{Routes: []plan.Route{{
		Name: hookRoute, Event: eventType, Channel: hookChannel, Recipients: fmt.Sprintf("%q", w.receiver.url),
	}}}
	planner, err := plan.Compile(rules, nil, plan.Options{
		Secret: []byte(event.NewNonce()), Channels: map[string]plan.Channel{hookChannel: {Kind: plan.Webhook}},
	})
	if err != nil {
		return nil, err
	}
	return dispatcher.New(dispatcher.Options{
		Log: w.log, Planner: planner, Owner: event.Owner{Instance: "bench", Boot: event.NewNonce()},
		Channels:  map[string]dispatcher.Channel{hookChannel: {Sender: w.hooks}},
		Staleness: 7 * 24 * time.Hour,
		Paused:    func() string { return w.projection.Status().Damaged() },
	})
}

// runBase runs what outlives the parts that take work.
func (w *whole) runBase(ctx context.Context) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var g errgroup.Group
	g.Go(func() error { return w.log.Run(ctx) })
	g.Go(func() error { return w.projection.Run(ctx) })
	w.stopBase = func() error { cancel(); return g.Wait() }
}

// work runs the dispatcher, and whatever brings events, while fn runs. A part
// that ends early ends fn's context.
func (w *whole) work(ctx context.Context, bring, fn func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	for _, run := range []func(context.Context) error{w.dispatcher.Run, bring} {
		g.Go(func() error {
			err := run(ctx)
			if err == nil && ctx.Err() == nil {
				err = errEnded
			}
			return err
		})
	}
	g.Go(func() error { defer cancel(); return fn(ctx) })
	return g.Wait()
}

// settled returns when the ledger has n events that have all been processed. An
// event has two records if all goes well, and more if the machine is slow.
func (w *whole) settled(ctx context.Context, n int) error {
	for sequence := uint64(2 * n); ; sequence++ {
		if err := w.projection.CaughtUp(ctx, sequence); err != nil {
			return err
		}
		c, err := w.store.Counts()
		if err != nil {
			return err
		}
		if c.Letters > 0 || c.Duplicates > 0 || c.Events() > n {
			return fmt.Errorf("the ledger has %d events, %d duplicates and %d dead letters instead of %d events alone: "+
				"the connection to RabbitMQ broke meanwhile, or the machine is too slow; measure again", c.Events(), c.Duplicates, c.Letters, n)
		}
		if c.Outcomes[event.Processed] == n {
			return nil
		}
	}
}

// close ends and removes everything.
func (w *whole) close() error {
	var errs []error
	if w.stopBase != nil {
		errs = append(errs, w.stopBase())
	}
	if w.hooks != nil {
		errs = append(errs, w.hooks.Close())
	}
	if w.receiver != nil {
		errs = append(errs, w.receiver.close())
	}
	if w.store != nil {
		errs = append(errs, w.store.Close())
	}
	if w.place != nil {
		w.place.close()
	}
	return errors.Join(errs...)
}
