package simulation

import (
	"fmt"
	"maps"
	"time"

	"tidings/streams"
	"tidings/streams/event"
)

// running returns the processes of instances that run.
func (w *world) running() []*process {
	var out []*process
	for _, p := range w.processes {
		if p.runs() {
			out = append(out, p)
		}
	}
	return out
}

func (w *world) any(ok func(*process) bool) *process {
	var of []*process
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	for _, p := range w.running() {
		if ok(p) {
			of = append(of, p)
		}
	}
	switch len(of) {
	case 0:
		return nil
	case 1:
		return of[0] // without a word of the seed's: calm asks this more or less often
	}
	return pick(w, of)
}

func (w *world) killOne() bool {
	p := w.any(func(*process) bool { return true })
	if p == nil {
		return false
	}
	w.kill(p)
	return true
}

func (w *world) pauseOne() bool {
	p := w.any(func(p *process) bool { return !p.paused })
	if p == nil {
		return false
	}
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	p.paused, p.troubled, p.until = true, time.Now(), w.later()
	w.tell(p.name, "is stopped")
	return true
}

// later is some time from now, which may be past a lease that is held now.
func (w *world) later() time.Time {
	return time.Now().Add(pick(w, []time.Duration{time.Second, 15 * time.Second, 70 * time.Second, 100 * time.Second}))
}

func (w *world) partOne() bool {
	p := w.any(func(p *process) bool { return !p.apart })
	if p == nil {
		return false
	}
	w.part(p)
	p.until = w.later()
	return true
}

func (w *world) drainOne() bool {
	p := w.any(func(p *process) bool { return !p.stopping })
	if p == nil {
		return false
	}
	w.drain(p)
	return true
}

// drain has a process finish what is in hand and end.
func (w *world) drain(p *process) {
	w.server.mu.Lock()
	p.stopping = true
	w.tell(p.name, "is told to end")
	w.server.mu.Unlock()
	p.stop()
}

// stepClock moves a clock, as a rule within what clocks may differ by.
func (w *world) stepClock() bool {
	p := w.any(func(*process) bool { return true })
	if p == nil {
		return false
	}
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	p.clock = time.Duration(w.rand.IntN(4000)-2000) * time.Millisecond
	if w.wild && w.rand.IntN(3) == 0 {
		p.clock *= 100
		w.astray = time.Now()
	}
	w.tell(p.name, "has its clock set, to be %s off", p.clock)
	return true
}

// flood fills a stream, so that it takes nothing more.
func (w *world) flood() bool {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	st := w.server.stream(pick(w, []string{streams.OutcomesStream, streams.DeadLettersStream, streams.EventsStream}))
	if st.full {
		return false
	}
	st.full = true
	w.hit()
	w.tell("", "%s is full", st.cfg.Name)
	return true
}

// hit notes that a fault of the log's hit all.
func (w *world) hit() {
	for _, p := range w.processes {
		p.troubled = time.Now()
	}
}

// restartServer has the log's server die and come back. It has forgotten how
// often it delivered what, and some acknowledgements.
func (w *world) restartServer() bool {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	w.tell("", "the log's server is killed and comes back")
	w.hit()
	for _, p := range w.processes {
		for _, l := range p.links {
			_ = l.Close()
		}
		p.links = nil
	}
	var rest []*move
	for _, m := range w.moves {
		if m.n < 0 || !m.asksServer || w.rand.IntN(2) == 0 {
			rest = append(rest, m)
		}
	}
	w.moves = rest
	for _, c := range w.server.consumers {
		for _, e := range c.stream.entries {
			if d := c.pending[e.seq]; d != nil || e.seq < c.next && w.rand.IntN(3) == 0 {
				c.pending[e.seq] = &delivered{deadline: time.Now()}
			}
		}
	}
	return true
}

// publishMore has a producer publish another event, or one once more.
func (w *world) publishMore() bool {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	door := w.people
	switch {
	case len(w.events) < 4 && (len(w.events) == 0 || w.rand.IntN(2) == 0):
		e := w.newEvent()
		w.events = append(w.events, e)
		w.tell(door.name, "publishes %s: %s", e.name, e.envelope.Data)
		go w.publish(door, e, false)
	case len(w.events) > 0:
		e := pick(w, w.events)
		if w.rand.IntN(4) == 0 {
			e = usurper(e)
		}
		w.tell(door.name, "publishes %s again: %s", e.name, e.envelope.Data)
		go w.publish(door, e, true)
	}
	return true
}

// operateOnce has one of two operators do something about a dead letter, or about a
// message that was not delivered.
func (w *world) operateOnce() bool {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	d := deed{who: pick(w, []string{"ann", "ben"})}
	if all := w.deadLetters(); len(all) > 0 && w.rand.IntN(4) > 0 {
		d.what, d.key = pick(w, []string{"requeues", "requeues", "edits", "discards"}), w.keyOf(pick(w, all))
		if w.nameOf(d.key) == string(d.key) {
			d.what = "discards" // it is the letter of a copy, which is handed in at the door
		}
		w.edits++
		d.data = fmt.Sprintf(`{"hooks":1,"body":"edit %d"}`, w.edits)
		go w.operate(d)
		return true
	}
	d.what = "retries"
	var of []deed
	for _, e := range w.events {
		for _, m := range w.checker.history(e.key).state.Messages {
			if m.State != event.MessageDelivered {
				of = append(of, deed{who: d.who, what: d.what, key: e.key, message: " " + m.ID})
			}
		}
	}
	if len(of) == 0 {
		return false
	}
	go w.operate(pick(w, of))
	return true
}

// recover has something that went wrong be well again.
func (w *world) recover() bool {
	for _, cure := range []func() bool{w.resume, w.reconnect, w.makeRoom, w.bootOne} {
		if w.rand.IntN(3) == 0 && cure() {
			return true
		}
	}
	return false
}

func (w *world) resume() bool {
	p := w.any(func(p *process) bool { return p.paused && (w.calmed || !time.Now().Before(p.until)) })
	if p == nil {
		return false
	}
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	p.paused, p.troubled = false, time.Now()
	w.tell(p.name, "goes on")
	return true
}

func (w *world) reconnect() bool {
	p := w.any(func(p *process) bool { return p.apart && (w.calmed || !time.Now().Before(p.until)) })
	if p == nil {
		return false
	}
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	p.apart, p.troubled = false, time.Now()
	w.tell(p.name, "can reach the log again")
	return true
}

func (w *world) makeRoom() bool {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	for _, st := range w.server.streams {
		if st.full {
			st.full = false
			w.hit()
			w.tell("", "%s has room again", st.cfg.Name)
			return true
		}
	}
	return false
}

// bootOne starts an instance that does not run.
func (w *world) bootOne() bool {
	for i := range w.instances {
		name := string(rune('A' + i))
		up := w.any(func(p *process) bool { return p.owner.Instance == name })
		if up != nil {
			continue
		}
		w.boots++
		clock := time.Duration(0)
		if w.clocks > 0 {
			clock = time.Duration(w.rand.IntN(4000)-2000) * time.Millisecond
		}
		w.boot(name, w.boots, clock)
		return true
	}
	return false
}

// setClocks sets all clocks right.
func (w *world) setClocks() {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	for _, p := range w.processes {
		p.clock = min(max(p.clock, -2*time.Second), 2*time.Second)
	}
}

// loseTail has the log lose its end, as a power cut may where appends do not wait for
// the disk. Everybody who knew of it is gone too. What it numbered is numbered anew.
func (w *world) loseTail() bool {
	for _, p := range w.running() {
		w.kill(p)
	}
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	w.cut = true
	for _, m := range w.moves {
		_ = m.who == nil || m.gone() // nobody waits for the others
	}
	w.moves = nil
	for _, l := range w.people.links {
		_ = l.Close()
	}
	w.people.links = nil
	for _, st := range w.server.streams {
		n := min(w.rand.IntN(4), len(st.entries))
		st.entries = st.entries[:len(st.entries)-n]
		last := uint64(0)
		if n := len(st.entries); n > 0 {
			last = st.entries[n-1].seq
		}
		w.tell("", "a power cut: %s loses %d entries, and goes on after %d", st.cfg.Name, n, last)
		st.last = last
		clear(st.ids)
		for _, c := range w.server.consumers {
			if c.stream == st {
				c.next = min(c.next, last+1)
				maps.DeleteFunc(c.pending, func(seq uint64, _ *delivered) bool { return seq > last })
			}
		}
	}
	clear(w.walked)
	w.checker.begin()
	return true
}
