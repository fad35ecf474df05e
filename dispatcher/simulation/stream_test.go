package simulation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// simStream is one stream of the simulated server.
type simStream struct {
	cfg     jetstream.StreamConfig
	raw     json.RawMessage // cfg
	created time.Time
	entries []*entry // by sequence
	last    uint64   // sequence that was given last
	ids     map[string]seen
	full    bool // it takes nothing more
}

// seen is the entry that a message id came with.
type seen struct {
	seq uint64
	at  time.Time
}

// entry is one entry as it is stored.
type entry struct {
	seq     uint64
	at      time.Time
	subject string
	header  []byte
	data    []byte
	due     time.Time // of a schedule; zero: it is none
}

func (e *entry) headers() nats.Header { return headers(e.header) }

func (st *simStream) takes(subject string) bool {
	return slices.ContainsFunc(st.cfg.Subjects, func(p string) bool { return covers(p, subject) })
}

func (st *simStream) info() json.RawMessage {
	first, bytes := st.last+1, 0
	for _, e := range st.entries {
		first = min(first, e.seq)
		bytes += len(e.header) + len(e.data) + len(e.subject)
	}
	if st.full {
		bytes = int(st.cfg.MaxBytes)
	}
	// By hand: everybody asks for it all the time.
	return fmt.Appendf(nil, `{"config":%s,"created":%q,"state":{"messages":%d,"bytes":%d,"first_seq":%d,"last_seq":%d}}`,
		st.raw, st.created.UTC().Format(time.RFC3339Nano), len(st.entries), bytes, first, st.last)
}

// append stores an entry if what it expects holds.
func (s *server) append(st *simStream, subject string, header, data []byte) answer {
	h, now := headers(header), time.Now()
	if id := h.Get(jetstream.MsgIDHeader); id != "" {
		if before, ok := st.ids[id]; ok && now.Sub(before.at) < st.cfg.Duplicates {
			return asAnswer(map[string]any{"stream": st.cfg.Name, "seq": before.seq, "duplicate": true})
		}
	}
	if want := h.Get(jetstream.ExpectedLastSubjSeqHeader); want != "" {
		if have := st.lastOf(subject); want != strconv.FormatUint(have, 10) {
			return asAnswer(apiError(400, 10071, fmt.Sprintf("wrong last sequence: %d", have)))
		}
	}
	if st.full {
		return asAnswer(apiError(503, 10077, "maximum bytes exceeded"))
	}
	e := s.add(st, subject, header, data, now)
	if id := h.Get(jetstream.MsgIDHeader); id != "" {
		st.ids[id] = seen{e.seq, now}
	}
	if s.stored != nil {
		s.stored(st, e)
	}
	return asAnswer(map[string]any{"stream": st.cfg.Name, "seq": e.seq})
}

func (s *server) add(st *simStream, subject string, header, data []byte, now time.Time) *entry {
	if st.cfg.MaxMsgsPerSubject == 1 {
		s.remove(st, func(e *entry) bool { return e.subject == subject })
	}
	st.last++
	e := &entry{seq: st.last, at: now, subject: subject, header: bytes.Clone(header), data: bytes.Clone(data)}
	if bytes.Contains(header, []byte(jetstream.ScheduleHeader)) {
		e.due = dueAt(header)
	}
	st.entries = append(st.entries, e)
	return e
}

// lastOf returns the sequence of the last entry of a subject, 0 if there is none.
func (st *simStream) lastOf(subject string) uint64 {
	if e := st.find(query{LastFor: subject}, st.last); e != nil {
		return e.seq
	}
	return 0
}

// remove removes entries, and nobody has them in hand any more.
func (s *server) remove(st *simStream, which func(*entry) bool) (n int) {
	st.entries = slices.DeleteFunc(st.entries, func(e *entry) bool {
		if !which(e) {
			return false
		}
		n++
		for _, c := range s.consumers {
			if c.stream == st {
				delete(c.pending, e.seq)
			}
		}
		return true
	})
	return n
}

func (s *server) removeOne(st *simStream, seq uint64) bool {
	return s.remove(st, func(e *entry) bool { return e.seq == seq }) > 0
}

// query says which entry is meant: that of a sequence, the last of a subject, or
// the first of a subject from a sequence on; or all of a subject below a sequence.
type query struct {
	Seq     uint64 `json:"seq"`
	Filter  string `json:"filter"`
	LastFor string `json:"last_by_subj"`
	NextFor string `json:"next_by_subj"`
}

func readQuery(data []byte) (q query) {
	if len(data) > 0 {
		if err := json.Unmarshal(data, &q); err != nil {
			panic(err)
		}
	}
	return q
}

func (q query) subject() string { return q.LastFor + q.NextFor }

// find returns the entry that is meant among those up to a sequence, or nil.
func (st *simStream) find(q query, until uint64) *entry {
	var found *entry
	for _, e := range st.entries {
		switch {
		case e.seq > until:
		case q.LastFor != "" && covers(q.LastFor, e.subject):
			found = e
		case q.NextFor != "" && covers(q.NextFor, e.subject) && e.seq >= q.Seq, q.subject() == "" && e.seq == q.Seq:
			return e
		}
	}
	return found
}

// withHeaders returns headers with others added.
func withHeaders(header []byte, pairs ...string) []byte {
	more := headerBytes("", pairs...)
	if len(header) == 0 {
		return more
	}
	return append(bytes.Clone(header[:len(header)-2]), more[len("NATS/1.0\r\n"):]...)
}

// dueAt returns when the schedule in an entry is due; zero: it is none.
func dueAt(header []byte) time.Time {
	text := headers(header).Get(jetstream.ScheduleHeader)
	if text == "" {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339Nano, strings.TrimPrefix(text, "@at "))
	if err != nil {
		panic(err)
	}
	return at
}

// fire publishes what a schedule is for, and deletes the schedule.
func (s *server) fire(st *simStream, e *entry) {
	h := e.headers()
	pairs := []string{jetstream.SchedulerHeader, e.subject, jetstream.ScheduleNextHeader, "purge"}
	for _, name := range slices.Sorted(keys(h)) {
		if !strings.HasPrefix(name, "Nats-Schedule") {
			pairs = append(pairs, name, h.Get(name))
		}
	}
	s.removeOne(st, e.seq)
	s.append(st, h.Get(jetstream.ScheduleTargetHeader), headerBytes("", pairs...), e.data)
}

func keys(h nats.Header) func(func(string) bool) {
	return func(yield func(string) bool) {
		for name := range h {
			if !yield(name) {
				return
			}
		}
	}
}
