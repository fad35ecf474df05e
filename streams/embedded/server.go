// Package embedded is nats-server in this process: JetStream on a directory,
// reached without a socket. One node, no cluster.
//
// In strict durability every append is on disk before it is acknowledged. In
// relaxed it is in the operating system's hands, and on disk within a second:
// it survives the death of the process but not a power cut.
//
// The directory must be on a local file system, and belong to one process at a
// time: whoever starts the server holds a lock on it.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"tidings/streams"
)

// Options says how the server is to be. StoreDir is required.
type Options struct {
	StoreDir   string
	Durability streams.Durability // zero: streams.Strict
	// Listen is a loopback address such as 127.0.0.1:4222 where local programs
	// may connect, with all rights. Empty: none can; this process always can.
	Listen string
	// Followers lets other programs follow OUTCOMES, and only that, once
	// [Server.OpenFollowers] is called. Not together with Listen. Nil: none.
	Followers *Followers
	// MaxStore is how much JetStream may use of the disk, in bytes. It must
	// allow for the sizes of all streams together. Zero: 24 GiB.
	MaxStore int64
	Logger   *slog.Logger // nil: none
}

// MaxPayload is what the server takes in one message: an event's payload of
// [streams.MaxData] in base64, as a dead letter carries it, and 1.3 MiB beside it.
const MaxPayload = 12 << 20

const (
	defaultMaxStore = 24 << 30
	// maxMemory is for streams in memory, of which Tidings has none.
	maxMemory   = 64 << 20
	relaxedSync = time.Second
)

// Server is a running server. Its methods may be called by any goroutine.
type Server struct {
	ns     *server.Server
	logger *slog.Logger
	gate   *gate         // nil: no followers
	fatal  <-chan string // the first fatal error
	conns  []*nats.Conn  // for followers
	stop   sync.Once

	working sync.WaitGroup
	stopped chan struct{} // closed by Shutdown
}

// Start starts the server and returns when it has recovered its streams and
// takes connections, or when ctx is done. It sets no signal handlers.
func Start(ctx context.Context, o Options) (*Server, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	options, gate, err := o.server()
	if err != nil {
		return nil, fmt.Errorf("start embedded nats-server: %w", err)
	}
	ns, err := server.NewServer(options)
	if err != nil {
		return nil, fmt.Errorf("start embedded nats-server: %w", err)
	}
	log := newBridge(o.Logger)
	ns.SetLoggerV2(log, false, false, false)
	s := &Server{ns: ns, logger: o.Logger, gate: gate, fatal: log.fatal, stopped: make(chan struct{})}
	if err := s.start(ctx, log.fatal); err != nil {
		s.Shutdown()
		return nil, fmt.Errorf("start embedded nats-server in %s: %w", o.StoreDir, err)
	}
	return s, nil
}

func (s *Server) start(ctx context.Context, fatal <-chan string) error {
	started := make(chan struct{})
	go func() {
		defer close(started)
		s.ns.Start()
	}()
	select {
	case <-started:
	case <-ctx.Done():
		<-started // it cannot be interrupted; what it opened must be closed again
		return context.Cause(ctx)
	}
	for !s.ns.ReadyForConnections(time.Second) {
		select {
		case reason := <-fatal:
			return errors.New(reason)
		case <-ctx.Done():
			return context.Cause(ctx)
		default:
		}
	}
	select {
	case reason := <-fatal:
		return errors.New(reason)
	default:
		return nil
	}
}

func (o Options) server() (*server.Options, *gate, error) {
	so, err := o.base()
	if err != nil {
		return nil, nil, err
	}
	switch {
	case o.Listen != "" && o.Followers != nil:
		return nil, nil, errors.New("either local programs with all rights, or followers")
	case o.Listen != "":
		return so, nil, o.open(so)
	case o.Followers == nil:
		return so, nil, nil
	}
	g, err := newGate(*o.Followers)
	if err != nil {
		return nil, nil, err
	}
	return so, g, g.apply(so)
}

func (o Options) base() (*server.Options, error) {
	if o.StoreDir == "" {
		return nil, errors.New("no directory for the streams")
	}
	so := &server.Options{
		ServerName: "tidings", StoreDir: o.StoreDir, JetStream: true,
		JetStreamMaxStore: o.MaxStore, JetStreamMaxMemory: maxMemory,
		MaxPayload: MaxPayload, NoSigs: true, DontListen: true,
	}
	if so.JetStreamMaxStore == 0 {
		so.JetStreamMaxStore = defaultMaxStore
	}
	if o.Durability == streams.Strict {
		so.SyncAlways = true
	} else {
		so.SyncInterval = relaxedSync
	}
	return so, nil
}

func (o Options) open(so *server.Options) error {
	host, port, err := loopback(o.Listen)
	if err != nil {
		return err
	}
	so.DontListen, so.Host, so.Port = false, host, port
	if port == 0 {
		so.Port = server.RANDOM_PORT
	}
	return nil
}

// loopback refuses addresses that others could reach: there are no credentials.
func loopback(listen string) (string, int, error) {
	host, portText, err := net.SplitHostPort(listen)
	if err != nil {
		return "", 0, fmt.Errorf("listen on %q: %w", listen, err)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("listen on %q: the port is not a number", listen)
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	addr, err := netip.ParseAddr(host)
	if err != nil || !addr.IsLoopback() {
		return "", 0, fmt.Errorf("listen on %q: only loopback addresses, since whoever connects may do everything; run nats-server yourself to share it", listen)
	}
	return host, int(port), nil
}

// Connect returns a connection within the process. The caller closes it.
func (s *Server) Connect(name string) (*nats.Conn, error) { return s.connect(name, ownUser) }

// InProcessConn implements nats.InProcessConnProvider.
func (s *Server) InProcessConn() (net.Conn, error) { return s.ns.InProcessConn() }

// Health returns why the server stores nothing any more, nil if it does. A stream
// whose file could once not be written, for want of room say, takes nothing
// until the server is started again, though it still answers.
func (s *Server) Health() error {
	if h := s.ns.Healthz(nil); h.Error != "" {
		return fmt.Errorf("%s: see to the disk, and restart tidings", h.Error)
	}
	return nil
}

// ClientURL returns where other programs connect; empty if they cannot.
func (s *Server) ClientURL() string {
	if addr := s.ns.Addr(); addr != nil {
		return "nats://" + addr.String()
	}
	return ""
}

// Shutdown closes the streams cleanly and waits for that. Connections should be
// closed before. It may be called more than once.
func (s *Server) Shutdown() {
	s.stop.Do(func() {
		close(s.stopped)
		s.working.Wait()
		for _, nc := range s.conns {
			nc.Close()
		}
		s.ns.Shutdown()
		s.ns.WaitForShutdown()
	})
}
