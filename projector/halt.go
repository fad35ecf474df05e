package projector

import (
	"fmt"
	"time"
)

// Reason is why a projector halted.
type Reason string

// The reasons.
const (
	ReasonGap         Reason = "gap"          // entries are missing in the middle of OUTCOMES
	ReasonLostTail    Reason = "lost_tail"    // the stream ends before the last entry that was folded
	ReasonOtherEntry  Reason = "other_entry"  // another entry is where the last folded one was: a lost tail, written over
	ReasonOtherStream Reason = "other_stream" // the stream was made anew
)

// HaltError says that a stream and the ledger do not fit, where, and what to do.
type HaltError struct {
	Stream   string `json:"stream"`
	Sequence uint64 `json:"sequence"` // of the first entry that is missing or does not fit
	Reason   Reason `json:"reason"`
	Detail   string `json:"detail"` // what was found, in words
}

// Error implements error.
func (e *HaltError) Error() string {
	return fmt.Sprintf("%s at sequence %d: %s: %s", e.Stream, e.Sequence, e.Detail, e.Remedy())
}

// Remedy says what to do about it.
func (e *HaltError) Remedy() string {
	switch e.Reason {
	case ReasonOtherStream:
		return "if the stream was lost, keep the ledger file, it knows what was sent: stop tidings and restore the stream from a " +
			"backup, or run tidings recover. If it was made anew on purpose, stop tidings, move the ledger file away and start " +
			"again: another is built from the streams"
	case ReasonLostTail, ReasonOtherEntry:
		return "keep the ledger file, it knows what was sent. Stop tidings and restore the stream from a backup, or run " +
			"tidings recover, which gives the log what the ledger knows"
	case ReasonGap:
		return "stop tidings and restore the stream from a backup, or run tidings recover, which gives the log what the " +
			"ledger knows of the missing entries, and passes over the rest"
	}
	return "restart tidings"
}

func otherStream(stream string, had, has time.Time, sequence uint64) *HaltError {
	return &HaltError{
		Stream: stream, Sequence: sequence, Reason: ReasonOtherStream,
		Detail: fmt.Sprintf("the ledger was folded from a stream made at %s, this one was made at %s",
			had.UTC().Format(time.RFC3339Nano), has.UTC().Format(time.RFC3339Nano)),
	}
}

func gap(stream string, missing, next uint64) *HaltError {
	what := fmt.Sprintf("entry %d is missing", missing)
	if next > missing+1 {
		what = fmt.Sprintf("entries %d to %d are missing", missing, next-1)
	}
	return &HaltError{Stream: stream, Sequence: missing, Reason: ReasonGap, Detail: what}
}
