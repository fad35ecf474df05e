package dispatcher_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/streams"
	"tidings/streams/event"
)

// checkRecords looks through all of OUTCOMES and fails the test if a record
// tells an untruth: a state that its facts do not fold to, a gap, a call that no
// claim allowed, a repeat of an unknown one that was not said to be uncertain
// before, or a repeat of a delivered one.
func (r *rig) checkRecords() {
	r.Helper()
	if r.unchecked {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	info, err := r.log.Outcomes.Info(ctx)
	require.NoError(r, err)
	if info.Messages == 0 {
		return
	}
	check, done := checker{states: map[event.Key]event.State{}}, fmt.Errorf("done")
	err = r.log.Outcomes.Follow(ctx, 1, func(e streams.Entry) error {
		if err := check.entry(e); err != nil {
			return fmt.Errorf("entry %d: %w\n%s", e.Sequence, err, e.Data)
		}
		if e.Sequence >= info.Last {
			return done
		}
		return nil
	})
	require.ErrorIs(r, err, done)
}

// checker folds histories as they go by.
type checker struct{ states map[event.Key]event.State }

func (c *checker) entry(e streams.Entry) error {
	if e.Header.Get(streams.HeaderKind) == string(event.KindDuplicate) {
		return nil
	}
	rec, err := event.DecodeRecord(e.Data)
	if err != nil {
		return err
	}
	before := c.states[rec.Event.Key]
	if rec.State.Revision != before.Revision+1 {
		return fmt.Errorf("revision %d follows %d", rec.State.Revision, before.Revision)
	}
	after, err := before.Fold(rec)
	if err != nil {
		return err
	}
	if got, want := asJSON(rec.State), asJSON(after); got != want {
		return fmt.Errorf("the facts fold to another state:\n%s", want)
	}
	if rec.Kind != event.KindLate {
		if err := calls(before, rec); err != nil {
			return err
		}
	}
	c.states[rec.Event.Key] = rec.State
	return nil
}

// calls checks the calls that a record tells of against the state before it.
func calls(before event.State, rec event.Record) error {
	unknown := map[string]bool{}
	for _, f := range rec.Facts {
		t, ok := f.(event.Tried)
		if !ok {
			continue
		}
		switch m := before.Message(t.Message); {
		case before.Claim == nil:
			return fmt.Errorf("message %s was tried without a claim", t.Message)
		case unknown[t.Message]:
			return fmt.Errorf("message %s was repeated in one record after an unknown end", t.Message)
		case m != nil && m.State == event.MessageDelivered:
			return fmt.Errorf("message %s was tried after it was delivered", t.Message)
		case m != nil && !slices.Contains(before.Claim.Messages, t.Message):
			return fmt.Errorf("message %s was tried under a claim that does not name it", t.Message)
		}
		unknown[t.Message] = t.Result == event.TryUnknown || t.Result == event.TryDelivered
	}
	return nil
}

func asJSON(v any) string {
	out, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(out)
}
