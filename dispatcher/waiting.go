package dispatcher

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"tidings/streams"
)

// waitingAge is how old what is known of those who wait may be.
const waitingAge = time.Second

// waiting is how many events wait, and the gate that is shut when they are too many.
type waiting struct {
	most int
	ask  func(context.Context) (total int, aside map[string]int, err error)

	mu    sync.Mutex
	asked time.Time
	total int            // as the log said
	added int            // since then
	aside map[string]int // by way, as the log said
}

// add says that another one waits. Those that end meanwhile are counted a moment
// later.
func (w *waiting) add() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.added++
}

// gate blocks while too many wait, or until ctx ends. What those who wait need to
// go on does not pass it.
func (w *waiting) gate(ctx context.Context) {
	for w.count(ctx) >= w.most {
		if sleep(ctx, waitingAge) != nil {
			return
		}
	}
}

// count returns how many wait, as of a moment ago. If the log does not say, what
// it said before counts.
func (w *waiting) count(ctx context.Context) int {
	w.mu.Lock()
	fresh, total := time.Since(w.asked) < waitingAge, w.total+w.added
	w.mu.Unlock()
	if fresh {
		return total
	}
	ctx, cancel := context.WithTimeout(ctx, waitingAge)
	defer cancel()
	total, aside, err := w.ask(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.total, w.aside, w.added = total, aside, 0
	}
	w.asked = time.Now()
	return w.total + w.added
}

func (w *waiting) known() (total int, aside map[string]int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.total + w.added, maps.Clone(w.aside)
}

// watch keeps what is known fresh until ctx ends.
func (w *waiting) watch(ctx context.Context) {
	for sleep(ctx, 5*waitingAge) == nil {
		w.count(ctx)
	}
}

func (d *Dispatcher) askWaiting(ctx context.Context) (int, map[string]int, error) {
	info, err := d.log.Retries.Info(ctx)
	if err != nil {
		return 0, nil, err
	}
	aside, err := d.log.Retries.Aside(ctx)
	return int(info.Messages), aside, err
}

// consumeAside takes what was set aside, for every way at its own pace. What was set
// aside for a way that does not exist any more is taken too: the plan says what
// becomes of it.
func (d *Dispatcher) consumeAside(ctx context.Context, aside map[string]int) error {
	g, ctx := errgroup.WithContext(ctx)
	c := consumers{d: d, group: g, of: map[string]consumer{}}
	for _, o := range slices.Collect(d.inForce().ways.all()) {
		c.attend(ctx, o.name, o.count)
	}
	for _, name := range slices.Sorted(maps.Keys(aside)) {
		if d.inForce().ways.named(name) == nil && aside[name] > 0 {
			c.attend(ctx, name, 1)
		}
	}
	g.Go(func() error {
		for {
			v := d.inForce()
			for o := range v.ways.all() {
				c.attend(ctx, o.name, o.count)
			}
			for _, o := range v.ways.unattended() {
				c.attend(ctx, o.name, o.count)
			}
			select {
			case <-ctx.Done():
				return nil
			case <-d.changed:
			}
		}
	})
	g.Go(func() error { d.waiting.watch(ctx); return nil })
	return g.Wait()
}

// consumers take what was set aside, one for each way. One of a way that is gone goes
// on: somebody must take what is still there.
type consumers struct {
	d     *Dispatcher
	group *errgroup.Group
	of    map[string]consumer // by way
}

type consumer struct {
	workers int
	end     context.CancelFunc
}

// attend has somebody look after a way, with so many workers.
func (c *consumers) attend(ctx context.Context, way string, workers int) {
	workers = min(workers, asideWorkers)
	before, there := c.of[way]
	if there && before.workers == workers {
		return
	}
	ctx, end := context.WithCancel(ctx)
	c.of[way] = consumer{workers, end}
	c.group.Go(func() error {
		o := c.d.consume
		o.Workers = workers
		return c.d.log.Retries.ConsumeAside(ctx, way, o, c.d.handleAside(way))
	})
	if there {
		before.end() // what it has in hand it finishes
	}
}

// asideWorkers is how many events that were set aside a way has in hand. They
// take a seat each.
const asideWorkers = 128

// recall looks for what an earlier process has set aside. Where there is something
// the channel may still not get through, so that one call is to show it first.
func (d *Dispatcher) recall(ctx context.Context) (aside map[string]int) {
	_ = d.persist(ctx, "look for what was set aside", func(ctx context.Context) (err error) {
		aside, err = d.log.Retries.Aside(ctx)
		return err
	})
	for name, n := range aside {
		o := d.inForce().ways.named(name)
		if o == nil || n == 0 {
			continue
		}
		for _, p := range o.providers {
			p.breaker.change(func(c *circuit) { c.suspect(d.now()) })
		}
	}
	return aside
}

// handleNew handles a delivery that comes without a seat.
func (d *Dispatcher) handleNew(ctx context.Context, del *streams.Delivery) { d.handle(ctx, del, nil) }
