package sink

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// Paths that an HTTP sink knows. What follows after another slash is free, so
// that one path can stand for many receivers: /ok/shop is as good as /ok.
const (
	PathOK        = "/ok"        // 200
	PathAlways500 = "/always500" // 500
	PathFlaky     = "/flaky"     // 503 twice for each webhook-id, then 200
	PathGone      = "/gone"      // 410
)

// maxBody is the most that an HTTP sink reads of a request.
const maxBody = 32 << 20

// Request is one request, as it was received.
type Request struct {
	Path      string
	ID        string // webhook-id
	Header    http.Header
	Body      []byte
	Signature error // nil if it verified; always nil if the sink has no secret
	Status    int   // what was answered
	Received  time.Time
}

// HTTPOptions are the options of an HTTP sink. The zero value listens on a free
// port of loopback, without TLS, and verifies nothing.
type HTTPOptions struct {
	Addr string
	TLS  *tls.Config
	// Secrets are those of Standard Webhooks ("whsec_…"). A request that none of
	// them signed is recorded and answered 401.
	Secrets []string
	// Handle answers the paths it has; it goes before those that the sink knows.
	// The body of the request can still be read.
	Handle map[string]http.HandlerFunc
	// Keep is how many requests are kept in full, DefaultKeep if zero, none if
	// negative. Counts go on beyond it.
	Keep int
}

// HTTP is a receiver of webhooks that keeps what it is sent.
type HTTP struct {
	o        HTTPOptions
	l        net.Listener
	server   *http.Server
	verifier []*standardwebhooks.Webhook
	mux      *http.ServeMux
	book     *book[Request]
	done     chan struct{}

	mu    sync.Mutex
	tries map[string]int // of the flaky path, by webhook-id
}

// StartHTTP starts a sink. It serves until Close.
func StartHTTP(o HTTPOptions) (*HTTP, error) {
	h := &HTTP{o: o, book: newBook[Request](o.Keep), done: make(chan struct{}), tries: map[string]int{}}
	for i, secret := range o.Secrets {
		v, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			return nil, fmt.Errorf("secret %d of the sink is not base64", i)
		}
		h.verifier = append(h.verifier, v)
	}
	l, err := listen(o.Addr)
	if err != nil {
		return nil, err
	}
	h.l, h.mux = l, h.routes()
	if o.TLS != nil {
		l = tls.NewListener(l, o.TLS)
	}
	h.server = &http.Server{
		Handler:           http.HandlerFunc(h.serve),
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          log.New(io.Discard, "", 0),
	}
	go func() {
		defer close(h.done)
		_ = h.server.Serve(l)
	}()
	return h, nil
}

// URL returns the address of the sink with a path, such as [PathOK].
func (h *HTTP) URL(path string) string {
	scheme := "http"
	if h.o.TLS != nil {
		scheme = "https"
	}
	return scheme + "://" + h.l.Addr().String() + path
}

// Requests returns the requests received, in the order of their answers, up to
// the number that is kept.
func (h *HTTP) Requests() []Request { return h.book.items() }

// Count returns how many requests were received, whatever was answered.
func (h *HTTP) Count() int {
	total, _ := h.book.counts()
	return total
}

// Accepted returns how many requests were answered with 2xx.
func (h *HTTP) Accepted() int {
	_, took := h.book.counts()
	return took
}

// ByID returns how often each webhook-id was answered with 2xx.
func (h *HTTP) ByID() map[string]int { return h.book.byID() }

// Wait returns once n requests were received, or with an error when ctx is done.
func (h *HTTP) Wait(ctx context.Context, n int) error {
	if err := h.book.wait(ctx, n, func() int { return h.book.total }); err != nil {
		return fmt.Errorf("requests: %w", err)
	}
	return nil
}

// WaitAccepted returns once n requests were answered with 2xx, or with an error
// when ctx is done.
func (h *HTTP) WaitAccepted(ctx context.Context, n int) error {
	if err := h.book.wait(ctx, n, func() int { return h.book.took }); err != nil {
		return fmt.Errorf("accepted requests: %w", err)
	}
	return nil
}

// Close closes the sink and its connections.
func (h *HTTP) Close() error {
	err := h.server.Close()
	<-h.done
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("close the HTTP sink: %w", err)
	}
	return nil
}

func (h *HTTP) routes() *http.ServeMux {
	mux := http.NewServeMux()
	for path, status := range map[string]func(id string) int{
		PathOK:        always(http.StatusOK),
		PathAlways500: always(http.StatusInternalServerError),
		PathGone:      always(http.StatusGone),
		PathFlaky:     h.flaky,
	} {
		if _, taken := h.o.Handle[path]; taken {
			continue
		}
		answer := func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(status(r.Header.Get(standardwebhooks.HeaderWebhookID)))
		}
		mux.HandleFunc(path, answer)
		mux.HandleFunc(path+"/", answer)
	}
	for path, handle := range h.o.Handle {
		mux.HandleFunc(path, handle)
	}
	return mux
}

func always(status int) func(string) int { return func(string) int { return status } }

func (h *HTTP) flaky(id string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tries[id]++
	if h.tries[id] <= 2 {
		return http.StatusServiceUnavailable
	}
	return http.StatusOK
}
