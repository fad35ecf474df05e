// Package api is the HTTP API of Tidings, server and client.
//
// # What to believe
//
//   - Every endpoint wants the bearer token, which is compared in constant time, but
//     /healthz, /readyz, and the description of the API with the page that shows it.
//     There is no way to run without one: [EnsureToken] makes one where none is
//     configured.
//   - Answers are JSON in the types of packages store and event; errors are
//     problem+json (RFC 9457) whose type is urn:tidings: and a stable name. An
//     unknown query parameter is refused, not ignored.
//   - An event that was answered with 202 is stored as safely as one that was
//     acknowledged to RabbitMQ. After any other answer it may be sent again: with
//     an id of its own it is recognised. That holds for a whole batch, too: some
//     of its events may be stored when its answer is not 202.
//   - What is read is the ledger, a projection: it may lag behind the log by a
//     moment. What an operator wants done is decided by the log, and recorded with
//     the name in the header Tidings-Operator.
//   - Every answer in JSON to a GET has an ETag, and a request with If-None-Match is
//     answered with 304 while nothing has changed. What is done to a dead letter can be
//     made to depend on the letter's by If-Match: 412 if it is another by now.
//   - Requests are bounded in size, headers and time. A browser's request from
//     another origin is refused.
//
// GET /openapi.json describes all of it, and GET /docs shows that in a browser.
package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"tidings/bridge"
	"tidings/dispatcher/letters"
	"tidings/dispatcher/replay"
	"tidings/projector"
	"tidings/store"
	"tidings/streams/archive"
	"tidings/streams/event"
)

// Ledger is what is asked about events. [store.Store] is one.
type Ledger interface {
	Events(store.Query) (store.Page[store.Row], error)
	Event(event.Key) (store.Row, error)
	FindID(eventID, tenant string) ([]store.Row, error)
	Messages(event.Key) ([]event.Message, error)
	History(key event.Key, after uint64, limit int) ([]store.Entry, error)
	DeadLetters(store.LetterQuery) (store.Page[store.Letter], error)
	DeadLetter(event.Key) (store.Letter, error)
	Counts() (store.Counts, error)
	Hours(store.HourQuery) (store.Page[store.HourCount], error)
	Causes(tenant string) ([]store.CauseCount, error)
}

// Door takes events in. [bridge.Door] is one.
type Door interface {
	Accept(context.Context, bridge.Arrival) (bridge.Receipt, error)
}

// Letters holds the dead letters with their payloads. [streams.DeadLetters] is one.
type Letters interface {
	// Get returns the letter and its sequence, or an error that is streams.ErrNotFound.
	Get(ctx context.Context, tenant string, key event.Key) (event.Letter, uint64, error)
	// Payload returns the payload of a letter that Get returned.
	Payload(ctx context.Context, l event.Letter) (io.Reader, error)
}

// Options are what a server needs. Ledger, Door, Letters and Token are required.
type Options struct {
	Ledger  Ledger
	Door    Door
	Letters Letters
	Token   string
	// Desk returns where operators deal with dead letters, nil while the log is not
	// open. It may be nil, for never.
	Desk func() *letters.Desk
	// Read returns the event that an arrival would be and its key, if that is known
	// before it is stored, or a *[bridge.RefusedError]. It may be nil: then no event is
	// previewed.
	Read func(bridge.Arrival) (event.Envelope, event.Key, error)
	// Planner plans tests, and knows recipients. It may be nil: then there are no tests,
	// and nothing is found by an address.
	Planner Planner
	// Parts says of every part whether work moves through it. It is asked by
	// /readyz, so it answers at once. None means ready.
	Parts func(context.Context) []Part
	// Behind says why the ledger is not what the log has, or "" if it is. Every
	// answer with a token carries it in the header Tidings-Ledger. It may be nil,
	// and answers at once.
	Behind func() string
	// Replays carries out replay plans, nil while the log is not open. It may be nil,
	// for never.
	Replays func() *replay.Replayer
	// Upkeep rebuilds, verifies and backs up the ledger. It may be nil, for never.
	Upkeep *projector.Upkeep
	// Skips is where entries are skipped that cannot be folded, nil while the log is not
	// open. It may be nil, for never.
	Skips func() Skips
	// Records is what followers read, nil while the log is not open. It may be nil,
	// for never.
	Records func() Records
	// Archive is what is exported; false while the log is not open. It may be nil, for
	// never.
	Archive func() (archive.Source, bool)
	// Folded waits until the ledger has the entry of OUTCOMES at a sequence. It may be
	// nil: then nothing is waited for.
	Folded func(ctx context.Context, sequence uint64) error
	// Sources says how the bridges are doing. It may be nil, and answers at once.
	Sources func() []Source
	// Dispatcher says how the dispatcher and the channels are doing. It may be nil,
	// and answers at once.
	Dispatcher func() Dispatching
	// Configuration says which configuration is in force. It may be nil, and answers at
	// once.
	Configuration func() Configuration
	// Reload reads the configuration anew for an operator and puts it in force, or
	// returns a *[RefusedConfiguration]. It may be nil, for never.
	Reload func(ctx context.Context, operator string) (Reload, error)
	// Streams says how full the streams are; it may be nil.
	Streams func(context.Context) ([]Stream, error)
	// Metrics answers GET /metrics; nil: nothing does.
	Metrics http.Handler
	// Version is shown by status.
	Version string
	// MaxBody bounds the body of an event, or of a batch, in bytes; 8 MiB if zero.
	// Four times as much may be in hand at a time, and small ones beside that.
	MaxBody int64
	// Drain is how long requests may take after the end of Run's context; 5 s if zero.
	Drain time.Duration
	// Now is time.Now if nil.
	Now    func() time.Time
	Logger *slog.Logger // nil discards
}

// Server is the API's server.
type Server struct {
	Options
	started   time.Time
	handler   http.Handler
	followers atomic.Int32
	exporting atomic.Bool
	room      room
	// serving ends when the server is to end: streams have no end of their own.
	serving context.Context
	end     context.CancelFunc
}

// New returns a server. It starts nothing.
func New(o Options) (*Server, error) {
	if o.Ledger == nil || o.Door == nil || o.Letters == nil || o.Token == "" {
		return nil, errors.New("api: Ledger, Door, Letters and Token are required")
	}
	if o.Desk == nil {
		o.Desk = func() *letters.Desk { return nil }
	}
	if o.Replays == nil {
		o.Replays = func() *replay.Replayer { return nil }
	}
	if o.Skips == nil {
		o.Skips = func() Skips { return nil }
	}
	if o.Records == nil {
		o.Records = func() Records { return nil }
	}
	if o.Archive == nil {
		o.Archive = func() (archive.Source, bool) { return archive.Source{}, false }
	}
	if o.Folded == nil {
		o.Folded = func(context.Context, uint64) error { return nil }
	}
	if o.Parts == nil {
		o.Parts = func(context.Context) []Part { return nil }
	}
	if o.Behind == nil {
		o.Behind = func() string { return "" }
	}
	if o.Sources == nil {
		o.Sources = func() []Source { return nil }
	}
	if o.Dispatcher == nil {
		o.Dispatcher = func() Dispatching { return Dispatching{} }
	}
	if o.Configuration == nil {
		o.Configuration = func() Configuration { return Configuration{} }
	}
	if o.Streams == nil {
		o.Streams = func(context.Context) ([]Stream, error) { return nil, nil }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.MaxBody = cmp.Or(o.MaxBody, 8<<20)
	o.Drain = cmp.Or(o.Drain, 5*time.Second)
	s := &Server{Options: o, started: o.Now().UTC(), room: newRoom(o.MaxBody)}
	s.serving, s.end = context.WithCancel(context.Background())
	handler, err := s.routes()
	s.handler = handler
	return s, err
}

// routes registers every endpoint and puts the guards around them.
func (s *Server) routes() (http.Handler, error) {
	mux := http.NewServeMux()
	api := humago.New(mux, description(s.Version))
	s.registerEvents(api)
	s.registerCounts(api)
	s.registerStories(api)
	s.registerLetters(api)
	s.registerOperate(api)
	s.registerLedger(api)
	s.registerSkips(api)
	s.registerReplays(api)
	s.registerTests(api)
	s.registerStatus(api)
	s.registerConfiguration(api)
	s.registerPublish(mux, api.OpenAPI())
	s.registerPreview(mux, api.OpenAPI())
	s.registerRecords(mux, api.OpenAPI())
	s.registerArchive(mux, api.OpenAPI())
	s.registerBackup(mux, api.OpenAPI())
	s.registerMetrics(mux, api.OpenAPI())
	registerViewer(mux)
	describeGuards(api.OpenAPI())
	spec, err := json.Marshal(api.OpenAPI())
	if err != nil {
		return nil, fmt.Errorf("api: describe: %w", err)
	}
	mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", openapiType)
		w.WriteHeader(http.StatusOK)
		_, _ = w.Write(spec)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { noEndpoint(w, r, methodsAt(mux, r)) })
	return s.guard(tagged(canonical(mux))), nil
}

// openapiType is the type of the description.
const openapiType = "application/openapi+json"

// description is the head of the OpenAPI document. The library's own routes are
// left out: its documentation page loads scripts from elsewhere, and its
// document is made anew by the first requests, without a lock.
func description(version string) huma.Config {
	config := huma.DefaultConfig("Tidings", cmp.Or(version, "dev"))
	config.DocsPath, config.OpenAPIPath, config.SchemasPath = "", "", ""
	config.CreateHooks = nil // no $schema members in answers
	config.RejectUnknownQueryParameters = true
	config.Transformers = append(config.Transformers, named)
	config.Components.Schemas = huma.NewMapRegistry("#/components/schemas/", schemaName)
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"bearer": {Type: "http", Scheme: "bearer"},
	}
	config.Security = []map[string][]string{{"bearer": {}}}
	return config
}

// Handler returns the API as a handler, guards included.
func (s *Server) Handler() http.Handler { return s.handler }

// Limits of a connection.
const (
	headerTimeout  = 5 * time.Second
	requestTimeout = time.Minute
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 64 << 10 // an event's headers have at most 48 KiB
)

// Run serves on l until ctx is done, then lets requests end for Drain, and
// closes l. It returns nil then, and an error if serving ends before.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler:           s.handler,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       requestTimeout,
		WriteTimeout:      requestTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(s.Logger.Handler(), slog.LevelDebug),
	}
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() { stopped <- s.shutdown(ctx, server) })
	err := server.Serve(l)
	if stop() { // ctx is not done: serving ended by itself
		return fmt.Errorf("serve the API on %s: %w", l.Addr(), err)
	}
	return <-stopped
}

func (s *Server) shutdown(ctx context.Context, server *http.Server) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.Drain)
	defer cancel()
	s.end()
	if err := server.Shutdown(ctx); err != nil {
		return server.Close() // the requests that are left had their time
	}
	return nil
}

// Listen opens the address for [Server.Run].
func Listen(ctx context.Context, address string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%s is in use, by another tidings perhaps: stop it, or set api.listen (or TIDINGS_API_LISTEN) to another address", address)
	case err != nil:
		return nil, fmt.Errorf("listen for the API: %w", err)
	}
	return l, nil
}
