package projector

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"tidings/store"
	"tidings/streams"
)

// shownMax is how many differences are kept to be shown.
const shownMax = 20

// Differences are those between the ledger, ours, and what the log gives, theirs.
type Differences struct {
	Count map[string]int     `json:"count,omitempty"` // by what differs, see [store.Difference]
	First []store.Difference `json:"first,omitempty"` // at most 20
	// Unreadable says why nothing could be compared: the file of the ledger is damaged.
	Unreadable string `json:"unreadable,omitempty"`
}

// None reports whether the ledger is what the log gives.
func (d Differences) None() bool { return len(d.Count) == 0 && d.Unreadable == "" }

// String says it in a line: "2 rows, 1 entry".
func (d Differences) String() string {
	switch {
	case d.None():
		return "none"
	case d.Unreadable != "":
		return d.Unreadable
	}
	var words []string
	for _, what := range slices.Sorted(maps.Keys(d.Count)) {
		words = append(words, fmt.Sprintf("%d × %s", d.Count[what], what))
	}
	return strings.Join(words, ", ")
}

func (d *Differences) add(one store.Difference) {
	if d.Count == nil {
		d.Count = map[string]int{}
	}
	d.Count[one.What]++
	if len(d.First) < shownMax {
		d.First = append(d.First, one)
	}
}

// compareTries is how often it is compared again where the ledger forgot something
// at the same moment.
const compareTries = 3

// differences compares while the projector goes on.
func (r *rebuild) differences(ctx context.Context) (found Differences, err error) {
	r.Progress(Progress{Phase: PhaseComparing})
	if err := r.caughtUp(ctx); err != nil {
		return found, err
	}
	for range compareTries {
		var first uint64
		if first, err = r.forget(ctx); err == nil {
			found, err = r.compareNow(ctx, first)
		}
		if errors.Is(err, store.ErrDamaged) {
			return Differences{Unreadable: err.Error()}, nil
		}
		if err != nil || found.None() {
			return found, err
		}
		info, err := r.projectorOf(r.Store, r.Outcomes).outcomes.info(ctx)
		if err != nil || info.First == first {
			return found, err
		}
	}
	return found, nil
}

// caughtUp waits until the ledger is where the second file is: one that knew nothing
// is followed into while the second file is made.
func (r *rebuild) caughtUp(ctx context.Context) error {
	second, err := at(r.second)
	if err != nil || r.Live == nil {
		return err
	}
	if _, err := at(r.Store); errors.Is(err, store.ErrDamaged) {
		return nil
	}
	return r.Live.CaughtUp(ctx, second)
}

// forget has both files forget what the log no longer has, and returns its first
// sequence.
func (r *rebuild) forget(ctx context.Context) (first uint64, err error) {
	p := r.projectorOf(r.Store, r.Outcomes)
	info, err := p.outcomes.info(ctx)
	if err != nil {
		return 0, err
	}
	return info.First, errors.Join(
		trim(ctx, p.outcomes, info),
		trim(ctx, r.projectorOf(r.second, r.Outcomes).outcomes, info),
	)
}

// compareNow compares the ledger as it is now with a second file that is folded as far
// and begins with the same sequence.
func (r *rebuild) compareNow(ctx context.Context, first uint64) (found Differences, err error) {
	snapshot, release, err := r.Store.Snapshot()
	if err != nil {
		return found, err
	}
	defer func() { err = errors.Join(err, release()) }()
	ledger, err := at(snapshot)
	second, err2 := at(r.second)
	if err != nil || err2 != nil {
		return found, errors.Join(err, err2)
	}
	if second > ledger { // which knew nothing when this began
		return found, nil
	}
	if second < ledger {
		if err := r.fold(ctx, bounded{Stream: r.Outcomes, last: ledger, first: first}); err != nil {
			return found, err
		}
		r.Progress(Progress{Phase: PhaseComparing})
	}
	return r.compare(ctx, snapshot)
}

// compare collects what the ledger says and the second file does not, or otherwise.
func (r *rebuild) compare(ctx context.Context, ledger *store.Store) (found Differences, err error) {
	letters, err := ledger.Checkpoint(streams.DeadLettersStream)
	if err != nil {
		return found, err
	}
	var asked error
	err = ledger.Compare(r.second, func(d store.Difference) bool {
		if asked = ctx.Err(); asked != nil {
			return false
		}
		if d.What == "letter" {
			var meanwhile bool
			if meanwhile, asked = r.meanwhile(ctx, d, letters.Sequence); asked != nil || meanwhile {
				return asked == nil
			}
		}
		found.add(d)
		return true
	})
	return found, errors.Join(err, asked)
}

// meanwhile reports whether a letter differs only because letters come and go: ours is
// no longer there, or theirs came after the last that the ledger has seen.
func (r *rebuild) meanwhile(ctx context.Context, d store.Difference, seen uint64) (bool, error) {
	if d.Ours == "" && d.Letter > seen {
		return true, nil
	}
	_, err := r.projectorOf(r.Store, r.Outcomes).letters.entry(ctx, d.Letter)
	if errors.Is(err, streams.ErrNotFound) {
		return true, nil
	}
	return false, err
}
