package simulation

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// server is a NATS server with as much of JetStream as the log uses, spoken to by
// the real client. It holds everything in memory and does nothing by itself: each
// request waits until somebody says what becomes of it, and time passes for it
// when tick is called. TestContract holds it to the real one.
type server struct {
	// ask is told of each request that waits; nil: none waits.
	ask func(*request)
	// pulled is told of each pull.
	pulled func()
	// stored is told of each entry that was stored; nil: nobody is.
	stored func(*simStream, *entry)
	// due is told of each schedule that is due; nil: it fires at once.
	due func(*simStream, *entry)

	// mute reports whether nothing comes through on a link; nil: everything does.
	mute func(*link) bool

	mu        sync.Mutex
	streams   []*simStream
	consumers []*consumer
}

// request is what a client asked the server for.
type request struct {
	from   *link
	kind   requestKind
	stream *simStream
	// subject, header and data are of the entry that is asked for or to be stored.
	subject      string
	header, data []byte
	sequence     uint64
	// perform does it and returns the answer.
	perform func() answer
	// lagging answers as a replica that lags behind would; nil where none is asked.
	lagging func() answer
	reply   string // where the answer goes; empty: nowhere
}

type requestKind string

const (
	asksAppend requestKind = "append"
	asksRead   requestKind = "read"
	asksDelete requestKind = "delete"
	asksAck    requestKind = "ack"
)

// answer is what the server says to a request.
type answer struct{ header, data []byte }

// answer tells the client of the request.
func (r *request) answer(a answer) {
	if r.reply != "" {
		r.from.tell(r.reply, r.reply, "", a.header, a.data)
	}
}

// submit has the request wait, or performs it.
func (s *server) submit(r *request) {
	if s.ask != nil {
		s.ask(r)
		return
	}
	r.answer(r.perform())
	s.deliver()
}

// command carries out one command of a client. The mutex is held.
func (s *server) command(l *link, c command) {
	switch c.verb {
	case "PING":
		l.push([]byte("PONG\r\n"))
	case "SUB":
		l.subs = append(l.subs, subscription{sid: c.args[len(c.args)-1], subject: c.args[0]})
	case "UNSUB": // with a number: after so many messages, which the client sees to itself
		if len(c.args) == 1 {
			l.subs = slices.DeleteFunc(l.subs, func(sub subscription) bool { return sub.sid == c.args[0] })
		}
	case "PUB", "HPUB":
		reply := ""
		if len(c.args) > 1 {
			reply = c.args[1]
		}
		s.publish(l, c.args[0], reply, c.header, c.data)
	}
}

func (s *server) publish(l *link, subject, reply string, header, data []byte) {
	if api, ok := strings.CutPrefix(subject, "$JS.API."); ok {
		s.api(l, api, reply, data)
		return
	}
	if ack, ok := strings.CutPrefix(subject, "$JS.ACK."); ok {
		s.ack(l, ack, reply, data)
		return
	}
	for _, st := range s.streams {
		if st.takes(subject) {
			r := &request{from: l, kind: asksAppend, stream: st, subject: subject, header: header, data: data, reply: reply}
			r.perform = func() answer { return s.append(st, r.subject, r.header, r.data) }
			s.submit(r)
			return
		}
	}
	if reply != "" {
		l.tell(reply, reply, "", headerBytes(" 503"), nil)
	}
}

// api answers a request to JetStream. Those about what there is are answered at
// once: nothing hangs on them.
func (s *server) api(l *link, subject, reply string, data []byte) {
	verb, rest := cutVerb(subject)
	tokens := strings.SplitN(rest, ".", 2)
	st := s.stream(tokens[0])
	switch verb {
	case "INFO":
		say(l, reply, map[string]any{"api": map[string]any{"level": 4}})
	case "STREAM.CREATE":
		say(l, reply, s.createStream(data).info())
	case "STREAM.INFO":
		if st == nil {
			say(l, reply, apiError(404, 10059, "stream not found"))
			return
		}
		say(l, reply, st.info())
	case "STREAM.MSG.GET":
		s.get(l, st, reply, data)
	case "DIRECT.GET":
		s.directGet(l, st, tokens, reply, data)
	case "STREAM.MSG.DELETE":
		s.delete(l, st, reply, data)
	case "STREAM.PURGE":
		s.purge(l, st, reply, data)
	case "CONSUMER.LIST":
		say(l, reply, s.listConsumers(st))
	case "CONSUMER.CREATE", "CONSUMER.INFO", "CONSUMER.DELETE", "CONSUMER.MSG.NEXT":
		s.consumerAPI(l, verb, st, tokens[1], reply, data)
	default:
		panic("the simulated server does not know $JS.API." + subject)
	}
}

var verbs = []string{
	"INFO", "STREAM.CREATE", "STREAM.INFO", "STREAM.MSG.GET", "STREAM.MSG.DELETE", "STREAM.PURGE", "DIRECT.GET",
	"CONSUMER.CREATE", "CONSUMER.INFO", "CONSUMER.LIST", "CONSUMER.DELETE", "CONSUMER.MSG.NEXT",
}

func cutVerb(subject string) (verb, rest string) {
	for _, v := range verbs {
		if rest, ok := strings.CutPrefix(subject, v); ok && (rest == "" || rest[0] == '.') {
			return v, strings.TrimPrefix(rest, ".")
		}
	}
	return "", subject
}

func say(l *link, reply string, what any) {
	if data, ok := what.(json.RawMessage); ok {
		l.tell(reply, reply, "", nil, data)
		return
	}
	data, err := json.Marshal(what)
	if err != nil {
		panic(err)
	}
	l.tell(reply, reply, "", nil, data)
}

func apiError(code, errCode int, description string) map[string]any {
	return map[string]any{"error": map[string]any{"code": code, "err_code": errCode, "description": description}}
}

func asAnswer(what any) answer {
	data, err := json.Marshal(what)
	if err != nil {
		panic(err)
	}
	return answer{data: data}
}

func (s *server) stream(name string) *simStream {
	for _, st := range s.streams {
		if st.cfg.Name == name {
			return st
		}
	}
	return nil
}

func (s *server) createStream(data []byte) *simStream {
	var cfg jetstream.StreamConfig
	if err := json.Unmarshal(data, &cfg); err != nil {
		panic(err)
	}
	if st := s.stream(cfg.Name); st != nil {
		return st
	}
	st := &simStream{cfg: cfg, raw: data, created: time.Now(), ids: map[string]seen{}}
	s.streams = append(s.streams, st)
	return st
}

// get asks the leader for an entry.
func (s *server) get(l *link, st *simStream, reply string, data []byte) {
	q := readQuery(data)
	s.submit(&request{
		from: l, kind: asksRead, stream: st, subject: q.subject(), sequence: q.Seq, reply: reply,
		perform: func() answer {
			e := st.find(q, st.last)
			if e == nil {
				return asAnswer(apiError(404, 10037, "no message found"))
			}
			return asAnswer(map[string]any{"message": map[string]any{
				"subject": e.subject, "seq": e.seq, "hdrs": e.header, "data": e.data, "time": e.at.UTC(),
			}})
		},
	})
}

// directGet asks any replica for an entry.
func (s *server) directGet(l *link, st *simStream, tokens []string, reply string, data []byte) {
	q := readQuery(data)
	if len(tokens) > 1 {
		q = query{LastFor: tokens[1]}
	}
	read := func(until uint64) answer {
		e := st.find(q, until)
		if e == nil {
			return answer{header: headerBytes(" 404 Message Not Found")}
		}
		own := []string{
			jetstream.StreamHeader, st.cfg.Name, jetstream.SubjectHeader, e.subject, jetstream.SequenceHeader, fmt.Sprint(e.seq),
			jetstream.TimeStampHeaer, e.at.UTC().Format(time.RFC3339Nano),
		}
		return answer{header: withHeaders(e.header, own...), data: e.data}
	}
	s.submit(&request{
		from: l, kind: asksRead, stream: st, subject: q.subject(), sequence: q.Seq, reply: reply,
		perform: func() answer { return read(st.last) },
		lagging: func() answer { return read(max(st.last, 1) - 1) },
	})
}

func (s *server) delete(l *link, st *simStream, reply string, data []byte) {
	q := readQuery(data)
	s.submit(&request{
		from: l, kind: asksDelete, stream: st, sequence: q.Seq, reply: reply,
		perform: func() answer {
			if !s.removeOne(st, q.Seq) {
				return asAnswer(apiError(400, 10043, fmt.Sprintf("message with sequence %d not found", q.Seq)))
			}
			return asAnswer(map[string]any{"success": true})
		},
	})
}

func (s *server) purge(l *link, st *simStream, reply string, data []byte) {
	q := readQuery(data)
	s.submit(&request{
		from: l, kind: asksDelete, stream: st, sequence: q.Seq, reply: reply,
		perform: func() answer {
			purged := s.remove(st, func(e *entry) bool {
				return (q.Seq == 0 || e.seq < q.Seq) && (q.Filter == "" || e.subject == q.Filter)
			})
			return asAnswer(map[string]any{"success": true, "purged": purged})
		},
	})
}
