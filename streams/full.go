package streams

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Ready returns nil if events can be published, a *[FullError] if the stream has no
// room to speak of, and [ErrUnavailable] if it does not answer. It asks the server.
func (e *Events) Ready(ctx context.Context) error {
	info, err := e.Info(ctx)
	if err != nil {
		return err
	}
	return ready(info)
}

// Takes is [Events.Ready], but that the stream is full also where it refused an event
// within the last two minutes that would not fit now either. Smaller ones may.
func (e *Events) Takes(ctx context.Context) error {
	info, err := e.Info(ctx)
	if err != nil {
		return err
	}
	if err := ready(info); err != nil {
		return err
	}
	if n := e.short.lately(); n > 0 && info.MaxBytes > 0 && info.Bytes+uint64(n) > uint64(info.MaxBytes) {
		return &FullError{Bytes: info.Bytes, Limit: info.MaxBytes, Entry: n}
	}
	return nil
}

func ready(info StreamInfo) error {
	if limit := info.MaxBytes; limit > 0 && info.Bytes > uint64(limit-min(limit/100, roomToSpeakOf)) {
		return &FullError{Bytes: info.Bytes, Limit: limit}
	}
	return nil
}

// roomToSpeakOf is the most that Ready asks for; else it is a hundredth of the
// stream. A full stream is never full to the byte, as an event does not fit
// before that.
const roomToSpeakOf = 64 << 20

// refusedBy says how full the stream is if that is why it refused an entry. What
// the server lacks beside it the server says itself.
func (e *Events) refusedBy(ctx context.Context, err error, size int) error {
	if _, server := errors.AsType[*jetstream.APIError](err); server || !errors.Is(err, ErrFull) {
		return err
	}
	e.short.noted(size)
	return &FullError{Bytes: e.room.used(ctx, &e.stream), Limit: e.room.limit, Entry: size}
}

// shortage is the largest entry that did not fit, since one like it did.
type shortage struct {
	any  atomic.Bool // so that who has no shortage does not wait for the others
	mu   sync.Mutex
	size int
	at   time.Time // when one did not fit
}

// shortFor is how long an entry counts that did not fit and is not offered again.
const shortFor = 2 * time.Minute

func (s *shortage) noted(size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.at) > shortFor {
		s.size = 0
	}
	s.size, s.at = max(s.size, size), time.Now()
	s.any.Store(true)
}

// over notes that an entry did fit.
func (s *shortage) over(size int) {
	if !s.any.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if size >= s.size {
		s.size = 0
		s.any.Store(false)
	}
}

// lately returns the size of what did not fit, 0 if there is nothing.
func (s *shortage) lately() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.at) > shortFor {
		return 0
	}
	return s.size
}
