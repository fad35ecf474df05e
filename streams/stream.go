package streams

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Entry is one entry of a stream as it is stored.
type Entry struct {
	Sequence uint64
	Time     time.Time // when the stream stored it; of an imported entry, when that did from which it was exported
	Subject  string
	Header   nats.Header
	Data     []byte
}

// StreamInfo is where a stream stands.
type StreamInfo struct {
	Created  time.Time // another one than before means that it is another stream
	First    uint64    // sequence of the first entry
	Last     uint64    // sequence of the last entry that was ever stored
	Messages uint64
	Bytes    uint64
	MaxBytes int64 // -1: no limit
	// Gaps are those that an operator accepted, in order, see [Outcomes.AcceptGap].
	Gaps []Gap
	// MaxAge is after which time the stream forgets an entry; 0: never.
	MaxAge time.Duration
	// Asked is when this was so, by the clock by which entries age; zero where none do.
	Asked time.Time
}

// Keeps reports whether an entry that was stored at a time is too young for the stream
// to have forgotten it by now. Where nothing ages, it reports false.
func (i StreamInfo) Keeps(storedAt time.Time) bool {
	slack := min(time.Minute, i.MaxAge/10) // clocks are set
	return !i.Asked.IsZero() && (i.MaxAge <= 0 || i.Asked.Sub(storedAt) < i.MaxAge-slack)
}

// stream is what the streams have in common.
type stream struct {
	name   string
	nc     *nats.Conn
	js     jetstream.JetStream
	handle jetstream.Stream
	log    *slog.Logger
	steady bool
}

// Info returns where the stream stands.
func (s *stream) Info(ctx context.Context) (StreamInfo, error) {
	ctx, cancel := withAckWait(ctx, s.nc)
	defer cancel()
	info, err := s.handle.Info(ctx)
	if err != nil {
		return StreamInfo{}, fmt.Errorf("info of %s: %w: %w", s.name, ErrUnavailable, err)
	}
	return StreamInfo{
		Created: info.Created, First: info.State.FirstSeq, Last: info.State.LastSeq,
		Messages: info.State.Msgs, Bytes: info.State.Bytes, MaxBytes: info.Config.MaxBytes,
		Gaps: acceptedGaps(info.Config.Metadata), MaxAge: info.Config.MaxAge, Asked: info.TimeStamp,
	}, nil
}

// Entry returns the entry at a sequence, or [ErrNotFound]. On a replicated
// stream the answer may lag behind by a moment.
func (s *stream) Entry(ctx context.Context, sequence uint64) (Entry, error) {
	ctx, cancel := withAckWait(ctx, s.nc)
	defer cancel()
	if sequence == 0 { // the server calls that a bad request
		return Entry{}, fmt.Errorf("entry 0 of %s: %w", s.name, ErrNotFound)
	}
	m, err := s.handle.GetMsg(ctx, sequence)
	if err != nil {
		return Entry{}, fmt.Errorf("entry %d of %s: %w", sequence, s.name, readError(err))
	}
	return entryOf(m), nil
}

// last returns the last entry of a subject. On a replicated stream the answer
// may lag behind by a moment.
func (s *stream) last(ctx context.Context, subject string) (Entry, error) {
	ctx, cancel := withAckWait(ctx, s.nc)
	defer cancel()
	m, err := s.handle.GetLastMsgForSubject(ctx, subject)
	if err != nil {
		return Entry{}, fmt.Errorf("last entry of %s: %w", subject, readError(err))
	}
	return entryOf(m), nil
}

// next returns the first entry of a subject after a sequence, or [ErrNotFound].
func (s *stream) next(ctx context.Context, subject string, after uint64) (Entry, error) {
	ctx, cancel := withAckWait(ctx, s.nc)
	defer cancel()
	m, err := s.handle.GetMsg(ctx, after+1, jetstream.WithGetMsgSubject(subject))
	if err != nil {
		return Entry{}, fmt.Errorf("next entry of %s after %d: %w", subject, after, readError(err))
	}
	return entryOf(m), nil
}

// delete deletes the entry at a sequence for good, or returns [ErrNotFound].
func (s *stream) delete(ctx context.Context, sequence uint64) error {
	ctx, cancel := withAckWait(ctx, s.nc)
	defer cancel()
	err := s.handle.DeleteMsg(ctx, sequence)
	if err == nil {
		return nil
	}
	// The client does not pass on which error it was.
	if _, absent := s.Entry(ctx, sequence); errors.Is(absent, ErrNotFound) {
		return absent
	}
	return fmt.Errorf("delete entry %d of %s: %w: %w", sequence, s.name, ErrUnavailable, err)
}

// purge deletes the entries of a subject below a sequence for good, or all at 0. None
// is no error.
func (s *stream) purge(ctx context.Context, subject string, below uint64) error {
	ctx, cancel := withAckWait(ctx, s.nc)
	defer cancel()
	err := s.handle.Purge(ctx, jetstream.WithPurgeSubject(subject), jetstream.WithPurgeSequence(below))
	if err != nil {
		return fmt.Errorf("remove %s below %d: %w: %w", subject, below, ErrUnavailable, err)
	}
	return nil
}

// entryOf leaves out the headers that a direct get adds, so that an entry
// looks the same however it was read.
func entryOf(m *jetstream.RawStreamMsg) Entry {
	for name := range m.Header {
		switch name {
		case jetstream.StreamHeader, jetstream.SequenceHeader, jetstream.TimeStampHeaer,
			jetstream.SubjectHeader, jetstream.LastSequenceHeader, "Nats-Num-Pending":
			delete(m.Header, name)
		}
	}
	return Entry{Sequence: m.Sequence, Time: storedAt(m.Header, m.Time), Subject: m.Subject, Header: m.Header, Data: m.Data}
}

// withAckWait bounds one request. A request that was under way when the
// connection was lost never gets its answer, so it is not waited for.
func withAckWait(ctx context.Context, nc *nats.Conn) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, ackWait)
	ctx, release := until(ctx, nc, nats.RECONNECTING, nats.CLOSED)
	return ctx, func() { release(); cancel() }
}

// until returns a context that is also done when the connection changes to one
// of the given states.
func until(ctx context.Context, nc *nats.Conn, states ...nats.Status) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	changed := nc.StatusChanged(states...)
	go func() {
		defer nc.RemoveStatusListener(changed)
		select {
		case <-ctx.Done():
		case <-changed:
			cancel(nats.ErrDisconnected)
		}
	}()
	return ctx, func() { cancel(nil) }
}

// undated hides the deadline of a context, which ends nevertheless. The client
// takes a deadline for the expiry of a pull, and refuses one that is sooner than
// two heartbeats: the last seconds before a deadline would bring nothing.
type undated struct{ context.Context }

// Deadline implements context.Context.
func (undated) Deadline() (time.Time, bool) { return time.Time{}, false }
