package replay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"tidings/dispatcher/letters"
	"tidings/streams"
	"tidings/streams/event"
)

// Log holds the plans and the histories. [streams.Outcomes] is one.
type Log interface {
	AppendReplay(ctx context.Context, r event.Replay, after uint64) (uint64, error)
	Replay(ctx context.Context, id string) ([]event.Replay, uint64, error)
	Replays(ctx context.Context) ([]string, error)
	Last(ctx context.Context, tenant string, key event.Key) (streams.StoredRecord, error)
}

// Desk requeues one letter. [letters.Desk] is one.
type Desk interface {
	Requeue(ctx context.Context, t letters.Target, w letters.Word) (letters.Requeued, error)
}

// Options are what a Replayer needs. Log and Desk have no defaults.
type Options struct {
	Log  Log
	Desk Desk
	// Look is how often it is asked what became of letters; 500 ms if zero.
	Look   time.Duration
	Now    func() time.Time // nil: time.Now
	Logger *slog.Logger     // nil: discard
}

// Replayer makes replay plans and carries them out. Its methods may be called by
// any number of goroutines.
type Replayer struct {
	o     Options
	begun chan string // ids of plans to carry out

	mu      sync.Mutex
	running map[string]context.CancelFunc
	making  map[string]bool // plans whose letters are being written down here
}

// New returns a replayer. It does nothing before Run.
func New(o Options) *Replayer {
	if o.Look <= 0 {
		o.Look = 500 * time.Millisecond
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Replayer{o: o, begun: make(chan string, 64), running: map[string]context.CancelFunc{}, making: map[string]bool{}}
}

// Errors of making and stopping plans.
var (
	// ErrOrder means that a plan is asked for that cannot be meant.
	ErrOrder = errors.New("this is no replay")
	// ErrOver means that a plan has ended or was stopped already.
	ErrOver = errors.New("the replay is over")
)

// MaxLetters is how many letters one plan may have.
const MaxLetters = 100_000

// listed is how many letters one entry holds.
const listed = 1000

// Create makes a plan of the given letters, in their order, and begins it. order's
// count of letters is set here. It returns [ErrOrder], or an error of the log, after
// which the plan may exist and never starts: the next process ends it.
func (r *Replayer) Create(ctx context.Context, order event.ReplayOrder, of []event.ReplayLetter) (State, error) {
	if err := checkOrder(order, of); err != nil {
		return State{}, err
	}
	id := event.NewNonce()
	order.Letters = len(of)
	p := &plan{Replayer: r, state: State{ID: id}}
	defer r.beginMaking(id)()
	if err := p.append(ctx, event.Replay{Step: event.ReplayCreated, Order: &order}); err != nil {
		return State{}, err
	}
	for some := range slices.Chunk(of, listed) {
		if err := p.append(ctx, event.Replay{Step: event.ReplayListed, Letters: some}); err != nil {
			return State{}, err
		}
	}
	select {
	case r.begun <- id:
		return p.state, nil
	case <-ctx.Done():
		return p.state, ctx.Err() // the next process goes on with it
	}
}

// beginMaking says that a plan is being made here until done is called.
func (r *Replayer) beginMaking(id string) (done func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.making[id] = true
	return func() { r.mu.Lock(); delete(r.making, id); r.mu.Unlock() }
}

func (r *Replayer) isMaking(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.making[id]
}

func checkOrder(o event.ReplayOrder, of []event.ReplayLetter) error {
	switch {
	case len(of) == 0:
		return fmt.Errorf("%w: no dead letter is chosen", ErrOrder)
	case len(of) > MaxLetters:
		return fmt.Errorf("%w: %d dead letters are chosen, and one plan may have %d: choose fewer, and make several", ErrOrder, len(of), MaxLetters)
	case o.Rate < 0 || o.Canary < 0:
		return fmt.Errorf("%w: rate and canary are not negative", ErrOrder)
	case strings.TrimSpace(o.Operator) == "" || strings.TrimSpace(o.Reason) == "":
		return fmt.Errorf("%w: it needs an operator and a reason, for the histories", ErrOrder)
	}
	return nil
}

// Get returns where a plan stands, or [streams.ErrNotFound].
func (r *Replayer) Get(ctx context.Context, id string) (State, error) {
	entries, _, err := r.o.Log.Replay(ctx, id)
	if err != nil {
		return State{}, err
	}
	return fold(entries), nil
}

// List returns all plans that the log remembers, the newest first.
func (r *Replayer) List(ctx context.Context) ([]State, error) {
	ids, err := r.o.Log.Replays(ctx)
	if err != nil {
		return nil, err
	}
	plans := make([]State, 0, len(ids))
	for _, id := range ids {
		s, err := r.Get(ctx, id)
		if err != nil && !errors.Is(err, streams.ErrNotFound) && !errors.Is(err, streams.ErrForeign) {
			return nil, err
		}
		if err == nil {
			plans = append(plans, s)
		}
	}
	slices.SortFunc(plans, func(a, b State) int { return b.CreatedAt.Compare(a.CreatedAt) })
	return plans, nil
}

// Stop ends a plan by an operator's word: what is requeued stays so. It returns
// [ErrOver], or [streams.ErrNotFound].
func (r *Replayer) Stop(ctx context.Context, id, operator, reason string) (State, error) {
	for {
		p, err := r.load(ctx, id)
		switch {
		case err != nil:
			return State{}, err
		case p.state.Over():
			return p.state, fmt.Errorf("%w: it is %s", ErrOver, p.state.Phase)
		}
		err = p.append(ctx, event.Replay{
			Step: event.ReplayStopped, Progress: p.state.Progress, Operator: operator, Reason: reason,
		})
		if errors.Is(err, streams.ErrChanged) {
			continue // it went on meanwhile
		}
		r.cancel(id)
		return p.state, err
	}
}

func (r *Replayer) cancel(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if cancel := r.running[id]; cancel != nil {
		cancel()
	}
}

func (r *Replayer) load(ctx context.Context, id string) (*plan, error) {
	entries, last, err := r.o.Log.Replay(ctx, id)
	if err != nil {
		return nil, err
	}
	return &plan{Replayer: r, state: fold(entries), last: last}, nil
}

// Run carries plans out, those that an earlier process left behind first, until ctx
// is done. It returns nil then.
func (r *Replayer) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { r.resume(ctx); return nil })
	for {
		select {
		case <-ctx.Done():
			return g.Wait()
		case id := <-r.begun:
			g.Go(func() error { r.carryOut(ctx, id); return nil })
		}
	}
}

// resume begins what is not over, and ends what was never made whole.
func (r *Replayer) resume(ctx context.Context) {
	var plans []State
	r.until(ctx, "list the replay plans", func() (err error) {
		plans, err = r.List(ctx)
		return err
	})
	for _, p := range plans {
		switch p.Phase {
		case Running:
			select {
			case r.begun <- p.ID:
			case <-ctx.Done():
			}
		case Listing:
			r.abandon(ctx, p.ID)
		case Stopped, Ended:
		}
	}
}

// abandon ends a plan of a process that died, or lost the log, before it had written down
// which letters it has: nothing was done for it, and nobody knows the rest of them.
func (r *Replayer) abandon(ctx context.Context, id string) {
	if r.isMaking(id) {
		return
	}
	r.until(ctx, "end "+id, func() error {
		p, err := r.load(ctx, id)
		if err != nil || p.state.Phase != Listing {
			return err
		}
		return p.append(ctx, event.Replay{
			Step:   event.ReplayStopped,
			Reason: fmt.Sprintf("it was cut off when %d of its %d letters were written down, and has done nothing: make it again", len(p.state.letters), p.state.Order.Letters),
		})
	})
}

// until repeats a step until it succeeds or ctx is done, and reports which.
func (r *Replayer) until(ctx context.Context, what string, step func() error) bool {
	for pause := r.o.Look; ; pause = min(2*pause, 10*time.Second) {
		err := step()
		if err == nil {
			return true
		}
		if ctx.Err() == nil {
			r.o.Logger.Warn("a replay plan waits", "to", what, "error", err)
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(pause):
		}
	}
}

// carryOut goes on with a plan until it is over, unless this process does already.
func (r *Replayer) carryOut(ctx context.Context, id string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.mu.Lock()
	_, already := r.running[id]
	if !already {
		r.running[id] = cancel
	}
	r.mu.Unlock()
	if already {
		return
	}
	defer func() { r.mu.Lock(); delete(r.running, id); r.mu.Unlock() }()
	for ctx.Err() == nil {
		over := false
		r.until(ctx, "go on with "+id, func() error {
			p, err := r.load(ctx, id)
			if err == nil {
				err = p.run(ctx)
				over = p.state.Over()
			}
			return err
		})
		if over {
			return
		}
	}
}
