package bench

import (
	"context"
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

// receiver is a provider on loopback that answers 200 at once, and notes by
// idempotency key what it was sent.
type receiver struct {
	url    string
	server *http.Server
	served chan struct{}

	mu       sync.Mutex // guards what follows
	receipts map[string]receipt
	total    int
}

// receipt is what came under one idempotency key.
type receipt struct {
	first time.Time
	times int
}

func startReceiver(expect int) (*receiver, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for webhooks: %w", err)
	}
	r := &receiver{
		url: "http://" + l.Addr().String() + "/", served: make(chan struct{}),
		receipts: make(map[string]receipt, expect),
	}
	r.server = &http.Server{Handler: r, ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	go func() {
		defer close(r.served)
		_ = r.server.Serve(l)
	}()
	return r, nil
}

// ServeHTTP implements http.Handler.
func (r *receiver) ServeHTTP(_ http.ResponseWriter, req *http.Request) {
	now := time.Now()
	_, _ = io.Copy(io.Discard, req.Body)
	r.note(req.Header.Get(standardwebhooks.HeaderWebhookID), now)
}

func (r *receiver) note(key string, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	got := r.receipts[key]
	if got.times++; got.times == 1 {
		got.first = at
	}
	r.receipts[key] = got
	r.total++
}

// count returns how many requests came, repeats included.
func (r *receiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.total
}

// once returns when what has that key came, and an error unless it came once.
func (r *receiver) once(key string) (time.Time, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	got := r.receipts[key]
	if got.times != 1 {
		return time.Time{}, fmt.Errorf("message %s was received %d times, not once", key, got.times)
	}
	return got.first, nil
}

func (r *receiver) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err := r.server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = r.server.Close()
	}
	<-r.served
	return err
}
