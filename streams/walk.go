package streams

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"tidings/streams/event"
)

// Handled returns the sequence in EVENTS up to which the dispatcher is through
// with every copy: it acknowledged each, or the server gave it up. It is 0 while
// there has been no dispatcher yet.
func (e *Events) Handled(ctx context.Context) (uint64, error) {
	ctx, cancel := withAckWait(ctx, e.nc)
	defer cancel()
	consumer, err := e.js.Consumer(ctx, e.name, dispatcherConsumer)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("what is handled of %s: %w: %w", e.name, ErrUnavailable, err)
	}
	return consumer.CachedInfo().AckFloor.Stream, nil
}

// Copy is a message in EVENTS without its payload.
type Copy struct {
	Sequence uint64
	At       time.Time // when the stream stored it
	// Ref is zero where the message is no event of ours.
	Ref event.Ref
}

// Copies returns what is stored after a sequence, in order: at most limit
// messages, and none if there are no more. Payloads are not transferred.
func (e *Events) Copies(ctx context.Context, after uint64, limit int) ([]Copy, error) {
	ctx, cancel := withAckWait(ctx, e.nc)
	defer cancel()
	consumer, err := e.js.CreateConsumer(ctx, e.name, jetstream.ConsumerConfig{
		AckPolicy: jetstream.AckNonePolicy, HeadersOnly: true,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: after + 1,
		MemoryStorage: true, Replicas: 1, InactiveThreshold: time.Minute,
	})
	if err != nil {
		return nil, fmt.Errorf("walk %s after %d: %w: %w", e.name, after, ErrUnavailable, err)
	}
	defer e.forget(ctx, consumer)
	// NoWait: what is not there yet is for the next walk.
	batch, err := consumer.FetchNoWait(limit)
	if err != nil {
		return nil, fmt.Errorf("walk %s after %d: %w: %w", e.name, after, ErrUnavailable, err)
	}
	var copies []Copy
	for m := range batch.Messages() {
		if meta, err := m.Metadata(); err == nil {
			ref, _ := decodeRef(m.Headers(), meta.Sequence.Stream, meta.Timestamp)
			copies = append(copies, Copy{Sequence: meta.Sequence.Stream, At: meta.Timestamp.UTC(), Ref: ref})
		}
	}
	if err := batch.Error(); err != nil {
		return nil, fmt.Errorf("walk %s after %d: %w: %w", e.name, after, ErrUnavailable, err)
	}
	return copies, nil
}
