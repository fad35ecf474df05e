package dispatcher

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"tidings/streams/event"
)

// outlet is a channel with what keeps it from taking more than its share: how many
// calls at a time (slots), how many in a time (tokens), how many events in hand
// (seats), and whether it gets through at all (breaker).
type outlet struct {
	Channel
	now     func() time.Time
	breaker *breaker
	slots   *semaphore.Weighted // one for each call under way
	seats   *semaphore.Weighted // one for each event in hand that may call
	doubts  *semaphore.Weighted // one for each of these whose messages are held when their fate is unknown
	turn    *semaphore.Weighted // of the one who waits at the breaker
	plans   *semaphore.Weighted // one for each event that is planned without a seat, and would be in doubt all the same
	tokens  *rate.Limiter       // nil: as many as there are slots
	room    int                 // messages that a claim may name

	calls atomic.Int32  // under way
	stuck atomic.Int32  // of these, those that go on although their time is over
	late  atomic.Uint64 // calls that waited for a token
	taken atomic.Int32  // seats
	full  atomic.Int64  // since when there has been no seat at once, in ns; 0: there is
	line  atomic.Int32  // events that wait for a seat, and not for long
	pace  pace          // at which seats become free
}

// ahead is how many events a channel may have in hand: more than it calls for at a
// time, because most of what is to be done about an event is not the call.
const ahead = 256

// soon is how long a claim may wait for a token.
const soon = 20 * time.Second

func newOutlet(c Channel, now func() time.Time) *outlet {
	c.Policy = c.Policy.withDefaults()
	p := c.Policy
	o := &outlet{Channel: c, now: now, breaker: newBreaker(p), room: claimLimit}
	seats := o.seatCount()
	if p.Rate > 0 {
		o.tokens = rate.NewLimiter(rate.Limit(p.Rate), p.Burst)
		o.room = within(p.Rate*soon.Seconds()/2+float64(p.Burst), claimLimit)
	}
	o.slots = semaphore.NewWeighted(int64(p.Concurrency))
	o.seats = semaphore.NewWeighted(int64(seats))
	o.turn = semaphore.NewWeighted(1)
	o.plans = semaphore.NewWeighted(int64(p.Concurrency))
	o.doubts = semaphore.NewWeighted(int64(min(seats, p.Concurrency)))
	return o
}

// seatCount is how many events a channel has in hand: with a rate, no more than
// find a token within two seconds.
func (o *outlet) seatCount() int {
	p := o.Policy
	seats := max(p.Concurrency, ahead)
	if p.Rate > 0 {
		seats = within(2*p.Rate+float64(p.Burst-1), seats)
	}
	return seats
}

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

// seat is the right of an event in hand to call a channel.
type seat struct {
	*outlet
	want
	trial bool // its first call shows whether the channel gets through again
}

// places returns how many seats an event takes.
func (o *outlet) places(w want) int64 { return int64(min(1+w.size/broad, o.seatCount())) }

// enter returns a seat if there is one now.
func (o *outlet) enter(w want) *seat {
	if o.breaker.shut.Load() && !o.breaker.ready(o.now()) || o.early() > 0 || w.held && !o.doubts.TryAcquire(1) {
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
	if o.breaker.shut.Load() {
		if o.turn.Acquire(ctx, 1) != nil {
			return nil, context.Cause(ctx)
		}
		defer o.turn.Release(1)
		if err := o.breaker.wait(ctx, o.now); err != nil {
			return nil, err
		}
	}
	if err := sleep(ctx, o.early()); err != nil {
		return nil, err
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

// sit makes a seat of what was acquired, unless the breaker says no.
func (o *outlet) sit(w want) *seat {
	ok, trial := o.breaker.admit(o.now())
	if !ok {
		o.free(w, true)
		return nil
	}
	o.taken.Add(1)
	return &seat{outlet: o, want: w, trial: trial}
}

func (o *outlet) free(w want, seated bool) {
	if w.held {
		o.doubts.Release(1)
	}
	if seated {
		o.seats.Release(o.places(w))
	}
}

// leave gives the seat back.
func (s *seat) leave() {
	if s.trial {
		s.breaker.giveBack() // if it was not made
	}
	s.taken.Add(-1)
	s.pace.count(s.now())
	s.free(s.want, true)
}

// names returns how many messages a claim may name on the channel: one for a trial.
func (s *seat) names() int {
	switch {
	case !s.breaker.lets(s.trial):
		return 0
	case s.breaker.shut.Load():
		return 1
	}
	return s.room
}

// said tells the breaker how a call ended.
func (s *seat) said(t *event.Tried, after time.Duration) {
	s.breaker.result(t.Ended, called{provider: t.Provider, code: t.Code, result: t.Result, after: after}, s.trial)
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
	if o.breaker.shut.Load() || long && before >= shortLine+o.pace.lately(now) {
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

// early returns how long it is until a token is to be had soon.
func (o *outlet) early() time.Duration {
	if o.tokens == nil {
		return 0
	}
	missing := 1 - o.tokens.TokensAt(o.now())
	return max(0, time.Duration(missing/float64(o.tokens.Limit())*float64(time.Second))-soon)
}

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
