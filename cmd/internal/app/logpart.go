package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/nats-io/nats.go"

	"tidings/bridge"
	"tidings/cmd/internal/api"
	"tidings/cmd/internal/config"
	"tidings/streams"
	"tidings/streams/archive"
	"tidings/streams/embedded"
	"tidings/streams/event"
)

// errNoLog is what asks for the log get while it cannot be reached.
var errNoLog = fmt.Errorf("the log is not open yet: %w", streams.ErrUnavailable)

// logPart is the log and the door in front of it, from before it can be reached.
type logPart struct {
	log    atomic.Pointer[streams.Log]
	read   atomic.Pointer[streams.Records] // over a connection of its own
	copied atomic.Pointer[streams.Reading] // over the same
	door   atomic.Pointer[bridge.Door]
	conn   atomic.Pointer[nats.Conn]
	server atomic.Pointer[embedded.Server] // nil if it is not ours
	reason atomic.Value                    // of string: why it is not open
}

func (l *logPart) get() *streams.Log { return l.log.Load() }

// open connects to the log and opens it, waiting out a server that is down. It
// fails on what waiting cannot mend. The returned function closes everything.
func (l *logPart) open(ctx context.Context, c config.Config, dir *directory, logger *slog.Logger) (func(), error) {
	l.reason.Store("starting")
	o := streamsOptions(c, logger)
	nc, readers, shutdown, err := l.connect(ctx, c, dir, o.Durability, logger)
	if err != nil {
		return nil, err
	}
	log, records, err := l.openStreams(ctx, nc, readers, o, logger)
	if err != nil {
		shutdown()
		return nil, err
	}
	l.read.Store(records)
	l.door.Store(bridge.NewDoor(bridge.DoorOptions{
		Events: log.Events, Letters: log.DeadLetters, Audit: log.Outcomes,
		Identity: c.EventIdentity(), MissingID: bridge.Missing(c.MissingID),
	}))
	l.conn.Store(nc)
	l.log.Store(log)
	l.reason.Store("")
	return shutdown, nil
}

// streamsOptions returns how the log is to be by the configuration.
func streamsOptions(c config.Config, logger *slog.Logger) streams.Options {
	durability := streams.Strict
	if c.NATS.Durability == config.DurabilityRelaxed {
		durability = streams.Relaxed
	}
	return streams.Options{
		Durability: durability, Replicas: c.NATS.Replicas, Horizon: horizonOf(c),
		EventsMaxBytes: c.Events.MaxBytes.Bytes(), OutcomesMaxBytes: c.Outcomes.MaxBytes.Bytes(),
		DeadLettersMaxBytes: c.DeadLetters.MaxBytes.Bytes(), OversizeMaxBytes: c.Oversize.MaxBytes.Bytes(),
		Identity: c.EventIdentity(), Logger: logger,
	}
}

// horizonOf returns the horizon as the log takes it, where negative is for ever
// and zero the default.
func horizonOf(c config.Config) time.Duration {
	if c.Horizon == 0 {
		return -1
	}
	return c.Horizon.Std()
}

// maxStore returns what the embedded server may use of the disk: what the streams
// set aside, and some for those without a size.
func maxStore(c config.Config) int64 {
	const others = 4 << 30
	sum := int64(others)
	for _, s := range []config.Stream{c.Events.Stream, c.Outcomes, c.DeadLetters, c.Oversize} {
		sum += s.MaxBytes.Bytes()
	}
	return sum
}

// connect returns two connections to the server, and what closes them. What waits
// for readers who do not read waits in the second: if the server cuts that one,
// everything else goes on.
func (l *logPart) connect(ctx context.Context, c config.Config, dir *directory, durability streams.Durability, logger *slog.Logger) (nc, readers *nats.Conn, shutdown func(), err error) {
	dial, stop, err := l.reach(ctx, c, dir, durability, logger)
	if err != nil {
		return nil, nil, nil, err
	}
	if nc, err = dial("tidings"); err != nil {
		stop()
		return nil, nil, nil, err
	}
	if readers, err = dial("tidings readers"); err != nil {
		nc.Close()
		stop()
		return nil, nil, nil, err
	}
	return nc, readers, func() { readers.Close(); nc.Close(); stop() }, nil
}

// reach returns how to connect to the server, which is started if it is ours, and
// what stops it.
func (l *logPart) reach(ctx context.Context, c config.Config, dir *directory, durability streams.Durability, logger *slog.Logger) (func(name string) (*nats.Conn, error), func(), error) {
	if c.NATS.URL != "" {
		l.reason.Store("connecting to NATS at " + c.NATS.URL.String())
		dial := func(name string) (*nats.Conn, error) {
			return streams.Connect(ctx, c.NATS.URL.Reveal(), name, logger)
		}
		return dial, func() {}, nil
	}
	l.reason.Store("starting the embedded NATS server")
	followers, err := followersOf(c.NATS)
	if err != nil {
		return nil, nil, err
	}
	server, err := embedded.Start(ctx, embedded.Options{
		StoreDir: dir.file("nats"), MaxStore: maxStore(c), Durability: durability, Followers: followers, Logger: logger,
	})
	if err != nil {
		return nil, nil, err
	}
	l.server.Store(server)
	return server.Connect, server.Shutdown, nil
}

// followersOf returns who may follow on the server in this process, nil if nobody.
func followersOf(n config.NATS) (*embedded.Followers, error) {
	if n.Listen == "" {
		return nil, nil
	}
	tls, err := n.TLS.Config()
	if err != nil {
		return nil, fmt.Errorf("nats.tls: %w", err)
	}
	return &embedded.Followers{Listen: n.Listen, User: config.FollowerUser, Password: n.FollowerPassword.Reveal(), TLS: tls}, nil
}

// openFollowers lets followers in, where the configuration says so.
func (l *logPart) openFollowers(ctx context.Context, n config.NATS) error {
	server := l.server.Load()
	if n.Listen == "" || server == nil {
		return nil
	}
	return server.OpenFollowers(ctx)
}

// openStreams opens the streams, and tries again until it can, unless they or
// the server are not what they must be.
func (l *logPart) openStreams(ctx context.Context, nc, readers *nats.Conn, o streams.Options, logger *slog.Logger) (*streams.Log, *streams.Records, error) {
	pause := backoff.NewExponentialBackOff()
	for {
		var records *streams.Records
		log, err := streams.Open(ctx, nc, o)
		if err == nil {
			records, err = streams.OpenRecords(ctx, readers, logger)
		}
		if err == nil {
			var reading *streams.Reading
			reading, err = streams.OpenReading(ctx, readers, logger)
			l.copied.Store(reading)
		}
		_, drift := errors.AsType[*streams.DriftError](err)
		_, version := errors.AsType[*streams.VersionError](err)
		if err == nil || drift || version || errors.Is(err, streams.ErrImporting) || ctx.Err() != nil {
			return log, records, err
		}
		wait := pause.NextBackOff()
		l.reason.Store(err.Error())
		logger.Warn("the log cannot be opened yet", "error", err, "again_in", wait)
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// Accept implements api.Door.
func (l *logPart) Accept(ctx context.Context, a bridge.Arrival) (bridge.Receipt, error) {
	if d := l.door.Load(); d != nil {
		return d.Accept(ctx, a)
	}
	return bridge.Receipt{}, errNoLog
}

// Read returns the event that an arrival would be, see [bridge.Door.Read].
func (l *logPart) Read(a bridge.Arrival) (event.Envelope, event.Key, error) {
	if d := l.door.Load(); d != nil {
		return d.Read(a)
	}
	return event.Envelope{}, "", errNoLog
}

// Get implements api.Letters.
func (l *logPart) Get(ctx context.Context, tenant string, key event.Key) (event.Letter, uint64, error) {
	if log := l.get(); log != nil {
		return log.DeadLetters.Get(ctx, tenant, key)
	}
	return event.Letter{}, 0, errNoLog
}

// Payload implements api.Letters.
func (l *logPart) Payload(ctx context.Context, letter event.Letter) (io.Reader, error) {
	if log := l.get(); log != nil {
		return log.DeadLetters.Payload(ctx, letter)
	}
	return nil, errNoLog
}

// records returns what followers read, nil while the log is not open.
func (l *logPart) records() api.Records {
	if r := l.read.Load(); r != nil {
		return r
	}
	return nil
}

// archive returns what is exported, false while the log is not open.
func (l *logPart) archive() (archive.Source, bool) {
	r := l.copied.Load()
	if r == nil {
		return archive.Source{}, false
	}
	return archive.Source{Outcomes: r.Outcomes, DeadLetters: r.DeadLetters, Objects: r.Oversize}, true
}

// sizes returns how full the streams are.
func (l *logPart) sizes(ctx context.Context) ([]api.Stream, error) {
	log := l.get()
	if log == nil {
		return nil, errNoLog
	}
	var out []api.Stream
	for _, s := range []struct {
		name string
		info func(context.Context) (streams.StreamInfo, error)
	}{
		{streams.EventsStream, log.Events.Info},
		{streams.OutcomesStream, log.Outcomes.Info},
		{streams.DeadLettersStream, log.DeadLetters.Info},
		{streams.RetriesStream, log.Retries.Info},
		{streams.OversizeStream, log.Oversize.Info},
	} {
		info, err := s.info(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		out = append(out, api.Stream{
			Name: s.name, Messages: info.Messages, Bytes: info.Bytes, MaxBytes: info.MaxBytes,
			First: info.First, Last: info.Last,
		})
	}
	return out, nil
}

// probe says why the log takes no events, nil if it does.
func (l *logPart) probe(ctx context.Context) error { return l.ask(ctx, (*streams.Events).Ready) }

// ask says why no log can be asked, or what it says about events.
func (l *logPart) ask(ctx context.Context, events func(*streams.Events, context.Context) error) error {
	log := l.get()
	if log == nil {
		return errNoLog
	}
	if server := l.server.Load(); server != nil {
		if err := server.Health(); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return events(log.Events, ctx)
}

func (l *logPart) health(ctx context.Context) api.Part {
	p := api.Part{Name: "log"}
	if reason, _ := l.reason.Load().(string); reason != "" {
		p.Reason = reason
	} else if nc := l.conn.Load(); nc != nil && !nc.IsConnected() {
		p.Reason = "the connection to NATS is lost: reconnecting"
	} else if err := l.ask(ctx, (*streams.Events).Takes); err != nil {
		p.Reason = "the log takes no events: " + err.Error()
		if full, ok := errors.AsType[*streams.FullError](err); ok {
			p.Reason = full.Error()
		}
	}
	p.Ready = p.Reason == ""
	return p
}
