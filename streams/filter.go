package streams

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tidings/streams/event"
)

// Filter chooses entries of OUTCOMES by their headers. Empty fields choose all.
type Filter struct {
	Tenant string
	Type   string // of the event
	Key    event.Key
	Kinds  []event.Kind
	// Outcomes are what events ended with, and [event.DuplicateOutcome].
	Outcomes []event.Outcome
	// Final chooses the records that an event ended with.
	Final bool
}

// Match reports whether the filter chooses an entry.
func (f Filter) Match(e Entry) bool {
	is := func(want, header string) bool { return want == "" || want == getHeader(e.Header, header) }
	return is(f.Tenant, HeaderTenant) && is(f.Type, HeaderType) && is(string(f.Key), HeaderKey) &&
		(!f.Final || e.Header.Get(HeaderFinal) == "true") && f.kind(event.Kind(e.Header.Get(HeaderKind))) && f.outcome(event.Outcome(e.Header.Get(HeaderOutcome)))
}

func (f Filter) kind(have event.Kind) bool {
	for _, k := range f.Kinds {
		if k == have {
			return true
		}
	}
	return len(f.Kinds) == 0
}

func (f Filter) outcome(outcome event.Outcome) bool {
	return len(f.Outcomes) == 0 || slices.Contains(f.Outcomes, outcome)
}

// FollowFrom is [Outcomes.Follow] behind a mark, of the entries that the filter
// chooses. It returns [ErrForgotten] or [ErrRewritten] where it cannot go on as if
// nothing had happened; the zero Mark is before the first entry that is there.
func (o *Outcomes) FollowFrom(ctx context.Context, after Mark, f Filter, handle func(Entry) error) error {
	if err := o.check(ctx, after); err != nil {
		return err
	}
	return o.followBy(ctx, sharedBatch, after.Sequence+1, func(e Entry) error {
		if f.Match(e) {
			return handle(e)
		}
		return nil
	})
}

// Errors of following from a mark.
var (
	// ErrForgotten means that entries behind the mark are beyond the horizon.
	ErrForgotten = errors.New("what comes next is forgotten")
	// ErrRewritten means that the log lost its end and has other entries there now.
	ErrRewritten = errors.New("the log has another entry there")
)

// Mark is a place in OUTCOMES that survives the reuse of sequences: the sequence of
// an entry and, where it is known, its record's id.
type Mark struct {
	Sequence uint64
	ID       string
}

// MarkOf returns the mark of an entry.
func MarkOf(e Entry) Mark {
	return Mark{Sequence: e.Sequence, ID: getHeader(e.Header, HeaderRecordID)}
}

// String returns the mark as text: the sequence, and a dot and the id if there is one.
func (m Mark) String() string {
	if m.ID == "" {
		return strconv.FormatUint(m.Sequence, 10)
	}
	return fmt.Sprintf("%d.%s", m.Sequence, m.ID)
}

// ParseMark reads what String returned, or a sequence.
func ParseMark(text string) (Mark, error) {
	sequence, id, _ := strings.Cut(text, ".")
	n, err := strconv.ParseUint(sequence, 10, 64)
	if err != nil {
		return Mark{}, fmt.Errorf("%q is no mark: it begins with a sequence of %s", text, OutcomesStream)
	}
	return Mark{Sequence: n, ID: id}, nil
}

// check says why one cannot go on behind a mark.
func (o *Outcomes) check(ctx context.Context, m Mark) error {
	if m.Sequence == 0 {
		return nil
	}
	info, err := o.Info(ctx)
	switch {
	case err != nil:
		return err
	case m.Sequence > info.Last:
		return fmt.Errorf("after %s: %w: it ends at %d", m, ErrRewritten, info.Last)
	case m.Sequence+1 < info.First:
		return fmt.Errorf("after %s: %w: the first that is there is %d", m, ErrForgotten, info.First)
	case m.ID == "" || m.Sequence < info.First:
		return nil
	}
	e, err := o.Entry(ctx, m.Sequence)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil // damaged, or forgotten just now: that is noticed elsewhere
	case err != nil:
		return err
	case getHeader(e.Header, HeaderRecordID) != m.ID:
		return fmt.Errorf("after %s: %w", m, ErrRewritten)
	}
	return nil
}
