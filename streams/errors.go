package streams

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tidings/streams/event"
)

// Errors when appending, to be recognised with errors.Is.
var (
	// ErrFull means that the stream has no room: nothing was stored. Stop
	// taking new work until there is; what is in hand may be tried again.
	ErrFull = errors.New("stream is full")
	// ErrUnknown means that the append may or may not have been stored. It is
	// resolved by appending the very same entry again, never by reading.
	ErrUnknown = errors.New("fate of the append is unknown")
	// ErrUnavailable means that the log could not be reached or refused to
	// work, and that nothing was stored.
	ErrUnavailable = errors.New("log is unavailable")
	// ErrClosed means that Run has ended: nothing was stored.
	ErrClosed = errors.New("log is closed")
)

// ErrChanged means, when replacing, that what was to be replaced is not there any
// more: somebody else replaced or removed it. Nothing was stored that stays.
var ErrChanged = errors.New("changed meanwhile")

// ErrNotFound means, when reading, that there is no such entry. It is no proof
// that none is being written.
var ErrNotFound = errors.New("not found")

// ErrForeign means, when reading, that Tidings did not write the entry, so that
// it cannot be understood.
var ErrForeign = errors.New("not written by Tidings")

// ErrDamaged means, when reading an object, that its bytes are not, or not all,
// those that were stored.
var ErrDamaged = errors.New("the object is damaged")

// ErrStopping is the cause of a handler's context when the time to drain is over.
var ErrStopping = errors.New("consumer is stopping")

// FullError says which stream has no room, and where room comes from. It is [ErrFull].
type FullError struct {
	Stream string // empty: EVENTS
	Bytes  uint64 // that the stream has, as a moment ago; 0: not known
	Limit  int64  // bytes that it may have
	// Entry is how many bytes did not fit; 0 where there is no room to speak of.
	Entry int
	Err   error // what the server said; nil: it was not asked
}

// Error implements error.
func (e *FullError) Error() string {
	what := strings.TrimPrefix(cmp.Or(e.Stream, EventsStream), "OBJ_") + " is full" // of a bucket its own name
	if e.Bytes > 0 {
		what += fmt.Sprintf(" (%d of %d MiB", e.Bytes>>20, e.Limit>>20)
		if e.Entry > 0 {
			what += fmt.Sprintf(", and an event of %d bytes does not fit", e.Entry)
		}
		what += ")"
	}
	switch said, server := errors.AsType[*jetstream.APIError](e.Err); {
	case server:
		return what + ": NATS has no room for it (" + said.Description + "): give it more storage"
	case errors.Is(e.Err, errReserved):
		what += " but for what is left for " + reservedFor(e.Stream)
	}
	return what + ": " + roomComes(cmp.Or(e.Stream, EventsStream))
}

// roomComes says where room in a stream comes from.
func roomComes(stream string) string {
	switch stream {
	case EventsStream:
		return "room comes as its oldest events end, or raise events.max_bytes; if one stands in the way for long, the part steward of `tidings status` names it"
	case OutcomesStream:
		return "room comes as histories become older than the horizon, or raise outcomes.max_bytes"
	case DeadLettersStream:
		return "requeue or discard dead letters, or raise dead_letters.max_bytes"
	case OversizeStream:
		return "requeue or discard dead letters that are too large for a message, or raise oversize.max_bytes"
	}
	return "make room"
}

// errReserved means that there is room, and that it is for something else.
var errReserved = errors.New("the rest is reserved")

func (s *stream) reserved() error { return &FullError{Stream: s.name, Err: errReserved} }

func reservedFor(stream string) string {
	if stream == DeadLettersStream {
		return "letters that are there"
	}
	return "results"
}

// full says of a stream without room which one it is, unless that is said.
func (s *stream) full(err error) error {
	_, said := errors.AsType[*FullError](err)
	if said || !errors.Is(err, ErrFull) || errors.Is(err, ErrUnknown) {
		return err
	}
	return &FullError{Stream: s.name, Err: err}
}

// Unwrap returns [ErrFull], and what the server said.
func (e *FullError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrFull}
	}
	return []error{ErrFull, e.Err}
}

// Bytes writes a limit for people: in MiB or KiB where it is a whole number of them.
func Bytes(n int) string {
	switch {
	case n > 0 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n > 0 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}

// TooLargeError says that an entry cannot be stored because of its size.
type TooLargeError struct {
	What  string // "headers", "payload" or "entry"
	Size  int    // bytes; 0 where only the server knows
	Limit int    // bytes; 0 where only the server knows
}

// Error implements error.
func (e *TooLargeError) Error() string {
	if e.Limit == 0 {
		return e.What + " larger than the server takes"
	}
	return fmt.Sprintf("%s of %d bytes, the limit is %s", e.What, e.Size, Bytes(e.Limit))
}

// ConflictError says that an event's history is not where the append expected
// it to be: somebody else appended first, or the expected record has aged out.
type ConflictError struct {
	Key   event.Key
	After uint64 // the sequence that was expected to be the last
	// Last is the event's last record, read after the conflict. Its Sequence
	// is 0 if there is none.
	Last StoredRecord
	// Landed is the sequence at which the refused record is in the history
	// nevertheless, from an earlier try whose answer was lost, with others
	// after it. It is 0 if the record is not in the history.
	Landed uint64
}

// Error implements error.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("event %s: last record is at sequence %d, expected %d", e.Key, e.Last.Sequence, e.After)
}

// errConflict marks an answer of the server that says: not where you expected
// it to be, or, for message ids, already there.
var errConflict = errors.New("conflict")

// errRefused marks an answer of the server that says no for another reason.
var errRefused = errors.New("refused")

const (
	codeWrongLastSequence         jetstream.ErrorCode = 10071
	codeWrongLastSequenceConstant jetstream.ErrorCode = 10164
	codeDuplicateInProcess        jetstream.ErrorCode = 10158
	codeBatchDuplicate            jetstream.ErrorCode = 10201
	codeMessageTooLarge           jetstream.ErrorCode = 10054
	codeHeaderTooLarge            jetstream.ErrorCode = 10097
	codeStoreFailed               jetstream.ErrorCode = 10077
	codeInsufficientResources     jetstream.ErrorCode = 10023
	codeStorageExceeded           jetstream.ErrorCode = 10047
)

// publishError translates what a publish ended with. The result wraps exactly
// one of errConflict, errRefused, ErrFull, ErrUnavailable, ErrUnknown, or is a
// *TooLargeError; only ErrUnknown leaves open whether the entry is stored.
func publishError(err error) error {
	if err == nil {
		return nil
	}
	if api, ok := errors.AsType[*jetstream.APIError](err); ok {
		return apiError(api)
	}
	switch {
	case errors.Is(err, nats.ErrMaxPayload):
		return &TooLargeError{What: "entry"}
	case errors.Is(err, nats.ErrReconnectBufExceeded),
		errors.Is(err, nats.ErrConnectionClosed),
		errors.Is(err, nats.ErrConnectionDraining),
		errors.Is(err, nats.ErrBadSubject),
		errors.Is(err, jetstream.ErrTooManyStalledMsgs),
		errors.Is(err, jetstream.ErrAsyncPublishReplySubjectSet):
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	default:
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	}
}

func apiError(api *jetstream.APIError) error {
	switch api.ErrorCode {
	case codeWrongLastSequence, codeWrongLastSequenceConstant, codeDuplicateInProcess, codeBatchDuplicate:
		return fmt.Errorf("%w: %w", errConflict, api)
	case codeMessageTooLarge, codeHeaderTooLarge:
		return &TooLargeError{What: "entry"}
	case codeInsufficientResources, codeStorageExceeded:
		return fmt.Errorf("%w: %w", ErrFull, api)
	case codeStoreFailed:
		// One code for every reason not to store; only the text tells the
		// limit, which is back-pressure, from a broken disk, which is not.
		if strings.Contains(api.Description, "maximum bytes exceeded") {
			return ErrFull
		}
	}
	return fmt.Errorf("%w: %w", errRefused, api)
}

// readError translates what a read ended with.
func readError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return ErrNotFound
	default:
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
}
