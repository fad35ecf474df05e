package streams

import (
	"context"
	"sync"
	"time"
)

// room says whether a stream has room, for what starts new work for instance. It asks the
// server at most once a second, so it may be late by what is written in one.
type room struct {
	limit int64 // bytes; not positive: no limit

	mu    sync.Mutex
	asked time.Time
	bytes uint64
}

const roomAge = time.Second

// left reports whether less than 90 % of the stream are used.
func (r *room) left(ctx context.Context, s *stream) bool {
	return r.limit <= 0 || r.used(ctx, s) < uint64(r.limit)/10*9
}

// used returns how many bytes the stream has. If the server does not say, what it
// said before counts, or 0.
func (r *room) used(ctx context.Context, s *stream) uint64 {
	r.mu.Lock()
	ask := time.Since(r.asked) >= roomAge
	if ask {
		r.asked = time.Now() // the others go by what is known meanwhile
	}
	r.mu.Unlock()
	if ask {
		r.update(ctx, s)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bytes
}

func (r *room) update(ctx context.Context, s *stream) {
	ctx, cancel := context.WithTimeout(ctx, roomAge)
	defer cancel()
	info, err := s.Info(ctx)
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bytes = info.Bytes
}
