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

// compare collects what the ledger says and the second file does not, or otherwise.
func (r *rebuild) compare(ctx context.Context) (found Differences, err error) {
	letters, err := r.Store.Checkpoint(streams.DeadLettersStream)
	if err != nil {
		return found, err
	}
	var asked error
	err = r.Store.Compare(r.second, func(d store.Difference) bool {
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
	if errors.Is(err, store.ErrDamaged) {
		return Differences{Unreadable: err.Error()}, nil
	}
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
