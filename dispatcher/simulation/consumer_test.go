package simulation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// consumer is one consumer of the simulated server.
type consumer struct {
	stream *simStream
	cfg    jetstream.ConsumerConfig
	raw    json.RawMessage // cfg
	next   uint64          // sequence in the stream from which on nothing was delivered yet
	count  uint64          // deliveries so far
	// Those that were delivered and not acknowledged yet, by sequence.
	pending map[uint64]*delivered
	pulls   []*pull
}

// delivered is an entry that somebody has in hand.
type delivered struct {
	times    int
	deadline time.Time // when it comes again
}

// pull is a request for deliveries that waits.
type pull struct {
	link      *link
	reply     string
	left      int
	expires   time.Time
	beat      time.Duration
	nextBeat  time.Time
	delivered int
}

func (s *server) consumerAPI(l *link, verb string, st *simStream, rest, reply string, data []byte) {
	name, _, _ := strings.Cut(rest, ".")
	c := s.consumer(st, name)
	switch {
	case verb == "CONSUMER.CREATE":
		say(l, reply, s.createConsumer(st, name, data).info())
	case c == nil && reply != "":
		say(l, reply, apiError(404, 10014, "consumer not found"))
	case verb == "CONSUMER.INFO":
		say(l, reply, c.info())
	case verb == "CONSUMER.DELETE":
		s.consumers = slices.DeleteFunc(s.consumers, func(other *consumer) bool { return other == c })
		say(l, reply, map[string]any{"success": true})
	case verb == "CONSUMER.MSG.NEXT":
		s.pull(l, c, reply, data)
	}
}

// brief is what a client looks at of the configuration.
func (c *consumer) brief() json.RawMessage {
	data, err := json.Marshal(map[string]any{
		"name": c.cfg.Name, "durable_name": c.cfg.Durable, "ack_policy": c.cfg.AckPolicy, "deliver_policy": c.cfg.DeliverPolicy,
		"replay_policy": c.cfg.ReplayPolicy, "filter_subject": c.cfg.FilterSubject,
		"ack_wait": c.cfg.AckWait, "max_deliver": c.cfg.MaxDeliver, "max_ack_pending": c.cfg.MaxAckPending,
	})
	if err != nil {
		panic(err)
	}
	return data
}

func (s *server) consumer(st *simStream, name string) *consumer {
	for _, c := range s.consumers {
		if c.stream == st && c.cfg.Name == name {
			return c
		}
	}
	return nil
}

func (s *server) createConsumer(st *simStream, name string, data []byte) *consumer {
	var req struct {
		Config jetstream.ConsumerConfig `json:"config"`
	}
	if err := json.Unmarshal(data, &req); err != nil {
		panic(err)
	}
	c := s.consumer(st, name)
	if c == nil {
		c = &consumer{stream: st, next: max(req.Config.OptStartSeq, 1), pending: map[uint64]*delivered{}}
		s.consumers = append(s.consumers, c)
	}
	c.cfg = req.Config
	c.cfg.Name = name
	c.raw = c.brief()
	return c
}

func (c *consumer) info() json.RawMessage {
	floor := c.next - 1 // all up to it were delivered and acknowledged, or are gone
	for seq := range c.pending {
		floor = min(floor, seq-1)
	}
	left := 0
	for _, e := range c.stream.entries {
		if e.seq >= c.next && c.wants(e) {
			left++
		}
	}
	// By hand: everybody asks for it all the time.
	return fmt.Appendf(nil, `{"stream_name":%q,"name":%q,"config":%s,"created":"2000-01-01T00:00:00Z","ack_floor":{"stream_seq":%d},"num_ack_pending":%d,"num_pending":%d}`,
		c.stream.cfg.Name, c.cfg.Name, c.raw, floor, len(c.pending), left)
}

func (s *server) pull(l *link, c *consumer, reply string, data []byte) {
	req := struct {
		Batch     int           `json:"batch"`
		Expires   time.Duration `json:"expires"`
		Heartbeat time.Duration `json:"idle_heartbeat"`
		NoWait    bool          `json:"no_wait"`
	}{Batch: 1}
	if err := json.Unmarshal(data, &req); err != nil {
		panic(err)
	}
	now := time.Now()
	c.pulls = append(c.pulls, &pull{
		link: l, reply: reply, left: req.Batch, expires: now.Add(req.Expires), beat: req.Heartbeat, nextBeat: now.Add(req.Heartbeat),
	})
	switch {
	case req.NoWait:
		s.deliverTo(c)
		for _, p := range c.waiting() {
			p.link.tell(p.reply, p.reply, "", headerBytes(" 404 No Messages"), nil)
			p.left = 0
		}
	case s.ask == nil:
		s.deliver()
	default:
		s.pulled()
	}
}

// deliver hands out all that can be handed out.
func (s *server) deliver() {
	for _, c := range s.consumers {
		s.deliverTo(c)
	}
}

func (s *server) deliverTo(c *consumer) {
	for e := c.available(time.Now()); e != nil && len(c.waiting()) > 0; e = c.available(time.Now()) {
		s.hand(c, c.waiting()[0], e, true)
	}
}

// waiting returns the pulls that can be answered.
func (c *consumer) waiting() []*pull {
	c.pulls = slices.DeleteFunc(c.pulls, func(p *pull) bool { return p.left <= 0 || p.link.isClosed() || !p.link.listens(p.reply) })
	return c.pulls
}

// wants reports whether the consumer is about an entry.
func (c *consumer) wants(e *entry) bool {
	return c.cfg.FilterSubject == "" || covers(c.cfg.FilterSubject, e.subject)
}

func (s *server) listConsumers(st *simStream) json.RawMessage {
	var list [][]byte
	for _, c := range s.consumers {
		if c.stream == st {
			list = append(list, c.info())
		}
	}
	return fmt.Appendf(nil, `{"total":%d,"offset":0,"limit":256,"consumers":[%s]}`, len(list), bytes.Join(list, []byte(",")))
}

// available returns what is to be delivered next: what is due again, else the
// next entry that nobody had; nil if there is nothing.
func (c *consumer) available(now time.Time) *entry {
	ended := c.cfg.MaxAckPending > 0 && len(c.pending) >= c.cfg.MaxAckPending
	for _, e := range c.stream.entries {
		d := c.pending[e.seq]
		switch {
		case d != nil && !d.deadline.After(now):
			if c.cfg.MaxDeliver > 0 && d.times >= c.cfg.MaxDeliver {
				delete(c.pending, e.seq) // never mentioned again
				continue
			}
			return e
		case e.seq >= c.next && !ended && c.wants(e):
			return e
		}
	}
	return nil
}

// hand delivers an entry to a pull. Unless it arrives, it is lost on the way.
func (s *server) hand(c *consumer, p *pull, e *entry, arrives bool) (times int) {
	c.next = max(c.next, e.seq+1)
	c.count++
	p.left--
	p.delivered++
	d := &delivered{}
	if c.cfg.AckPolicy != jetstream.AckNonePolicy {
		if before := c.pending[e.seq]; before != nil {
			d = before
		}
		c.pending[e.seq] = d
	}
	d.times++
	d.deadline = time.Now().Add(c.cfg.AckWait)
	reply := fmt.Sprintf("$JS.ACK.%s.%s.%d.%d.%d.%d.0", c.stream.cfg.Name, c.cfg.Name, d.times, e.seq, c.count, e.at.UnixNano())
	switch {
	case !arrives:
	case c.cfg.HeadersOnly:
		p.link.tell(e.subject, p.reply, reply, withHeaders(e.header, "Nats-Msg-Size", fmt.Sprint(len(e.data))), nil)
	default:
		p.link.tell(e.subject, p.reply, reply, e.header, e.data)
	}
	return d.times
}

// ack takes what a client says about a delivery. That it is worked on is not
// waited for by anybody.
func (s *server) ack(l *link, subject, reply string, data []byte) {
	tokens := strings.Split(subject, ".")
	c := s.consumer(s.stream(tokens[0]), tokens[1])
	seq, err := strconv.ParseUint(tokens[3], 10, 64)
	if err != nil || c == nil {
		return
	}
	what := string(data)
	r := &request{
		from: l, kind: asksAck, stream: c.stream, sequence: seq, subject: what, reply: reply,
		perform: func() answer { c.acked(seq, what); return answer{} },
	}
	if reply == "" {
		if s.mute == nil || !s.mute(l) {
			r.perform()
		}
		return
	}
	s.submit(r)
}

func (c *consumer) acked(seq uint64, what string) {
	d := c.pending[seq]
	switch {
	case d == nil:
	case what == "" || what == "+ACK":
		delete(c.pending, seq)
	case what == "+WPI":
		d.deadline = time.Now().Add(c.cfg.AckWait)
	case what == "-NAK":
		d.deadline = time.Now()
	}
}

// tick does what is due by the server's clock, and reports whether anything was.
func (s *server) tick() (was bool) {
	now := time.Now()
	for _, c := range s.consumers {
		for _, p := range c.waiting() {
			switch {
			case !p.expires.After(now):
				was = true
				p.link.tell(p.reply, p.reply, "", headerBytes(" 408 Request Timeout", "Nats-Pending-Messages", fmt.Sprint(p.left), "Nats-Pending-Bytes", "0"), nil)
				p.left = 0
			case p.beat > 0 && !p.nextBeat.After(now):
				was = true
				p.link.tell(p.reply, p.reply, "", headerBytes(" 100 Idle Heartbeat"), nil)
				p.nextBeat = now.Add(p.beat)
			}
		}
	}
	for _, st := range s.streams {
		for _, e := range slices.Clone(st.entries) {
			switch {
			case e.due.IsZero(), e.due.After(now):
			case s.due != nil:
				s.due(st, e)
			default:
				s.fire(st, e)
			}
		}
	}
	if s.ask == nil {
		s.deliver()
	}
	return was
}

// until returns when something becomes due by the server's clock next.
func (s *server) until() time.Time {
	now := time.Now()
	next := now.Add(time.Hour)
	sooner := func(at time.Time) {
		if at.Before(next) && at.After(now) {
			next = at
		}
	}
	for _, c := range s.consumers {
		for _, d := range c.pending {
			sooner(d.deadline)
		}
		for _, p := range c.waiting() {
			sooner(p.expires)
			if p.beat > 0 {
				sooner(p.nextBeat)
			}
		}
	}
	for _, st := range s.streams {
		for _, e := range st.entries {
			sooner(e.due)
		}
	}
	return next
}
