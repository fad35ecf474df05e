package streams

import (
	"context"
	"sync"
	"time"
)

// room says whether a stream has room for what starts new work. It asks the
// server at most once a second, so it may be late by what is written in one.
type room struct {
	limit int64 // bytes; not positive: no limit

	mu    sync.Mutex
	asked time.Time
	bytes uint64
}

const roomAge = time.Second

// left reports whether less than 90 % of the stream are used. If the server
// does not say, what it said before counts.
func (r *room) left(ctx context.Context, s *stream) bool {
	if r.limit <= 0 {
		return true
	}
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
	return r.bytes < uint64(r.limit)/10*9
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
