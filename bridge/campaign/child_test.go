package campaign_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/rpc"
	"net/rpc/jsonrpc"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"tidings/bridge"
	"tidings/streams"
	"tidings/streams/embedded"
)

// The process under test is this test binary, started again with childSettings
// holding its settings.
const childSettings = "TIDINGS_TEST_CAMPAIGN"

// settings are what a bridge process is told.
type settings struct {
	Dir    string // of the log
	Bridge bridge.Config
	Log    streams.Options
}

// child runs a bridge with a log in it until SIGTERM, or until the test is gone.
func child(text string) error {
	var s settings
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	s.Log.Logger = logger
	c := &control{server: &server{dir: s.Dir, durability: s.Log.Durability, logger: logger}}
	go func() {
		defer stop() // nobody is there any more
		service := rpc.NewServer()
		_ = service.RegisterName("Child", c)
		service.ServeCodec(jsonrpc.NewServerCodec(pipe{os.Stdin, os.Stdout}))
	}()
	before := goleak.IgnoreCurrent()
	return errors.Join(c.run(ctx, s, logger), goleak.Find(append(serversOwn(), before)...))
}

// serversOwn are goroutines that a nats-server which is stopped while it restores
// its streams leaves behind now and then.
func serversOwn() (ignored []goleak.Option) {
	const server = "github.com/nats-io/nats-server/v2/server"
	for _, f := range []string{
		server + "/ats.Register.func1", server + ".(*msgBlock).flushLoop", server + ".(*fileStore).flushStreamStateLoop",
	} {
		ignored = append(ignored, goleak.IgnoreAnyFunction(f))
	}
	return ignored
}

// pipe is the two ends that a process has of its conversation with the other.
type pipe struct {
	io.Reader
	io.WriteCloser
}

// run runs the bridge until ctx is done, and fails if a handler was cancelled.
func (c *control) run(ctx context.Context, s settings, logger *slog.Logger) error {
	if err := c.server.start(); err != nil {
		return err
	}
	defer c.server.stop()
	nc, err := c.server.connect(logger)
	if err != nil {
		return err
	}
	defer nc.Close()
	log, err := streams.Open(ctx, nc, s.Log)
	if err != nil {
		return err
	}
	events := &watched{Events: log.Events}
	door := bridge.NewDoor(bridge.DoorOptions{Events: events, Letters: log.DeadLetters, Audit: log.Outcomes})
	b, err := bridge.New(s.Bridge, door, bridge.Options{Log: logger, LookEvery: lookEvery, Probe: func(ctx context.Context) error {
		return cmp.Or(c.server.health(), log.Events.Ready(ctx))
	}})
	if err != nil {
		return err
	}
	c.up(b, s.Log)
	logging, end := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = log.Run(logging) })
	err = b.Run(ctx)
	end()
	running.Wait()
	if n := events.cancelled.Load(); n > 0 {
		err = errors.Join(err, fmt.Errorf("%d handlers were cancelled", n))
	}
	return err
}

// watched counts the handlers that were not allowed to finish.
type watched struct {
	bridge.Events
	cancelled atomic.Int64
}

func (w *watched) Publish(ctx context.Context, in streams.Incoming) (streams.Accepted, error) {
	a, err := w.Events.Publish(ctx, in)
	if errors.Is(ctx.Err(), context.Canceled) { // a time limit of its own is another matter
		w.cancelled.Add(1)
	}
	return a, err
}

// control is what the test can ask the process for.
type control struct {
	server *server

	mu     sync.Mutex // guards what follows
	bridge *bridge.Bridge
	log    streams.Options
}

func (c *control) up(b *bridge.Bridge, log streams.Options) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bridge, c.log = b, log
}

var errStarting = errors.New("starting")

// Status returns that of the bridge.
func (c *control) Status(_ struct{}, s *bridge.Status) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bridge == nil {
		return errStarting
	}
	*s = c.bridge.Status()
	return nil
}

// Heap returns the bytes that are in use.
func (c *control) Heap(_ struct{}, bytes *uint64) error {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	*bytes = m.HeapAlloc
	return nil
}

// StopLog stops the server of the log.
func (c *control) StopLog(_ struct{}, _ *struct{}) error { c.server.stop(); return nil }

// StartLog starts it again.
func (c *control) StartLog(_ struct{}, _ *struct{}) error { return c.server.start() }

// Widen raises the size of EVENTS.
func (c *control) Widen(bytes int64, _ *struct{}) error {
	nc, err := c.server.connect(slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer nc.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log.EventsMaxBytes = bytes
	_, err = streams.Open(context.Background(), nc, c.log)
	return err
}

// server is a nats-server that can be stopped and started on its directory.
type server struct {
	dir        string
	durability streams.Durability
	logger     *slog.Logger

	mu      sync.Mutex // guards what follows
	running *embedded.Server
}

func (s *server) start() error {
	running, err := embedded.Start(context.Background(), embedded.Options{
		StoreDir: filepath.Join(s.dir, "nats"), Durability: s.durability, Logger: s.logger,
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = running
	return err
}

func (s *server) stop() {
	s.mu.Lock()
	running := s.running
	s.running = nil
	s.mu.Unlock()
	if running != nil {
		running.Shutdown()
	}
}

// health returns why a server that runs stores nothing.
func (s *server) health() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil {
		return nil
	}
	return s.running.Health()
}

// connect returns a connection that comes back when the server does.
func (s *server) connect(logger *slog.Logger) (*nats.Conn, error) {
	return nats.Connect("", append(streams.ConnectOptions("campaign", logger), nats.InProcessServer(s))...)
}

// InProcessConn implements nats.InProcessConnProvider.
func (s *server) InProcessConn() (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil {
		return nil, nats.ErrNoServers
	}
	return s.running.InProcessConn()
}
