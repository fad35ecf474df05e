package streams

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Gap is a run of sequences without entries, between the first and the last of a
// stream that nothing is deleted from: damage.
type Gap struct {
	From, To uint64 // both included
	// Accepted is by whose word, and why, readers pass over it; empty: nobody's.
	Accepted string
	// Skipped says that an entry is there, which cannot be folded and is not to be.
	Skipped bool
}

// String implements fmt.Stringer.
func (g Gap) String() string {
	if g.From == g.To {
		return fmt.Sprintf("entry %d", g.From)
	}
	return fmt.Sprintf("entries %d to %d", g.From, g.To)
}

// gapPrefix is where the metadata of a stream keeps the gaps that an operator
// accepted, and skipPrefix what is skipped: with the stream, since whoever reads it
// from the start meets them.
const (
	gapPrefix  = "tidings.gap."
	skipPrefix = "tidings.skip."
)

func (g Gap) name() string {
	prefix := gapPrefix
	if g.Skipped {
		prefix = skipPrefix
	}
	return fmt.Sprintf("%s%d-%d", prefix, g.From, g.To)
}

// acceptedGaps reads the metadata of a stream, in order.
func acceptedGaps(metadata map[string]string) []Gap {
	var gaps []Gap
	for name, why := range metadata {
		text, ok := strings.CutPrefix(name, gapPrefix)
		g := Gap{Accepted: why}
		if !ok {
			text, ok = strings.CutPrefix(name, skipPrefix)
			g.Skipped = true
		}
		if n, err := fmt.Sscanf(text, "%d-%d", &g.From, &g.To); ok && n == 2 && err == nil {
			gaps = append(gaps, g)
		}
	}
	slices.SortFunc(gaps, func(a, b Gap) int { return cmp.Compare(a.From, b.From) })
	return gaps
}

// Missing returns the gaps of the stream that nobody accepted, in order. It reads
// the whole stream: what is damaged the server may not know before it reads it.
func (o *Outcomes) Missing(ctx context.Context) ([]Gap, error) {
	info, err := o.Info(ctx)
	if err != nil {
		return nil, err
	}
	last, err := o.lastPresent(ctx, info)
	if err != nil {
		return nil, err
	}
	w := gapWalk{next: max(info.First, 1), accepted: info.Gaps}
	if last >= w.next {
		err = o.Follow(ctx, w.next, func(e Entry) error {
			w.pass(e.Sequence)
			w.next = e.Sequence + 1
			if e.Sequence >= last {
				return errWalked
			}
			return nil
		})
	}
	if err != nil && !errors.Is(err, errWalked) {
		return nil, fmt.Errorf("gaps of %s: %w", o.name, err)
	}
	w.pass(info.Last + 1)
	return w.gaps, nil
}

var errWalked = errors.New("walked")

// lastPresent returns the sequence of the last entry that is there, 0 if none is.
func (o *Outcomes) lastPresent(ctx context.Context, info StreamInfo) (uint64, error) {
	for last := info.Last; last > 0 && last >= info.First; last-- {
		_, err := o.Entry(ctx, last)
		if !errors.Is(err, ErrNotFound) {
			return last, err
		}
	}
	return 0, nil
}

// gapWalk collects gaps on the way along a stream.
type gapWalk struct {
	next     uint64 // the sequence that should come next
	accepted []Gap
	gaps     []Gap
}

// pass notes what is missing up to a sequence, but what was accepted.
func (w *gapWalk) pass(to uint64) {
	for ; w.next < to; w.next++ {
		last := len(w.gaps) - 1
		switch {
		case slices.ContainsFunc(w.accepted, func(g Gap) bool { return g.From <= w.next && w.next <= g.To }):
		case last >= 0 && w.gaps[last].To+1 == w.next:
			w.gaps[last].To = w.next
		default:
			w.gaps = append(w.gaps, Gap{From: w.next, To: w.next})
		}
	}
}

// AcceptGap notes with the stream that readers may pass over a gap, by g.Accepted.
// What was noted of entries that are forgotten since is taken out.
func (o *Outcomes) AcceptGap(ctx context.Context, g Gap) error {
	ctx, cancel := withAckWait(ctx, o.nc)
	defer cancel()
	info, err := o.handle.Info(ctx)
	if err != nil {
		return fmt.Errorf("accept the gap of %s: %w: %w", g, ErrUnavailable, err)
	}
	c := info.Config
	c.Metadata = maps.Clone(c.Metadata)
	if c.Metadata == nil {
		c.Metadata = map[string]string{}
	}
	for _, old := range acceptedGaps(c.Metadata) {
		if old.To < info.State.FirstSeq {
			delete(c.Metadata, old.name())
		}
	}
	c.Metadata[g.name()] = g.Accepted
	if _, err := o.js.UpdateStream(ctx, c); err != nil {
		return fmt.Errorf("accept the gap of %s: %w", g, err)
	}
	return nil
}
