// Package sink holds providers that take everything and tell what they took: an
// SMTP server and an HTTP server on loopback. The demo and the tests send to
// them. What they count is what really went over the wire, so it can be held
// against the ledger.
//
// They speak their protocols through real servers, keep everything in memory and
// serve until Close. They are no place for real mail.
package sink

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
)

// DefaultKeep is how many receipts a sink keeps in full unless told otherwise.
const DefaultKeep = 10_000

// book counts what a sink received and keeps the first of it.
type book[T any] struct {
	keep int

	mu      sync.Mutex
	kept    []T
	total   int            // everything
	took    int            // what was answered positively
	ids     map[string]int // how often each id was taken
	changed chan struct{}  // closed and replaced at every entry
}

func newBook[T any](keep int) *book[T] {
	if keep == 0 {
		keep = DefaultKeep
	}
	return &book[T]{keep: keep, ids: map[string]int{}, changed: make(chan struct{})}
}

func (b *book[T]) enter(id string, took bool, item T) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.total++
	if took {
		b.took++
		b.ids[id]++
	}
	if len(b.kept) < b.keep {
		b.kept = append(b.kept, item)
	}
	close(b.changed)
	b.changed = make(chan struct{})
}

func (b *book[T]) items() []T {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.kept)
}

func (b *book[T]) counts() (total, took int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.total, b.took
}

func (b *book[T]) byID() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.ids)
}

// wait returns once count has reached n, or with an error when ctx is done.
func (b *book[T]) wait(ctx context.Context, n int, count func() int) error {
	for {
		b.mu.Lock()
		got, changed := count(), b.changed
		b.mu.Unlock()
		if got >= n {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("waited for %d, got %d: %w", n, got, context.Cause(ctx))
		}
	}
}

// listen listens on addr, or on a free port of loopback if it is empty.
func listen(addr string) (net.Listener, error) {
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for the sink: %w", err)
	}
	return l, nil
}
