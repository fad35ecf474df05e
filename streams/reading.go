package streams

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tidings/streams/event"
)

// Reading is the log for who reads all of it, an export, and does nothing else.
type Reading struct {
	Outcomes    *Outcomes
	DeadLetters *DeadLetters
	Oversize    *Oversize
}

// OpenReading returns the log on the server that nc is connected to, whose streams
// are there already. It changes nothing, and nothing may be appended by what it
// returns. nc stays the caller's to close.
func OpenReading(ctx context.Context, nc *nats.Conn, log *slog.Logger) (*Reading, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(ackWait))
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	ctx, cancel := withAckWait(ctx, nc)
	defer cancel()
	var all [3]stream
	for i, name := range []string{OutcomesStream, DeadLettersStream, OversizeStream} {
		handle, err := js.Stream(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("open log: %s: %w", name, err)
		}
		all[i] = stream{name: name, nc: nc, js: js, handle: handle, log: log}
	}
	oversize := &Oversize{stream: all[2]}
	return &Reading{
		Outcomes: &Outcomes{stream: all[0]}, DeadLetters: &DeadLetters{stream: all[1], oversize: oversize}, Oversize: oversize,
	}, nil
}

// Next returns the first letter after a sequence as it is stored, or [ErrNotFound].
func (d *DeadLetters) Next(ctx context.Context, after uint64) (Entry, error) {
	return d.next(ctx, "dead.>", after)
}

// Find returns the object of a name, [ErrNotFound], or [ErrForeign] if what is there
// is none.
func (o *Oversize) Find(ctx context.Context, name string) (event.Object, error) {
	there, err := o.find(ctx, name)
	if err != nil {
		return event.Object{}, err
	}
	return event.Object{Bucket: OversizeBucket, Name: there.info.Name, Size: int64(there.info.Size), Digest: there.info.Digest}, nil
}

// HeaderStoredAt is in entries that were imported: when the stream stored them that
// they were exported from, as RFC 3339. It counts, and not the time of the import.
const HeaderStoredAt = "Tidings-Stored-At"

// storedAt returns when an entry was stored, and takes that out of its headers, so
// that an imported entry looks as it did.
func storedAt(h nats.Header, at time.Time) time.Time {
	values := h[HeaderStoredAt]
	if len(values) == 0 {
		return at.UTC()
	}
	delete(h, HeaderStoredAt)
	if original, err := time.Parse(time.RFC3339Nano, values[0]); err == nil {
		return original.UTC()
	}
	return at.UTC()
}
