package streams

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Sizes of what a follower asks for at a time.
const (
	followBatch = 512
	// sharedBatch is of those who may be many: what all of them have asked for waits
	// for one connection, which the server cuts where that is too much.
	sharedBatch = 32
	followBytes = 16 << 20 // more than the largest entry
	pullExpiry  = 30 * time.Second
	pullBeat    = 5 * time.Second
	// followerAge is when the server forgets a follower that does not ask.
	followerAge = 5 * time.Minute
)

// Follow calls handle for every entry from sequence from on (1: all; entries
// that are gone are passed over), in order, each once, and goes on with the new
// ones. It blocks, outlasts reconnects and restarts of the server, and returns
// ctx.Err() when ctx is done, or the error of handle. It does not judge gaps in
// the sequences: entries may have been removed, and only the reader knows
// whether they may.
func (s *stream) Follow(ctx context.Context, from uint64, handle func(Entry) error) error {
	return s.followBy(ctx, followBatch, from, handle)
}

// followBy is Follow that asks for so many entries at a time.
func (s *stream) followBy(ctx context.Context, batch int, from uint64, handle func(Entry) error) error {
	f := follower{stream: s, batch: batch, next: max(from, 1), handle: handle}
	pause := s.pauses()
	for {
		before := f.next
		err := f.follow(ctx)
		switch stop, ok := errors.AsType[*handlerError](err); {
		case ctx.Err() != nil:
			return ctx.Err()
		case ok:
			return stop.err
		case isPlace(err):
			return err
		}
		if f.next > before {
			pause.Reset()
		}
		s.log.Debug("follow again", "stream", s.name, "from", f.next, "reason", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause.NextBackOff()):
		}
	}
}

// handlerError is an error of the reader, which ends a Follow.
type handlerError struct{ err error }

func (e *handlerError) Error() string { return e.err.Error() }

// follower is one Follow under way.
type follower struct {
	*stream
	batch  int    // entries to ask for at a time
	next   uint64 // the sequence to go on with
	handle func(Entry) error
}

// follow reads through one consumer of the server's, until anything happens
// that leaves in doubt whether an entry was lost on the way.
func (f *follower) follow(ctx context.Context) error {
	ctx, cancel := until(undated{ctx}, f.nc, nats.CONNECTED, nats.CLOSED)
	defer cancel()
	consumer, err := f.consumer(ctx)
	if err != nil {
		return err
	}
	defer f.forget(ctx, consumer)
	for delivered := uint64(0); ; {
		batch, err := consumer.Fetch(f.batch, jetstream.FetchContext(ctx),
			jetstream.FetchMaxBytes(followBytes), jetstream.FetchHeartbeat(pullBeat))
		if err != nil {
			return err
		}
		for m := range batch.Messages() {
			delivered++
			if err := f.take(m, delivered); err != nil {
				return err
			}
		}
		if err := batch.Error(); err != nil {
			return err
		}
	}
}

func (f *follower) consumer(ctx context.Context) (jetstream.Consumer, error) {
	ctx, cancel := withAckWait(ctx, f.nc)
	defer cancel()
	c, err := f.js.CreateConsumer(ctx, f.name, jetstream.ConsumerConfig{
		AckPolicy:     jetstream.AckNonePolicy,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: f.next,
		MemoryStorage: true, Replicas: 1, InactiveThreshold: followerAge,
	})
	return c, placeError(err)
}

// take hands one entry on, if it is the delivered-th of its consumer.
func (f *follower) take(m jetstream.Msg, delivered uint64) error {
	meta, err := m.Metadata()
	if err != nil {
		return err
	}
	if meta.Sequence.Consumer != delivered {
		return fmt.Errorf("delivery %d came as number %d", meta.Sequence.Consumer, delivered)
	}
	err = f.handle(Entry{
		Sequence: meta.Sequence.Stream, Time: storedAt(m.Headers(), meta.Timestamp),
		Subject: m.Subject(), Header: m.Headers(), Data: m.Data(),
	})
	if err != nil {
		return &handlerError{err}
	}
	f.next = meta.Sequence.Stream + 1
	return nil
}

// forget has the server drop the consumer now; else it does so by itself later.
func (s *stream) forget(ctx context.Context, c jetstream.Consumer) {
	if !s.nc.IsConnected() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = s.js.DeleteConsumer(ctx, s.name, c.CachedInfo().Name)
}
