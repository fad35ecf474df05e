package simulation

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// link is a connection between the real NATS client and the simulated server. It
// is both the client's net.Conn and the server's end: what the client writes is
// read by the server in that moment, so there is no goroutine between the two.
type link struct {
	server *server
	who    string // whose it is, in words

	mu     sync.Mutex
	more   *sync.Cond
	in     []byte // what the client has yet to read
	closed bool

	// Guarded by the server's mutex.
	rest []byte // of a command that has not come whole yet
	subs []subscription
}

type subscription struct{ sid, subject string }

// dial returns a new link, as a client that connects.
func (s *server) dial(who string) *link {
	l := &link{server: s, who: who}
	l.more = sync.NewCond(&l.mu)
	l.push([]byte(`INFO {"server_id":"S","server_name":"simulated","version":"2.15.2","proto":1,"headers":true,"max_payload":12582912,"jetstream":true}` + "\r\n"))
	return l
}

// Read implements net.Conn.
func (l *link) Read(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.in) == 0 && !l.closed {
		l.more.Wait()
	}
	if l.closed {
		return 0, io.EOF
	}
	n := copy(p, l.in)
	l.in = l.in[n:]
	return n, nil
}

// Write implements net.Conn.
func (l *link) Write(p []byte) (int, error) {
	l.server.mu.Lock()
	defer l.server.mu.Unlock()
	if l.isClosed() {
		return 0, io.ErrClosedPipe
	}
	l.rest = append(l.rest, p...)
	for {
		c, n, err := parse(l.rest)
		if err != nil {
			return 0, err
		}
		if n == 0 {
			return len(p), nil
		}
		l.rest = l.rest[n:]
		l.server.command(l, c)
	}
}

// Close implements net.Conn.
func (l *link) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.more.Broadcast()
	return nil
}

func (l *link) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// push has the client read b next.
func (l *link) push(b []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.in = append(l.in, b...)
	l.more.Signal()
}

// LocalAddr implements net.Conn.
func (l *link) LocalAddr() net.Addr { return &net.UnixAddr{} }

// RemoteAddr implements net.Conn.
func (l *link) RemoteAddr() net.Addr { return &net.UnixAddr{} }

// SetDeadline implements net.Conn: what a client waits for under a deadline is
// there already.
func (l *link) SetDeadline(time.Time) error { return nil }

// SetReadDeadline implements net.Conn.
func (l *link) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline implements net.Conn.
func (l *link) SetWriteDeadline(time.Time) error { return nil }

// tell sends a message to whoever on the link listens to the subject.
func (l *link) tell(subject, address, reply string, header, data []byte) {
	for _, sub := range l.subs {
		if !covers(sub.subject, address) {
			continue
		}
		var b bytes.Buffer
		if len(header) > 0 {
			fmt.Fprintf(&b, "HMSG %s %s %s%d %d\r\n", subject, sub.sid, orBlank(reply), len(header), len(header)+len(data))
		} else {
			fmt.Fprintf(&b, "MSG %s %s %s%d\r\n", subject, sub.sid, orBlank(reply), len(data))
		}
		b.Write(header)
		b.Write(data)
		b.WriteString("\r\n")
		l.push(b.Bytes())
	}
}

// listens reports whether anybody on the link listens to a subject.
func (l *link) listens(subject string) bool {
	return slices.ContainsFunc(l.subs, func(sub subscription) bool { return covers(sub.subject, subject) })
}

func orBlank(reply string) string {
	if reply == "" {
		return ""
	}
	return reply + " "
}

// command is one command of the client's, such as PUB.
type command struct {
	verb         string
	args         []string
	header, data []byte
}

// parse returns the first command in b and its length, 0 if it is not whole yet.
func parse(b []byte) (command, int, error) {
	line, rest, found := bytes.Cut(b, []byte("\r\n"))
	if !found {
		return command{}, 0, nil
	}
	fields := strings.Fields(string(line))
	c := command{verb: strings.ToUpper(fields[0]), args: fields[1:]}
	if c.verb != "PUB" && c.verb != "HPUB" {
		return c, len(line) + 2, nil
	}
	size, err := strconv.Atoi(c.args[len(c.args)-1])
	if err != nil {
		return command{}, 0, fmt.Errorf("command %q: %w", line, err)
	}
	if len(rest) < size+2 {
		return command{}, 0, nil
	}
	c.args, c.data = c.args[:len(c.args)-1], bytes.Clone(rest[:size])
	if c.verb == "HPUB" {
		n, err := strconv.Atoi(c.args[len(c.args)-1])
		if err != nil || n > size {
			return command{}, 0, errors.New("HPUB: bad size of headers")
		}
		c.args, c.header, c.data = c.args[:len(c.args)-1], c.data[:n], c.data[n:]
	}
	return c, len(line) + 2 + size + 2, nil
}

// covers reports whether a subject with wildcards covers a literal one.
func covers(pattern, subject string) bool {
	for {
		p, morePattern, deeper := strings.Cut(pattern, ".")
		s, moreSubject, more := strings.Cut(subject, ".")
		switch {
		case p == ">":
			return true
		case p != "*" && p != s, deeper != more:
			return false
		case !deeper:
			return true
		}
		pattern, subject = morePattern, moreSubject
	}
}

// headerBytes returns headers as they are on the wire, in a fixed order.
func headerBytes(status string, pairs ...string) []byte {
	var b bytes.Buffer
	b.WriteString("NATS/1.0" + status + "\r\n")
	for i := 0; i < len(pairs); i += 2 {
		fmt.Fprintf(&b, "%s: %s\r\n", pairs[i], pairs[i+1])
	}
	b.WriteString("\r\n")
	return b.Bytes()
}

// headers reads headers as they are on the wire.
func headers(raw []byte) nats.Header {
	if len(raw) == 0 {
		return nats.Header{}
	}
	h, err := nats.DecodeHeadersMsg(raw)
	if err != nil {
		return nats.Header{}
	}
	return h
}
