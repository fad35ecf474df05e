package dispatcher

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"tidings/streams/event"
)

// hall is what the events of a channel share, whichever of its providers they are
// for: how many of them are in hand (seats).
type hall struct {
	seats  *semaphore.Weighted // one for each event in hand that may call
	doubts *semaphore.Weighted // one for each of these whose messages are held when their fate is unknown
	plans  *semaphore.Weighted // one for each event that is planned without a seat, and would be in doubt all the same
	count  int                 // of seats

	taken atomic.Int32 // seats
	line  atomic.Int32 // events that wait for a seat, and not for long
	pace  pace         // at which seats become free
}

// outlet is a way out: a channel, as a tenant has it, with its providers in the order
// in which they are called.
type outlet struct {
	*hall
	Policy    Policy
	name      string // of what waits for it
	channel   string
	tenant    string // "" : every one that has none of its own
	providers []*provider
	now       func() time.Time
	turn      *semaphore.Weighted // of the one who waits at the breakers
	full      atomic.Int64        // since when there has been no seat at once, in ns; 0: there is
}

// ahead is how many events a channel may have in hand: more than it calls for at a
// time, because most of what is to be done about an event is not the call.
const ahead = 256

// soon is how long a claim may wait for a token.
const soon = 20 * time.Second

func newOutlet(channel, tenant string, c Channel, now func() time.Time) *outlet {
	c = c.withDefaults(channel)
	o := &outlet{Policy: c.Policy, name: channel, channel: channel, tenant: tenant, now: now, turn: newTurn()}
	if tenant != "" {
		o.name += "@" + tenant
	}
	count := 0
	for _, p := range c.Providers {
		o.providers = append(o.providers, newProvider(p, now))
		count = max(count, o.providers[len(o.providers)-1].seatCount())
	}
	o.hall = &hall{
		count: count, seats: semaphore.NewWeighted(int64(count)), plans: semaphore.NewWeighted(int64(c.Policy.Concurrency)),
		doubts: semaphore.NewWeighted(int64(min(count, c.Policy.Concurrency))),
	}
	return o
}

func newTurn() *semaphore.Weighted { return semaphore.NewWeighted(1) }

// within returns n as a whole number between 1 and most.
func within(n float64, most int) int { return int(max(1, min(math.Ceil(n), float64(most)))) }

// want is what an event asks for.
type want struct {
	held bool // its messages are held when their fate is unknown
	size int  // bytes of it that are in hand
}

// broad is how many bytes go with a seat. An event that is larger takes more of
// them, so that the large events of one channel leave room for others in memory.
const broad = 64 << 10

// places returns how many seats an event takes.
func (o *outlet) places(w want) int64 { return int64(min(1+w.size/broad, o.count)) }

// enter returns a seat if there is one now.
func (o *outlet) enter(w want) *seat {
	p := o.first()
	if p == nil || p.early() > 0 || w.held && !o.doubts.TryAcquire(1) {
		return nil
	}
	if !o.seats.TryAcquire(o.places(w)) {
		o.free(w, false)
		return nil
	}
	if o.full.Load() != 0 {
		o.full.Store(0)
	}
	return o.sit(w)
}

// await waits for a seat until ctx ends. Those who wait get theirs in the order in
// which they came.
func (o *outlet) await(ctx context.Context, w want) (*seat, error) {
	for {
		if s, err := o.next(ctx, w); s != nil || err != nil {
			return s, err
		}
	}
}

// next is one attempt of await. While the breaker is open, one waits at it and the
// others behind, so that they are let through in order too.
func (o *outlet) next(ctx context.Context, w want) (*seat, error) {
	if o.shut() {
		if o.turn.Acquire(ctx, 1) != nil {
			return nil, context.Cause(ctx)
		}
		defer o.turn.Release(1)
		if err := o.open(ctx); err != nil {
			return nil, err
		}
	}
	if p := o.first(); p != nil {
		if err := sleep(ctx, p.early()); err != nil {
			return nil, err
		}
	}
	if err := o.acquire(ctx, w); err != nil {
		return nil, err
	}
	return o.sit(w), nil
}

func (o *outlet) acquire(ctx context.Context, w want) error {
	if w.held {
		if err := o.doubts.Acquire(ctx, 1); err != nil {
			return context.Cause(ctx)
		}
	}
	if err := o.seats.Acquire(ctx, o.places(w)); err != nil {
		o.free(w, false)
		return context.Cause(ctx)
	}
	return nil
}

// sit makes a seat of what was acquired, unless the breakers say no.
func (o *outlet) sit(w want) *seat {
	s := &seat{outlet: o, want: w}
	if o.shut() {
		if s.trial = o.tryOne(); s.trial == nil {
			o.free(w, true)
			return nil
		}
	}
	o.taken.Add(1)
	return s
}

// tryOne takes the trial of the first provider of which one is due. nil: of none, or
// none is needed.
func (o *outlet) tryOne() *trial {
	for _, p := range o.providers {
		if ok, first := p.breaker.admit(o.now()); ok && first {
			return &trial{of: p}
		} else if ok {
			t := &trial{of: p} // it was closed meanwhile
			t.made.Store(true)
			return t
		}
	}
	return nil
}

// first returns the provider that would be called first now, nil if there is none.
func (o *outlet) first() *provider {
	for _, p := range o.providers {
		if p.closed() || p.breaker.ready(o.now()) {
			return p
		}
	}
	return nil
}

// shut reports whether no provider is known to get through.
func (o *outlet) shut() bool {
	for _, p := range o.providers {
		if p.closed() {
			return false
		}
	}
	return true
}

// open blocks until a provider may let somebody through, or ctx ends.
func (o *outlet) open(ctx context.Context) error {
	if len(o.providers) == 1 {
		return o.providers[0].breaker.wait(ctx, o.now)
	}
	either, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, p := range o.providers {
		go func() {
			if p.breaker.wait(either, o.now) == nil {
				cancel()
			}
		}()
	}
	<-either.Done()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// of returns the providers that may be called for a message, in order. One that may
// have been taken is for nobody but who may have it: another one would not know it
// for a repeat.
func (o *outlet) of(m event.Message) []*provider {
	if m.State != event.MessageUncertain || m.Via == "" {
		return o.providers
	}
	for i, p := range o.providers {
		if p.Name == m.Via {
			return o.providers[i : i+1]
		}
	}
	return nil
}

func (o *outlet) free(w want, seated bool) {
	if w.held {
		o.doubts.Release(1)
	}
	if seated {
		o.seats.Release(o.places(w))
	}
}

// patience is how long an event in hand waits for a seat.
const patience = time.Second

// lineUp waits for a seat if its turn is to be expected soon: where the channel has
// been full for a while, no more events may be before it than have lately left
// within the time that it would wait.
func (o *outlet) lineUp(ctx context.Context, w want) *seat {
	before := int(o.line.Add(1)) - 1
	defer o.line.Add(-1)
	now := o.now()
	o.full.CompareAndSwap(0, now.UnixNano())
	long := now.Sub(time.Unix(0, o.full.Load())) >= patience
	if o.shut() || long && before >= shortLine+o.pace.lately(now) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s, err := o.await(ctx, w)
	if err != nil {
		return nil
	}
	return s
}

// shortLine is how many may wait for a seat however slowly seats become free.
const shortLine = 64

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// pace counts what happens, by the second.
type pace struct {
	mu          sync.Mutex
	second      int64
	now, before int
}

func (p *pace) count(at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn(at.Unix())
	p.now++
}

// lately returns how often it happened in this second or in the one before,
// whichever is more.
func (p *pace) lately(at time.Time) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn(at.Unix())
	return max(p.now, p.before)
}

func (p *pace) turn(second int64) {
	switch second {
	case p.second:
		return
	case p.second + 1:
		p.before = p.now
	default:
		p.before = 0
	}
	p.second, p.now = second, 0
}
