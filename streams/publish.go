package streams

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// publisher sends entries to one stream without waiting for one another, and
// finishes each with its answer. It is the client's PublishMsgAsync for half the
// work: there is no future between answer and entry and one clock for all, and
// the subjects of answers are used again, which the server then finds in its cache.
//
// A subject is used again only when its answer has come. If none came, or the
// connection was lost, an answer may still be under way: the subject is given up,
// so that no entry ever gets the answer to another.
type publisher struct {
	nc    *nats.Conn
	inbox string // what the subjects of answers begin with
	plain []byte // what the usual answer begins with

	mu     sync.Mutex // guards what follows
	routes map[string]*route
	free   []*route
	made   uint64 // routes so far
	ticks  uint64 // of the clock
}

// route is a subject that one answer at a time comes to.
type route struct {
	reply string
	entry *entry // whose answer is outstanding; nil: none is
	since uint64 // tick at which it was sent
}

// The clock that ends the wait for answers is a coarse one.
const (
	tick      = time.Second
	waitTicks = uint64(ackWait / tick)
)

var (
	errNoAnswer = fmt.Errorf("%w: no answer within %s", ErrUnknown, ackWait)
	errBusy     = fmt.Errorf("%w: %d appends wait for their answers", ErrUnavailable, maxInFlight)
	errNobody   = fmt.Errorf("%w: no stream takes it", ErrUnavailable)
)

func newPublisher(nc *nats.Conn, stream string) *publisher {
	return &publisher{
		nc: nc, inbox: nc.NewInbox() + ".", plain: fmt.Appendf(nil, `{"stream":%q,"seq":`, stream),
		routes: map[string]*route{},
	}
}

// run has answers come in while work runs, and until all that it sent is finished.
func (p *publisher) run(work func()) error {
	sub, err := p.nc.Subscribe(p.inbox+"*", p.answer)
	if err == nil {
		err = sub.SetPendingLimits(-1, -1) // at most maxInFlight
	}
	if err != nil {
		return fmt.Errorf("listen for answers: %w", err)
	}
	lost := p.nc.StatusChanged(nats.RECONNECTING, nats.CLOSED)
	ended := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() { p.watch(lost, ended) })
	work()
	await(p.outstanding())
	close(ended)
	watching.Wait()
	p.nc.RemoveStatusListener(lost)
	_ = sub.Unsubscribe() // it fails only where the connection has ended, and the subscription with it
	return nil
}

func (p *publisher) outstanding() []*entry {
	p.mu.Lock()
	defer p.mu.Unlock()
	var entries []*entry
	for _, r := range p.routes {
		if r.entry != nil {
			entries = append(entries, r.entry)
		}
	}
	return entries
}

// await returns when all entries are finished, which takes at most ackWait.
func await(entries []*entry) {
	for _, e := range entries {
		<-e.done
	}
}

// watch finishes the entries whose answers do not come any more.
func (p *publisher) watch(lost <-chan nats.Status, ended <-chan struct{}) {
	clock := time.NewTicker(tick)
	defer clock.Stop()
	for {
		select {
		case <-ended:
			return
		case _, open := <-lost:
			if !open {
				lost = nil
			}
			p.giveUp(0, fmt.Errorf("%w: %w", ErrUnknown, nats.ErrDisconnected))
		case <-clock.C:
			p.giveUp(waitTicks, errNoAnswer)
		}
	}
}

// giveUp finishes the entries that have waited for more than some ticks.
func (p *publisher) giveUp(waited uint64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for reply, r := range p.routes {
		if r.entry != nil && p.ticks >= r.since+waited {
			delete(p.routes, reply)
			r.entry.finish(0, false, err)
		}
	}
	if waited > 0 {
		p.ticks++
	}
}

// send publishes an entry, which is finished when its answer has come, or
// certainly does not come.
func (p *publisher) send(e *entry) {
	r := p.open(e)
	if r == nil {
		e.finish(0, false, errBusy)
		return
	}
	err := p.nc.PublishMsg(&nats.Msg{Subject: e.msg.Subject, Reply: r.reply, Header: e.msg.Header, Data: e.msg.Data})
	if err != nil && p.giveUpOne(r) {
		e.finish(0, false, publishError(err))
	}
}

// open returns a route for the answer to e, nil if there are too many.
func (p *publisher) open(e *entry) *route {
	p.mu.Lock()
	defer p.mu.Unlock()
	var r *route
	switch n := len(p.free); {
	case n > 0:
		r, p.free = p.free[n-1], p.free[:n-1]
	case len(p.routes) == maxInFlight:
		return nil
	default:
		p.made++
		r = &route{reply: fmt.Sprintf("%s%d", p.inbox, p.made)}
		p.routes[r.reply] = r
	}
	r.entry, r.since = e, p.ticks
	return r
}

// giveUpOne reports whether the answer was still outstanding.
func (p *publisher) giveUpOne(r *route) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.routes[r.reply] != r {
		return false
	}
	delete(p.routes, r.reply)
	return true
}

// answer finishes the entry that an answer is for. Late ones are for none.
func (p *publisher) answer(m *nats.Msg) {
	p.mu.Lock()
	var e *entry
	if r := p.routes[m.Subject]; r != nil && r.entry != nil {
		e, r.entry = r.entry, nil
		p.free = append(p.free, r)
	}
	p.mu.Unlock()
	if e != nil {
		e.finish(p.decode(m, e.parts))
	}
}

// decode reads the answer to a message, or to a batch of that many parts.
func (p *publisher) decode(m *nats.Msg, parts int) (sequence uint64, duplicate bool, err error) {
	if sequence, duplicate, ok := p.decodePlain(m.Data); ok && parts == 0 {
		return sequence, duplicate, nil
	}
	if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
		return 0, false, errNobody
	}
	var answer struct {
		Stream    string              `json:"stream"`
		Sequence  uint64              `json:"seq"`
		Duplicate bool                `json:"duplicate"`
		Count     int                 `json:"count"` // of a batch
		Error     *jetstream.APIError `json:"error"`
	}
	switch err := json.Unmarshal(m.Data, &answer); {
	case err != nil:
		return 0, false, publishError(jetstream.ErrInvalidJSAck)
	case answer.Error != nil:
		return 0, false, publishError(answer.Error)
	case answer.Stream == "" || answer.Count != parts:
		return 0, false, publishError(jetstream.ErrInvalidJSAck)
	}
	return answer.Sequence, answer.Duplicate, nil
}

// decodePlain reads the usual answers without the decoder for all of them:
//
//	{"stream":"EVENTS","seq":17}    {"stream":"EVENTS","seq":17,"duplicate": true}
func (p *publisher) decodePlain(data []byte) (sequence uint64, duplicate, ok bool) {
	rest, ok := bytes.CutPrefix(data, p.plain)
	if !ok {
		return 0, false, false
	}
	digits := 0
	for digits < len(rest) && digits < 19 && rest[digits] >= '0' && rest[digits] <= '9' {
		sequence = 10*sequence + uint64(rest[digits]-'0')
		digits++
	}
	ok = digits > 0 && rest[0] != '0'
	switch string(rest[digits:]) {
	case "}":
		return sequence, false, ok
	case `,"duplicate": true}`:
		return sequence, true, ok
	}
	return 0, false, false
}
