package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"tidings/dispatcher/steward"
	"tidings/streams"
	"tidings/streams/event"
)

// ledger is what a steward knows: what the records say, or said a while ago.
type ledger struct{ p *process }

// Overdue implements steward.Ledger.
func (l ledger) Overdue(_ context.Context, due, idle time.Time, limit int) ([]streams.Wakeup, error) {
	return consult(l, "what is overdue", func(c *checker, lags bool) []streams.Wakeup {
		wake := c.overdue(due, idle, lags)
		return wake[:min(len(wake), limit)]
	})
}

// Settled implements steward.Ledger.
func (l ledger) Settled(_ context.Context, limit int) ([]steward.Letter, error) {
	return consult(l, "which letters are over", func(c *checker, lags bool) []steward.Letter {
		settled := c.settled(lags)
		return settled[:min(len(settled), limit)]
	})
}

// consult asks the ledger for a list. That it is empty is not worth telling.
func consult[T any](l ledger, what string, list func(c *checker, lags bool) []T) ([]T, error) {
	type answer struct {
		list []T
		err  error
	}
	a, alive := askIdly(l.p, true, "asks the ledger "+what, []fate{done, lagging, failed}, func(f fate) (answer, string) {
		if f == failed {
			return answer{err: errors.New("the ledger cannot be read")}, ""
		}
		found := list(l.p.w.checker, f == lagging)
		if len(found) == 0 {
			return answer{}, untold
		}
		return answer{list: found}, fmt.Sprint(len(found))
	})
	if !alive {
		return nil, errDead
	}
	return a.list, a.err
}

// CaughtUp implements steward.Ledger.
func (l ledger) CaughtUp(context.Context) error {
	_, err := consult(l, "to catch up", func(*checker, bool) []int { return nil })
	return err
}

// Phase implements steward.Ledger. It is asked of a ledger that has caught up.
func (l ledger) Phase(key event.Key) (event.Phase, bool, error) {
	l.p.w.server.mu.Lock()
	defer l.p.w.server.mu.Unlock()
	s := l.p.w.checker.history(key).state
	return s.Phase, s.Phase != "", nil
}

// Walked implements steward.Ledger.
func (l ledger) Walked(context.Context) (uint64, error) {
	l.p.w.server.mu.Lock()
	defer l.p.w.server.mu.Unlock()
	return l.p.w.walked[l.p.owner.Instance], nil
}

// Walk implements steward.Ledger.
func (l ledger) Walk(_ context.Context, sequence uint64) error {
	l.p.w.server.mu.Lock()
	defer l.p.w.server.mu.Unlock()
	l.p.w.walked[l.p.owner.Instance] = sequence
	return nil
}

// known returns the state that a ledger has of an event. One that lags behind does
// not know the last record.
func (h *history) known(lags bool) event.State {
	if lags {
		return h.before
	}
	return h.state
}

// overdue returns what a ledger would say of the records so far.
func (c *checker) overdue(due, idle time.Time, lags bool) []streams.Wakeup {
	var wake []streams.Wakeup
	for _, k := range slices.Sorted(maps.Keys(c.histories)) {
		h := c.histories[k]
		s := h.known(lags)
		switch {
		case s.Phase == event.PhaseWaiting && s.Due.Before(due),
			(s.Phase == event.PhaseOpen || s.Phase == event.PhaseClaimed) && s.ChangedAt.Before(idle):
			wake = append(wake, streams.Wakeup{Tenant: h.ref.Tenant, Key: h.ref.Key, Sequence: h.ref.Sequence})
		}
	}
	return wake
}

// settled returns the letters whose events have settled, by the records so far.
func (c *checker) settled(lags bool) []steward.Letter {
	var out []steward.Letter
	for _, e := range c.w.deadLetters() {
		var l event.Letter
		c.w.must(json.Unmarshal(e.data, &l))
		if c.history(l.Key).known(lags).Phase == event.PhaseSettled {
			out = append(out, steward.Letter{Tenant: l.Tenant, Key: l.Key, Generation: l.Generation, Sequence: e.seq})
		}
	}
	return out
}
