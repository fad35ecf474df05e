package projector

import (
	"fmt"
	"time"

	"tidings/store"
	"tidings/streams"
	"tidings/streams/event"
)

// Reason is why a projector halted.
type Reason string

// The reasons.
const (
	ReasonGap         Reason = "gap"          // entries are missing in the middle of OUTCOMES
	ReasonLostTail    Reason = "lost_tail"    // the stream ends before the last entry that was folded
	ReasonOtherEntry  Reason = "other_entry"  // another entry is where the last folded one was: a lost tail, written over
	ReasonOtherStream Reason = "other_stream" // the stream was made anew
	ReasonCutHead     Reason = "cut_head"     // the first entries are missing, and are younger than the horizon
	ReasonUnreadable  Reason = "unreadable"   // an entry cannot be folded
	ReasonDamagedFile Reason = "damaged_file" // the ledger file is not sound
)

// LogDamaged reports whether the log is not to be trusted: what it has lost would be
// sent again.
func (r Reason) LogDamaged() bool {
	switch r {
	case ReasonGap, ReasonLostTail, ReasonOtherEntry, ReasonOtherStream, ReasonCutHead:
		return true
	case ReasonUnreadable, ReasonDamagedFile:
	}
	return false
}

// HaltError says that a stream and the ledger do not fit, where, and what to do.
type HaltError struct {
	Stream   string `json:"stream"`
	Sequence uint64 `json:"sequence"` // of the first entry that is missing or does not fit
	Reason   Reason `json:"reason"`
	Detail   string `json:"detail"` // what was found, in words

	tenant string    // of an unreadable entry, as it says
	key    event.Key // the same
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
	case ReasonCutHead:
		return "keep the ledger file, it knows what was sent. Stop tidings and restore the stream from a backup, or run " +
			"tidings recover, which gives the log what the ledger knows of the missing entries"
	case ReasonUnreadable:
		return fmt.Sprintf("it is nothing that this version writes. Look at it with tidings ledger skip %d --dry-run, and tell "+
			"whoever wrote it. tidings ledger skip %d --reason '...' passes over it; everything else goes on meanwhile", e.Sequence, e.Sequence)
	case ReasonDamagedFile:
		return "stop tidings and delete the ledger file: it is built again from the streams, and nothing is sent"
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

func cutHead(stream string, young store.Entry, info streams.StreamInfo) *HaltError {
	horizon := "nothing is to be forgotten"
	if info.MaxAge > 0 {
		horizon = fmt.Sprintf("the horizon is %s", info.MaxAge)
	}
	return &HaltError{
		Stream: stream, Sequence: young.Sequence, Reason: ReasonCutHead,
		Detail: fmt.Sprintf("the stream begins at %d, although %s and entry %d was stored at %s",
			info.First, horizon, young.Sequence, young.StoredAt.Format(time.RFC3339)),
	}
}

func unfolded(stream string, i item, problem string) *HaltError {
	return &HaltError{
		Stream: stream, Sequence: i.Sequence, Reason: ReasonUnreadable, Detail: "this entry cannot be folded: " + problem,
		tenant: tenantOf(i.tenant), key: i.key,
	}
}

func damagedFile(stream string, sequence uint64, err error) *HaltError {
	return &HaltError{Stream: stream, Sequence: sequence, Reason: ReasonDamagedFile, Detail: err.Error()}
}

func gap(stream string, missing, next uint64) *HaltError {
	what := fmt.Sprintf("entry %d is missing", missing)
	if next > missing+1 {
		what = fmt.Sprintf("entries %d to %d are missing", missing, next-1)
	}
	return &HaltError{Stream: stream, Sequence: missing, Reason: ReasonGap, Detail: what}
}
