package streamstest

import (
	"bytes"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"tidings/streams"
)

// DeafLine is a connection on which the server's answers can get lost: the
// client's word arrives, and it never learns of it.
type DeafLine struct {
	server *Server
	deaf   atomic.Bool
	at     atomic.Pointer[string]
	mu     sync.Mutex
	conn   net.Conn
}

// DeafLog returns a log on the server whose line can be made deaf. Its Run is
// running. All of it is closed when the test ends.
func (s *Server) DeafLog() (*DeafLine, *streams.Log) {
	s.tb.Helper()
	line := &DeafLine{server: s}
	nc, err := nats.Connect("", append(streams.ConnectOptions("deaf", slog.New(slog.DiscardHandler)),
		nats.InProcessServer(line),
		nats.CustomReconnectDelay(func(int) time.Duration { return 10 * time.Millisecond }))...)
	require.NoError(s.tb, err)
	s.tb.Cleanup(nc.Close)
	l, err := streams.Open(s.tb.Context(), nc, s.options)
	require.NoError(s.tb, err)
	Run(s.tb, l.Run)
	return line, l
}

// Deafen makes the line deaf at once.
func (d *DeafLine) Deafen() { d.deaf.Store(true) }

// DeafFrom makes the line deaf from the moment on when the client says a text,
// such as a subject.
func (d *DeafLine) DeafFrom(text string) { d.at.Store(&text) }

// Repair drops the line, so that the client connects anew and hears again.
func (d *DeafLine) Repair() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at.Store(nil)
	d.deaf.Store(false)
	_ = d.conn.Close()
}

// InProcessConn implements nats.InProcessConnProvider.
func (d *DeafLine) InProcessConn() (net.Conn, error) {
	conn, err := d.server.InProcessConn()
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conn = conn
	return &deafConn{Conn: conn, line: d}, nil
}

type deafConn struct {
	net.Conn
	line *DeafLine
}

func (c *deafConn) Write(b []byte) (int, error) {
	if at := c.line.at.Load(); at != nil && bytes.Contains(b, []byte(*at)) {
		c.line.deaf.Store(true)
	}
	return c.Conn.Write(b)
}

func (c *deafConn) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err != nil || !c.line.deaf.Load() {
			return n, err
		}
	}
}
