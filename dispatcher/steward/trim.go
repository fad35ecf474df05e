package steward

import (
	"context"
	"fmt"
	"time"

	"tidings/streams"
	"tidings/streams/event"
)

// Space is short from this part of EVENTS on, in percent, and until that one.
const (
	shortAt    = 80
	enoughFrom = 70
)

// used returns how full a stream is, in percent; 0 if it has no limit.
func used(info streams.StreamInfo) int {
	if info.MaxBytes <= 0 {
		return 0
	}
	return int(info.Bytes * 100 / uint64(info.MaxBytes))
}

// enough returns how many messages of the usual size must go for space not to be
// short any more.
func enough(info streams.StreamInfo) int {
	u := uint64(max(used(info), 1))
	return int(info.Messages*(u-min(u, enoughFrom))/u) + 1
}

// standing is a copy at the head of EVENTS and where its event stands. One that was
// walked and is not known is no event of ours, or it is beyond the horizon.
type standing struct {
	streams.Copy
	phase event.Phase
	known bool
}

// bound is up to where the head may go.
type bound struct {
	walked uint64        // everything up to it has a record
	keep   time.Duration // how long what has ended stays
	short  bool          // space is short: what has ended goes at any age
	now    time.Time
}

// cut returns the sequence before which everything may be removed, and the copy
// whose event has not ended and stands in the way, if one does. It is pure.
func (b bound) cut(head []standing) (before uint64, blocked *standing) {
	for i, c := range head {
		switch {
		case c.Sequence > b.walked, !b.short && b.now.Sub(c.At) <= b.keep:
			return before, nil
		case c.known && c.phase != event.PhaseSettled && c.phase != event.PhaseDead:
			return before, &head[i]
		}
		before = c.Sequence + 1
	}
	return before, nil
}

// trim moves the head of EVENTS on. It returns an alarm if space is short and the
// head cannot move.
func (s *Steward) trim(ctx context.Context, walked uint64) (alarm string, err error) {
	for short := false; ; {
		info, err := s.o.Events.Info(ctx)
		if err != nil {
			return "", err
		}
		short = used(info) >= shortAt || short && used(info) >= enoughFrom
		head, err := s.head(ctx, info.First)
		if err != nil {
			return "", err
		}
		if short {
			head = head[:min(len(head), enough(info))]
		}
		b := bound{walked: walked, keep: s.o.Keep, short: short, now: s.o.Now()}
		before, blocked := b.cut(head)
		if before <= info.First {
			return alarmOf(info, short, blocked, head), nil
		}
		if err := s.o.Events.Trim(ctx, before); err != nil {
			return "", err
		}
		s.o.Logger.Info("trimmed EVENTS", "before", before, "used_percent", used(info), "space_short", short)
	}
}

// head returns the first copies of EVENTS with where their events stand.
func (s *Steward) head(ctx context.Context, first uint64) ([]standing, error) {
	copies, err := s.o.Events.Copies(ctx, max(first, 1)-1, atMost)
	if err != nil {
		return nil, err
	}
	head := make([]standing, len(copies))
	for i, c := range copies {
		head[i].Copy = c
		if c.Ref.Key == "" {
			continue
		}
		if head[i].phase, head[i].known, err = s.o.Ledger.Phase(c.Ref.Key); err != nil {
			return nil, err
		}
	}
	return head, nil
}

// alarmOf says in words why the head cannot move although it must.
func alarmOf(info streams.StreamInfo, short bool, blocked *standing, head []standing) string {
	full := fmt.Sprintf("%s is %d %% full and cannot be trimmed: ", streams.EventsStream, used(info))
	switch {
	case !short || len(head) == 0:
		return ""
	case blocked == nil:
		return full + fmt.Sprintf("the dispatcher is not through with number %d yet", head[0].Sequence)
	}
	r := blocked.Ref
	return full + fmt.Sprintf("its oldest event %s (%s %q of tenant %q, number %d) is still %s: see tidings events why %s",
		r.Key, r.Type, r.ID, r.Tenant, blocked.Sequence, blocked.phase, r.Key)
}
