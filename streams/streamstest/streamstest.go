// Package streamstest gives tests a log on a real nats-server in the process,
// with its streams in a temporary directory.
package streamstest

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"tidings/streams"
	"tidings/streams/embedded"
)

// Option changes the options of a log. The defaults are relaxed durability and
// small streams.
type Option func(*streams.Options)

// Strict makes the log, and its server, sync every append.
func Strict(o *streams.Options) { o.Durability = streams.Strict }

func options(opts []Option) streams.Options {
	o := streams.Options{
		Durability:     streams.Relaxed,
		EventsMaxBytes: 1 << 30, OutcomesMaxBytes: 1 << 30, DeadLettersMaxBytes: 1 << 30,
	}
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// New returns a log whose Run is running. All of it is closed when the test ends.
func New(tb testing.TB, opts ...Option) *streams.Log {
	tb.Helper()
	return NewServer(tb, opts...).Log()
}

// Server is a nats-server that can be stopped and started again, with the log
// on it. Connections made by it come back after a restart.
type Server struct {
	tb      testing.TB
	options streams.Options
	dir     string

	mu  sync.Mutex
	srv *embedded.Server // nil while it is down; guarded by mu
}

// NewServer returns a server that is running. It is stopped when the test ends.
func NewServer(tb testing.TB, opts ...Option) *Server {
	tb.Helper()
	s := &Server{tb: tb, options: options(opts), dir: tb.TempDir()}
	tb.Cleanup(s.Stop)
	s.Start()
	return s
}

// Options returns the options that [Server.Log] opens the log with.
func (s *Server) Options() streams.Options { return s.options }

// Dir returns the directory of the streams. It is another one after KillRestart.
func (s *Server) Dir() string { return s.dir }

// Connect returns a connection to the server, over restarts too. It is closed
// when the test ends.
func (s *Server) Connect() *nats.Conn {
	s.tb.Helper()
	nc, err := nats.Connect("", append(streams.ConnectOptions(s.tb.Name(), slog.New(slog.DiscardHandler)),
		nats.InProcessServer(s),
		nats.CustomReconnectDelay(func(int) time.Duration { return 10 * time.Millisecond }))...)
	require.NoError(s.tb, err)
	s.tb.Cleanup(nc.Close)
	return nc
}

// InProcessConn implements nats.InProcessConnProvider.
func (s *Server) InProcessConn() (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.srv == nil {
		return nil, nats.ErrNoServers
	}
	return s.srv.InProcessConn()
}

// Log returns a log on the server, on a connection of its own, whose Run is
// running. Each call is like another process.
func (s *Server) Log() *streams.Log {
	s.tb.Helper()
	l := s.Open()
	Run(s.tb, l.Run)
	return l
}

// Open returns a log whose Run is not yet running.
func (s *Server) Open() *streams.Log {
	s.tb.Helper()
	l, err := streams.Open(s.tb.Context(), s.Connect(), s.options)
	require.NoError(s.tb, err)
	return l
}

// Run runs a part until the test ends or stop is called, and fails the test if
// it returns an error other than that of its context.
func Run(tb testing.TB, run func(context.Context) error) (stop func()) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil && err != ctx.Err() {
			tb.Errorf("run: %v", err)
		}
	})
	tb.Cleanup(stop)
	return stop
}

// Start starts the server on its directory.
func (s *Server) Start() {
	s.tb.Helper()
	srv, err := embedded.Start(context.WithoutCancel(s.tb.Context()), embedded.Options{StoreDir: s.dir, Durability: s.options.Durability})
	require.NoError(s.tb, err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.srv = srv
}

// Stop stops the server cleanly.
func (s *Server) Stop() {
	s.mu.Lock()
	srv := s.srv
	s.srv = nil
	s.mu.Unlock()
	if srv != nil {
		srv.Shutdown()
	}
}

// Restart stops the server cleanly and starts it again.
func (s *Server) Restart() {
	s.tb.Helper()
	s.Stop()
	s.Start()
}

// KillRestart starts the server on the files as they are on disk at this
// moment, as after a SIGKILL: nothing is closed, what was acknowledged is
// there, and what the server only remembered is forgotten.
func (s *Server) KillRestart() {
	s.tb.Helper()
	image := filepath.Join(s.tb.TempDir(), "image")
	require.NoError(s.tb, os.CopyFS(image, os.DirFS(s.dir)))
	s.Stop()
	s.dir = image
	s.Start()
}
