package simulation

import (
	"math/rand/v2"
	"slices"
	"time"
)

// profile is what a seed makes of a run: how much goes wrong, and in which ways.
type profile struct {
	instances  int
	workers    int
	maxDeliver int
	steps      int
	mailless   bool
	mailLimit  int           // calls at a time
	wild       bool          // clocks may step further than they may differ by
	breakers   bool          // channels whose calls fail are shut; who is first through is not the seed's to decide
	keep       time.Duration // what has ended, in EVENTS
	replicas   bool          // reads may be answered by replicas that lag behind

	// Once in so many steps; 0: never.
	kills, pauses, partitions, drains, clocks, floods, restarts, copies, operators, naps, tails int
	// Once in so many moves something else becomes of it than the usual; 0: never.
	twists int
}

func newProfile(r *rand.Rand) profile {
	often := func(of ...int) int { return of[r.IntN(len(of))] }
	return profile{
		instances: 1 + r.IntN(2), workers: 1 + r.IntN(4), maxDeliver: 3 + r.IntN(10), steps: 40 + r.IntN(160),
		mailless: r.IntN(3) == 0, mailLimit: often(1, 8), wild: r.IntN(3) == 0, keep: []time.Duration{0, time.Minute}[r.IntN(2)], replicas: r.IntN(3) == 0,
		kills: often(0, 0, 60, 30, 15), pauses: often(0, 0, 80, 40), partitions: often(0, 0, 60, 30), drains: often(0, 0, 80, 40),
		clocks: often(0, 0, 60), floods: often(0, 0, 80), restarts: often(0, 0, 60), copies: often(0, 30, 15), operators: often(0, 40, 20),
		tails: often(0, 0, 0, 100), naps: often(40, 20, 10), twists: often(0, 40, 15, 7),
	}
}

// storm lets things happen, and go wrong.
func (w *world) storm() {
	for left := 4 * w.steps; left > 0; left -= 4 {
		w.settle()
		if w.over() {
			return
		}
		if w.fault() {
			continue
		}
		w.server.mu.Lock()
		ready := w.ready()
		if len(ready) == 0 || w.chance(w.naps) || w.anyStopped() && w.chance(8) {
			w.server.mu.Unlock()
			w.nap(len(ready) == 0)
			continue
		}
		m := pick(w, ready)
		if m.idle {
			left += 3
		}
		f := m.fates[0]
		if w.chance(w.twists) {
			f = pick(w, m.fates)
		}
		w.play(m, f)
		w.server.mu.Unlock()
		w.moment()
	}
}

// moment lets a little time pass: what happens in the very same moment has no
// order that the seed decides.
func (w *world) moment() { time.Sleep(time.Duration(10_000 + w.rand.IntN(400_000))) }

// nap lets time pass: a little as a rule, sometimes more than anybody has patience
// for. One that is light ends when something arrives.
func (w *world) nap(light bool) {
	d := pick(w, []time.Duration{
		time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond, time.Second, 3 * time.Second, 10 * time.Second, 30 * time.Second, 80 * time.Second,
	}) + time.Duration(w.rand.IntN(1_000_000))
	if !light && d > 3*time.Second {
		w.server.mu.Lock()
		w.hit()
		w.server.mu.Unlock()
	}
	for end := time.Now().Add(d); time.Now().Before(end); {
		w.server.mu.Lock()
		next, arrived := w.server.until(), w.arrived
		w.server.mu.Unlock()
		w.sleep(min(time.Until(end), time.Until(next)))
		w.settle()
		if light && w.arrived > arrived {
			return
		}
	}
}

// anyStopped reports whether a process is stopped: then time passes faster, so that
// others take over what it holds.
func (w *world) anyStopped() bool {
	return slices.ContainsFunc(w.processes, func(p *process) bool { return p.paused && p.runs() })
}

func (w *world) over() bool {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	return w.broken != ""
}

// fault has something go wrong, or somebody do something, if the seed wants it.
func (w *world) fault() bool {
	for _, f := range []struct {
		once int
		do   func() bool
	}{
		{w.kills, w.killOne},
		{w.pauses, w.pauseOne},
		{w.partitions, w.partOne},
		{w.drains, w.drainOne},
		{w.clocks, w.stepClock},
		{w.floods, w.flood},
		{w.restarts, w.restartServer},
		{w.tails, w.loseTail},
		{w.copies, w.publishMore},
		{w.operators, w.operateOnce},
		{4, w.recover},
	} {
		if w.chance(f.once) && f.do() {
			return true
		}
	}
	return false
}

// calm makes everything well, and lets things happen as they should until
// nothing is left to be done. What does not end then never does.
func (w *world) calm() {
	if w.over() {
		return
	}
	w.calmed = true
	w.setClocks()
	w.tell("", "all is well from here on")
	for w.resume() || w.reconnect() || w.makeRoom() || w.bootOne() {
	}
	quiet := time.Now()
	began := time.Now()
	for n := 0; ; n++ {
		w.settle()
		if w.over() {
			return
		}
		if time.Since(began) > time.Hour || n > 3_000 {
			w.fail("after %s and %d moves without faults: %s", time.Since(began), n, w.checker.unrest())
			return
		}
		if w.bootOne() {
			continue
		}
		w.server.mu.Lock()
		ready := w.ready()
		if len(ready) > 0 {
			m := ready[0]
			if !m.idle {
				quiet = time.Now()
			}
			w.play(m, m.fates[0])
			w.server.mu.Unlock()
			time.Sleep(100_003)
			continue
		}
		next := min(time.Until(w.server.until()), 15*time.Second)
		busy := !w.checker.rests()
		w.server.mu.Unlock()
		switch {
		case busy:
			quiet = time.Now()
		case time.Since(quiet) > 5*time.Second:
			return
		}
		w.sleep(max(next, time.Microsecond))
	}
}

// end has everything end, so that the goroutines of the run do.
func (w *world) end() {
	w.server.mu.Lock()
	procs := append([]*process(nil), w.processes...)
	w.server.mu.Unlock()
	for _, p := range procs {
		if !p.dead {
			w.close(p)
		}
	}
	time.Sleep(90 * time.Second) // whoever waits gives up
}

// close ends a process for good.
func (w *world) close(p *process) {
	if p.stop == nil {
		p.stop = func() {}
	}
	w.kill(p)
}
