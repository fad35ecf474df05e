package simulation

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"tidings/streams"
	"tidings/streams/event"
)

// world is everything there is in one run: processes, the log, providers,
// operators, and what a seed makes of them. One goroutine runs it. It lets the
// others go on until all of them wait, and then lets one thing happen: a move,
// a fault, or time.
type world struct {
	t    *testing.T
	seed uint64
	rand *rand.Rand
	profile
	server *server // its mutex guards the world too

	start     time.Time
	moves     []*move
	arrived   int
	knock     chan struct{} // holds a token after something arrived
	processes []*process
	boots     int
	calmed    bool      // nothing goes wrong any more
	astray    time.Time // when a clock went further off than clocks may
	cut       bool      // the log lost its end
	edits     int
	walked    map[string]uint64 // how far each instance's steward has walked EVENTS
	people    *process          // producers and operators
	events    []*published
	checker   *checker
	provider  *provider
	trace     []string
	broken    string // the first violation, in words
}

// fate is what becomes of a move.
type fate string

const (
	done       fate = "done"
	lost       fate = "lost on the way"
	unanswered fate = "done, and its answer is lost"
	late       fate = "done, and its answer is slow"
	lagging    fate = "answered by a replica that lags behind"
	failed     fate = "failed"
)

// move is something that somebody waits for and that has not happened yet.
type move struct {
	who   *process // nil: whoever asked for it is gone
	what  string   // the same in every run of the seed
	n     int      // order of arrival
	fates []fate   // what may become of it; the first is the usual
	// asksServer: it is under way to the log.
	asksServer bool
	// idle: that it happens does not mean that anything is left to be done.
	idle bool
	// happen makes it so, and says what came of it.
	happen func(fate) string
	// gone is called instead when whoever waits for it has died. It reports
	// whether the move may happen all the same, without anybody to wait for it.
	gone func() bool
}

func newWorld(t *testing.T, seed uint64, p plant) *world {
	w := &world{
		t: t, seed: seed, rand: rand.New(rand.NewPCG(seed, 0x7d1)), start: time.Now(), walked: map[string]uint64{},
		knock: make(chan struct{}, 1), server: &server{},
	}
	w.profile = newProfile(w.rand)
	w.checker, w.provider = newChecker(w), newProvider(w)
	w.server.ask = func(r *request) { w.request(r, p) }
	w.server.pulled = w.knocks
	w.server.stored = w.checker.stored
	w.server.due = w.scheduleDue
	w.server.mute = func(l *link) bool { p := w.processOf(l); return p == nil || p.dead || p.paused }
	return w
}

func (w *world) now() time.Duration { return time.Since(w.start) }

// tell adds a line to the account of what happened.
func (w *world) tell(who, format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf("%9.3fs  %-6s %s", w.now().Seconds(), who, fmt.Sprintf(format, args...)))
}

// violate notes that a guarantee does not hold. The first one ends the run.
func (w *world) violate(format string, args ...any) {
	if w.broken == "" {
		w.broken = fmt.Sprintf(format, args...)
		w.tell("", "VIOLATION: %s", w.broken)
	}
}

// chance is true once in so many times.
func (w *world) chance(once int) bool { return once > 0 && w.rand.IntN(once) == 0 }

// pick returns one of several.
func pick[T any](w *world, of []T) T { return of[w.rand.IntN(len(of))] }

// luck returns a number below n that depends on nothing but the seed and what it
// is about, for decisions that are made outside the world's own goroutine.
func (w *world) luck(about string, n int) int {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s", w.seed, about)
	return int(h.Sum64() % uint64(n))
}

// await adds a move. The mutex is held.
func (w *world) await(m *move) {
	w.arrived++
	m.n = w.arrived
	w.moves = append(w.moves, m)
	w.knocks()
}

// knocks ends a sleep.
func (w *world) knocks() {
	select {
	case w.knock <- struct{}{}:
	default:
	}
}

// ask has a process wait for something of its own. It returns false if the
// process is dead.
func ask[T any](p *process, what string, fates []fate, happen func(fate) (T, string)) (result T, alive bool) {
	return askIdly(p, false, what, fates, happen)
}

func askIdly[T any](p *process, idle bool, what string, fates []fate, happen func(fate) (T, string)) (result T, alive bool) {
	w, answer := p.w, make(chan T, 1)
	w.server.mu.Lock()
	if p.dead {
		w.server.mu.Unlock()
		return result, false
	}
	w.await(&move{
		who: p, what: what, fates: fates, idle: idle,
		happen: func(f fate) string { r, said := happen(f); answer <- r; return said },
		gone:   func() bool { close(answer); return false },
	})
	w.server.mu.Unlock()
	result, alive = <-answer
	return result, alive
}

// order sorts moves by what they are, since the order in which goroutines arrive
// is not the seed's to decide.
func order(a, b *move) int {
	return cmp.Or(strings.Compare(a.name(), b.name()), strings.Compare(a.what, b.what), cmp.Compare(a.n, b.n))
}

func (m *move) name() string {
	if m.who == nil {
		return ""
	}
	return m.who.name
}

// ready returns the moves that can happen, in the order of the seed's.
func (w *world) ready() []*move {
	slices.SortFunc(w.moves, order)
	var ready []*move
	for _, m := range w.moves {
		if m.who == nil || !m.who.paused {
			ready = append(ready, m)
		}
	}
	return append(ready, w.deliveries()...)
}

// untold is what a move says of which the account says nothing.
const untold = "-"

// play makes a move happen.
func (w *world) play(m *move, f fate) {
	w.moves = slices.DeleteFunc(w.moves, func(other *move) bool { return other == m })
	w.trace = append(w.trace, "")
	at, before := len(w.trace)-1, w.now()
	said := m.happen(f)
	if said == untold {
		w.trace = slices.Delete(w.trace, at, at+1)
		return
	}
	if f != done {
		said = strings.TrimPrefix(string(f)+", "+said, ", ")
	}
	if said != "" {
		said = ": " + strings.TrimSuffix(said, ", ")
	}
	w.trace[at] = fmt.Sprintf("%9.3fs  %-6s %s%s", before.Seconds(), m.name(), m.what, said)
}

// settle lets everybody go on until all wait, and time do what is due.
func (w *world) settle() {
	synctest.Wait()
	w.server.mu.Lock()
	was := w.server.tick()
	w.server.mu.Unlock()
	if was {
		synctest.Wait()
	}
	select {
	case <-w.knock:
	default:
	}
}

// sleep lets time pass, at most d, and less if something arrives.
func (w *world) sleep(d time.Duration) {
	select {
	case <-w.knock:
	case <-time.After(d):
	}
}

// deliveries returns the deliveries that the server can make now as moves.
func (w *world) deliveries() []*move {
	var out []*move
	for _, c := range w.server.consumers {
		e := c.available(time.Now())
		if e == nil {
			continue
		}
		for _, p := range c.waiting() {
			who := w.processOf(p.link)
			if who == nil || who.dead || who.paused {
				continue
			}
			out = append(out, &move{
				who: who, what: fmt.Sprintf("is handed %s of %s", w.name(e.subject, e.header), c.stream.cfg.Name), fates: []fate{done, lost},
				happen: func(f fate) string {
					return fmt.Sprintf("delivery %d", w.server.hand(c, p, e, f == done))
				},
			})
		}
	}
	slices.SortStableFunc(out, order)
	return out
}

// scheduleDue has the moment of a schedule come when the seed wants it.
func (w *world) scheduleDue(st *simStream, e *entry) {
	if slices.ContainsFunc(w.moves, func(m *move) bool { return m.n == -int(e.seq) }) {
		return
	}
	m := &move{what: fmt.Sprintf("the schedule of %s is due", w.name(e.subject, e.header)), fates: []fate{done, lost, late}}
	m.happen = func(f fate) string {
		switch {
		case st.find(query{Seq: e.seq}, st.last) != e:
			return "it was replaced"
		case f == lost:
			w.server.removeOne(st, e.seq)
		case f == late:
			w.server.fire(st, e)
			w.server.fire(st, e)
			return "it fires twice"
		default:
			w.server.fire(st, e)
		}
		return ""
	}
	w.await(m)
	m.n = -int(e.seq)
}

// published is an event that the door took.
type published struct {
	name     string
	envelope event.Envelope
	key      event.Key
	accepted bool
	gone     bool // with the end of the log
}

// name says in words what an entry is about.
func (w *world) name(subject string, header []byte) string {
	h := headers(header)
	key := event.Key(cmp.Or(h.Get(streams.HeaderKey), h.Get(jetstream.MsgIDHeader)))
	if key == "" {
		key = w.keyIn(subject)
	}
	return w.nameOf(key)
}

func (w *world) keyOf(e *entry) event.Key { return w.keyIn(e.subject) }

func (w *world) keyIn(subject string) event.Key {
	return event.Key(subject[strings.LastIndexByte(subject, '.')+1:])
}

func (w *world) nameOf(key event.Key) string {
	for _, e := range w.events {
		switch key {
		case e.key:
			return e.name
		}
	}
	return string(key)
}
