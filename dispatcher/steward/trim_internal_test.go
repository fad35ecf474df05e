package steward

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/streams"
	"tidings/streams/event"
)

func TestHeadMovesPastWhatHasEndedAndIsOld(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	const day = 24 * time.Hour
	copyOf := func(sequence uint64, age time.Duration, phase event.Phase) standing {
		c := streams.Copy{Sequence: sequence, At: now.Add(-age), Ref: event.Ref{Key: event.NewKey("k")}}
		return standing{Copy: c, phase: phase, known: phase != ""}
	}
	foreign := func(sequence uint64, age time.Duration) standing {
		return standing{Copy: streams.Copy{Sequence: sequence, At: now.Add(-age)}}
	}
	for name, c := range map[string]struct {
		head    []standing
		walked  uint64
		short   bool
		before  uint64
		blocked uint64 // sequence
	}{
		"an empty stream has no head": {walked: 9},
		"what has ended and is old goes": {
			head: []standing{copyOf(4, 20*day, event.PhaseSettled), copyOf(6, 15*day, event.PhaseDead)}, walked: 9, before: 7,
		},
		"what is young stays": {
			head: []standing{copyOf(4, 20*day, event.PhaseSettled), copyOf(5, 13*day, event.PhaseSettled)}, walked: 9, before: 5,
		},
		"what is young goes when space is short": {
			head: []standing{copyOf(4, time.Hour, event.PhaseSettled)}, walked: 9, short: true, before: 5,
		},
		"an event that waits stays, and all behind it": {
			head:   []standing{copyOf(4, 20*day, event.PhaseSettled), copyOf(5, 20*day, event.PhaseWaiting), copyOf(6, 20*day, event.PhaseSettled)},
			walked: 9, before: 5, blocked: 5,
		},
		"also when space is short": {
			head: []standing{copyOf(4, 20*day, event.PhaseClaimed)}, walked: 9, short: true, blocked: 4,
		},
		"an event that had a record, and is beyond the horizon, goes": {
			head: []standing{copyOf(4, 20*day, "")}, walked: 9, before: 5,
		},
		"what was not walked yet stays": {
			head: []standing{copyOf(4, 20*day, event.PhaseSettled)}, walked: 3, short: true,
		},
		"what is no event of ours goes with its age": {
			head: []standing{foreign(4, 20*day), foreign(5, time.Hour)}, walked: 9, before: 5,
		},
	} {
		t.Run(name, func(t *testing.T) {
			before, blocked := bound{walked: c.walked, keep: 14 * day, short: c.short, now: now}.cut(c.head)
			require.Equal(t, c.before, before)
			if c.blocked == 0 {
				require.Nil(t, blocked)
				return
			}
			require.Equal(t, c.blocked, blocked.Sequence)
		})
	}
}
