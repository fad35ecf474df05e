package streams

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Records is OUTCOMES for a program that reads it and may do nothing else. Its
// methods may be called by any number of goroutines.
type Records struct{ outcomes Outcomes }

// OpenRecords returns the records on the server that nc is connected to: that of a
// Tidings which listens for followers, or a server that is run beside it. It
// changes nothing. nc stays the caller's to close, after every Follow has returned.
func OpenRecords(ctx context.Context, nc *nats.Conn, log *slog.Logger) (*Records, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(ackWait))
	if err != nil {
		return nil, fmt.Errorf("open records: %w", err)
	}
	ctx, cancel := withAckWait(ctx, nc)
	defer cancel()
	handle, err := js.Stream(ctx, OutcomesStream)
	if err != nil {
		return nil, fmt.Errorf("open records: %w", err)
	}
	return &Records{Outcomes{stream: stream{name: OutcomesStream, nc: nc, js: js, handle: handle, log: log}}}, nil
}

// Info returns where the stream stands.
func (r *Records) Info(ctx context.Context) (StreamInfo, error) { return r.outcomes.Info(ctx) }

// Entry returns the entry at a sequence, or [ErrNotFound].
func (r *Records) Entry(ctx context.Context, sequence uint64) (Entry, error) {
	return r.outcomes.Entry(ctx, sequence)
}

// Follow calls handle for every entry behind a mark that the filter chooses, in
// order, and goes on with the new ones. It blocks, outlasts reconnects and restarts
// of the server, and returns ctx.Err() when ctx is done, the error of handle, or
// [ErrForgotten] or [ErrRewritten] where it cannot go on as if nothing had happened.
// The zero Mark is before the first entry that is there.
func (r *Records) Follow(ctx context.Context, after Mark, f Filter, handle func(Entry) error) error {
	return r.outcomes.FollowFrom(ctx, after, f, handle)
}

// Codes of the errors with which a server that listens for followers refuses a
// consumer, since the server itself would begin it elsewhere and not mention it.
const (
	// CodeForgotten means that entries are gone, see [ErrForgotten].
	CodeForgotten jetstream.ErrorCode = 29410
	// CodeRewritten means that the log ends before, see [ErrRewritten].
	CodeRewritten jetstream.ErrorCode = 29409
)

// placeError names the error if it says that a place in the log is gone.
func placeError(err error) error {
	api, ok := errors.AsType[*jetstream.APIError](err)
	switch {
	case !ok:
		return err
	case api.ErrorCode == CodeForgotten:
		return fmt.Errorf("%w: %w", ErrForgotten, err)
	case api.ErrorCode == CodeRewritten:
		return fmt.Errorf("%w: %w", ErrRewritten, err)
	}
	return err
}

func isPlace(err error) bool { return errors.Is(err, ErrForgotten) || errors.Is(err, ErrRewritten) }
