package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"tidings/streams"
	"tidings/streams/event"
)

// atTheEnd checks what must hold once nothing is left to be done.
func (w *world) atTheEnd() {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	if w.broken == "" {
		w.checker.atTheEnd()
	}
}

func (c *checker) atTheEnd() {
	if c.w.cut {
		return
	}
	for _, e := range c.w.events {
		h := c.history(e.key)
		dead := h.state.Phase == event.PhaseDead
		if l := c.w.letterOf(e.key); dead != (l != nil && l.Generation == h.state.Generation) {
			c.w.violate("%s is %s in generation %d, and its letter is %s", e.name, h.state.Phase, h.state.Generation, ofGeneration(l))
		}
		c.repeats(h)
	}
	for _, call := range c.w.provider.calls {
		h := c.of(call)
		if call.returned && !call.who.dead && !call.who.lossy && h.told[call.code] != 1 {
			c.w.violate("the history does not tell of the call %s", call.code)
		}
	}
	c.duplicates()
}

func (c *checker) trimmed(sequence uint64) bool {
	st := c.w.server.stream(streams.EventsStream)
	return st.find(query{Seq: sequence}, st.last) == nil
}

// repeats counts calls by idempotency key: each beyond the first must have been
// said to be uncertain, or was refused.
func (c *checker) repeats(h *history) {
	calls := map[string]int{}
	for _, call := range c.w.provider.calls {
		if c.of(call) == h && call.arrived && !call.refused {
			calls[call.key]++
		}
	}
	for _, key := range slices.Sorted(maps.Keys(calls)) {
		message, _, _ := strings.Cut(key, ".g")
		if repeats := calls[key] - 1; repeats > h.doubts[message]+h.crashes {
			c.w.violate("%s was repeated %d times and was uncertain %d times", key, repeats, h.doubts[message]+h.crashes)
		}
	}
}

// duplicates checks that every copy of an event beside the first is accounted for.
func (c *checker) duplicates() {
	for _, ref := range c.copies {
		h := c.histories[ref.Key]
		switch {
		case ref.Sequence == h.ref.Sequence, c.renewed[ref.Sequence] && c.trimmed(ref.Sequence):
			// A wake-up that takes the place of a copy that was put back too often comes too
			// late where space is short and the copy is gone.
		case ref.Digest == h.ref.Digest:
			id := event.NewDuplicate(h.ref, event.StageDispatcher, streams.EventsStream, ref.Sequence, "", "", time.Time{}).ID
			if !c.audited[id] && h.copies <= 10 { // those beyond are counted together
				c.w.violate("the copy %d of %s is not in the audit", ref.Sequence, c.w.nameOf(ref.Key))
			}
		case c.letters[fmt.Sprintf("%s of generation 0", event.ConflictKey(ref.Key, ref.Digest))] == 0:
			c.w.violate("the copy %d of %s has another body and no dead letter", ref.Sequence, c.w.nameOf(ref.Key))
		}
	}
}
