package simulation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"tidings/dispatcher"
	"tidings/dispatcher/steward"
	"tidings/streams"
	"tidings/streams/event"
)

// process is one process with the real parts in it, or somebody else who uses the
// log. The world's mutex guards its fields.
type process struct {
	w     *world
	name  string
	owner event.Owner

	dead   bool // it was killed: nothing comes from it any more
	ended  bool // it has ended by itself, as it was told to
	lossy  bool // and it could not reach the log while it did
	paused bool // it was stopped, or nothing reaches it and nothing comes from it
	apart  bool // it has lost the log
	// until is when it may go on, or reach the log again, before the calm.
	until time.Time
	clock time.Duration
	// troubled is when a fault last hit it that may cost it a claim.
	troubled time.Time
	stopping bool

	links []*link
	nc    *nats.Conn
	log   *streams.Log
	stop  context.CancelFunc // of the parts that take work
	quit  context.CancelFunc // of the log too
	calls map[string]int     // so far, by message
	// looked is when the log last answered it about an event, and asked when it was
	// last told that it may write to a recipient: a message in doubt is looked up
	// after that.
	looked, asked map[string]time.Duration
}

var errDead = errors.New("the process is dead")

func (w *world) processOf(l *link) *process {
	for _, p := range w.processes {
		if slices.Contains(p.links, l) {
			return p
		}
	}
	return nil
}

// InProcessConn implements nats.InProcessConnProvider.
func (p *process) InProcessConn() (net.Conn, error) {
	p.w.server.mu.Lock()
	defer p.w.server.mu.Unlock()
	if p.dead || p.apart {
		return nil, nats.ErrNoServers
	}
	l := p.w.server.dial(p.name)
	p.links = append(p.links, l)
	return l, nil
}

// open connects somebody to the log.
func (w *world) open(name string) *process {
	p := &process{w: w, name: name, calls: map[string]int{}, looked: map[string]time.Duration{}, asked: map[string]time.Duration{}}
	w.server.mu.Lock()
	w.processes = append(w.processes, p)
	w.server.mu.Unlock()
	options := append(streams.ConnectOptions(name, slog.New(slog.DiscardHandler)), nats.InProcessServer(p),
		nats.CustomReconnectDelay(func(int) time.Duration { return time.Second }))
	nc, err := nats.Connect("", options...)
	w.must(err)
	p.nc = nc
	ctx, quit := context.WithCancel(context.Background())
	p.quit = quit
	p.log, err = streams.Open(ctx, nc, streams.Options{
		// Group commit would decide for itself which of several appends comes first.
		Durability: streams.Relaxed, DuplicateWindow: time.Second, Steady: true,
	})
	w.must(err)
	go func() {
		if err := p.log.Run(ctx); err != nil && !p.isDead() {
			w.fail("the log of %s ended: %v", p.name, err)
		}
	}()
	return p
}

func (w *world) must(err error) {
	if err != nil {
		panic(err)
	}
}

// fail is violate for everybody but the world's own goroutine.
func (w *world) fail(format string, args ...any) {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	w.violate(format, args...)
}

func (p *process) isDead() bool {
	p.w.server.mu.Lock()
	defer p.w.server.mu.Unlock()
	return p.dead
}

// boot starts a process of an instance: dispatcher and steward.
func (w *world) boot(instance string, n int, clock time.Duration) *process {
	p := w.open(fmt.Sprintf("%s%d", instance, n))
	p.owner = event.Owner{Instance: instance, Boot: fmt.Sprint(n)}
	p.clock = clock
	w.tell(p.name, "starts")
	d, err := dispatcher.New(dispatcher.Options{
		Log: p.log, Owner: p.owner, Planner: planner{p}, Suppressions: suppressions{p},
		Channels: map[string]dispatcher.Channel{
			hooks: {Sender: sender{p, hooks}, Policy: w.policy(64)},
			mails: {Sender: sender{p, mails}, Policy: w.policy(w.mailLimit)},
		},
		Staleness: 168 * time.Hour, Workers: w.workers, Steady: true, Now: p.now,
		Consume: streams.ConsumeOptions{MaxDeliver: w.maxDeliver},
	})
	w.must(err)
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	s := steward.New(steward.Options{
		Ledger: ledger{p}, Waker: p.log.Retries, Events: p.log.Events, Histories: p.log.Outcomes, Letters: p.log.DeadLetters,
		Keep: w.keep, Horizon: 0, Now: p.now,
	})
	go func() { _ = s.Run(ctx) }()
	go func() {
		err := d.Run(ctx)
		p.ends(err)
	}()
	return p
}

// ends notes that the dispatcher has returned, and then ends the log.
func (p *process) ends(err error) {
	w := p.w
	w.server.mu.Lock()
	if !p.dead {
		if err != nil {
			w.violate("the dispatcher of %s ended: %v", p.name, err)
		} else if !p.stopping {
			w.violate("the dispatcher of %s ended by itself", p.name)
		}
		p.ended = true
		p.lossy = p.apart || time.Since(p.troubled) < 2*time.Minute
	}
	w.server.mu.Unlock()
	p.quit()
	p.nc.Close()
}

// now is the process's clock.
func (p *process) now() time.Time {
	p.w.server.mu.Lock()
	defer p.w.server.mu.Unlock()
	return time.Now().Add(p.clock)
}

// runs reports whether the process is there and may do something some time.
func (p *process) runs() bool { return p.owner.Instance != "" && !p.dead && !p.ended }

// kill ends a process between two moments: everything in memory is gone. What it
// had sent may still arrive.
func (w *world) kill(p *process) {
	w.server.mu.Lock()
	p.dead = true
	var rest []*move
	for _, m := range w.moves {
		if m.who == p {
			if !m.gone() || w.rand.IntN(2) == 0 {
				continue
			}
			m.what, m.who = "what "+p.name+" had sent, "+m.what, nil
		}
		rest = append(rest, m)
	}
	w.moves = rest
	for _, l := range p.links {
		_ = l.Close()
	}
	w.tell(p.name, "is killed")
	w.server.mu.Unlock()
	p.stop()
	p.quit()
	p.nc.Close()
}

// part cuts a process off from the log for a while: what is under way arrives or
// does not, and is not answered.
func (w *world) part(p *process) {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	p.apart, p.troubled = true, time.Now()
	for _, l := range p.links {
		_ = l.Close()
	}
	p.links = nil
	w.tell(p.name, "loses the log")
}

// request has what a client asks of the server wait for its fate.
func (w *world) request(r *request, planted plant) {
	p := w.processOf(r.from)
	if p == nil || p.dead {
		return
	}
	fates := []fate{done, lost, unanswered, late}
	switch {
	case r.kind == asksRead && r.lagging != nil && w.replicas:
		fates = []fate{done, lost, late, lagging}
	case r.kind == asksRead:
		fates = []fate{done, lost, late}
	}
	m := &move{who: p, what: w.describe(r), fates: fates, asksServer: true, gone: func() bool { return r.kind != asksRead }}
	planted.change(p, r)
	m.happen = func(f fate) string {
		if f != done && f != late && f != lagging {
			p.troubled = time.Now()
		}
		switch f {
		case lost:
			return ""
		case lagging:
			p.looked[w.nameOf(w.keyIn(r.subject))] = w.now()
			r.answer(r.lagging())
			return ""
		}
		a := r.perform()
		if r.kind == asksRead && r.stream.cfg.Name == streams.OutcomesStream {
			p.looked[w.nameOf(w.keyIn(r.subject))] = w.now()
		}
		said := inWords(r, a)
		switch f {
		case late:
			w.await(&move{
				who: p, what: "hears about: " + m.what, fates: []fate{done, lost}, gone: func() bool { return false },
				happen: func(f fate) string {
					if f == done && !p.dead {
						r.answer(a)
					}
					return ""
				},
			})
		case done:
			r.answer(a)
		}
		return said
	}
	w.await(m)
}
