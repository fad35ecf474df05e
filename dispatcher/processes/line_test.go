package processes_test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/nats-io/nats.go"
)

// line is the way of a process to its server. It knows what is written to the log,
// and kills the process at one of the writes.
type line struct {
	server nats.InProcessConnProvider
	point  string       // such as "before record 2"; empty: it lives
	seen   func(string) // is told each point; never nil

	mu      sync.Mutex
	counts  map[string]int
	awaited map[string]string // writes by where their answers go
}

func newLine(server nats.InProcessConnProvider, point string, seen func(string)) *line {
	return &line{server: server, point: point, seen: seen, counts: map[string]int{}, awaited: map[string]string{}}
}

// InProcessConn implements nats.InProcessConnProvider.
func (l *line) InProcessConn() (net.Conn, error) {
	conn, err := l.server.InProcessConn()
	return &lineConn{Conn: conn, line: l}, err
}

func die() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL); select {} }

// writes are what a process writes to the log, by the beginning of the subject.
var writes = []struct{ subject, name string }{
	{"outcomes.", "record"},
	{"plans.", "plan"},
	{"audit.", "audit"},
	{"dead.", "letter"},
	{"retries.", "wake-up"},
	{"schedules.", "wake-up"},
	{"aside.", "wake-up"},
	{"$JS.API.STREAM.PURGE.DEADLETTERS", "removal"},
	{"$JS.API.STREAM.PURGE.EVENTS", "trim"},
	{"$JS.ACK.", "acknowledgement"},
}

func nameOf(subject string, payload []byte) string {
	for _, w := range writes {
		if strings.HasPrefix(subject, w.subject) {
			if w.name == "acknowledgement" && !bytes.HasPrefix(payload, []byte("+ACK")) {
				return "" // it only says that it is still at it
			}
			return w.name
		}
	}
	return ""
}

type lineConn struct {
	net.Conn
	line *line
	skip int    // bytes of a payload that are still to come
	part []byte // of a control line that was cut
}

func (c *lineConn) Write(b []byte) (int, error) {
	for at := 0; at < len(b); {
		if c.skip > 0 {
			n := min(c.skip, len(b)-at)
			at, c.skip = at+n, c.skip-n
			continue
		}
		end := bytes.IndexByte(b[at:], '\n')
		if end < 0 {
			c.part = append(c.part, b[at:]...)
			break
		}
		control := string(append(c.part, b[at:at+end]...))
		c.part = nil
		start := at
		at += end + 1
		c.operation(control, b[:start], b[at:])
	}
	return c.Conn.Write(b)
}

// operation looks at one line of the client protocol. before is what precedes it
// in the same write.
func (c *lineConn) operation(control string, before, payload []byte) {
	f := strings.Fields(control)
	if len(f) < 3 || f[0] != "PUB" && f[0] != "HPUB" {
		return
	}
	size, _ := strconv.Atoi(f[len(f)-1])
	c.skip = size + 2
	name := nameOf(f[1], payload)
	if name == "" {
		return
	}
	name = c.line.count(name)
	if c.line.reached("before " + name) {
		_, _ = c.Conn.Write(before)
		die()
	}
	if answered := f[0] == "PUB" && len(f) == 4 || len(f) == 5; answered {
		c.line.await(f[2], name)
	}
}

func (c *lineConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	for _, name := range c.line.answered(b[:max(n, 0)]) {
		if c.line.reached("after " + name) {
			die()
		}
	}
	return n, err
}

func (l *line) count(name string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts[name]++
	return fmt.Sprint(name, " ", l.counts[name])
}

func (l *line) reached(point string) bool {
	l.seen(point)
	return point == l.point
}

func (l *line) await(reply, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.awaited[reply] = name
}

// answered returns the writes that the server answers in what it says.
func (l *line) answered(b []byte) (names []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for reply, name := range l.awaited {
		if bytes.Contains(b, []byte(" "+reply+" ")) {
			names = append(names, name)
			delete(l.awaited, reply)
		}
	}
	return names
}
