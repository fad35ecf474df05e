package streams

import "github.com/nats-io/nats.go"

// Queued returns how many records wait to be taken.
func (l *Log) Queued() int { return l.outs.(interface{ queued() int }).queued() }

// QueuedEvents returns how many events wait to be taken.
func (l *Log) QueuedEvents() int { return l.events.(interface{ queued() int }).queued() }

func (q *queue) queued() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.entries)
}

// Publisher is a publisher as the log has one for each stream.
type Publisher struct{ *publisher }

// NewPublisher returns one whose run is yet to be called.
func NewPublisher(nc *nats.Conn, stream string) Publisher {
	return Publisher{newPublisher(nc, stream)}
}

// Run has answers come in while work runs.
func (p Publisher) Run(work func()) error { return p.run(work) }

// Send sends a message and returns what brings its end.
func (p Publisher) Send(msg *nats.Msg) func() (sequence uint64, duplicate bool, err error) {
	e := newEntry(msg, "")
	p.send(e)
	return func() (uint64, bool, error) {
		<-e.done
		return e.sequence, e.duplicate, e.err
	}
}

// LetTimePass is as if an answer had been waited for long enough.
func (p Publisher) LetTimePass() {
	for range waitTicks + 1 {
		p.giveUp(waitTicks, errNoAnswer)
	}
}

// MaxInFlight is how many may wait for their answers.
const MaxInFlight = maxInFlight

// DecodePlain reads the usual answers.
func (p Publisher) DecodePlain(data []byte) (sequence uint64, duplicate, ok bool) {
	return p.decodePlain(data)
}

// ErrRefused marks an answer that says no.
var ErrRefused = errRefused
