package campaign_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"tidings/bridge"
	"tidings/streams"
	"tidings/streams/event"
	"tidings/streams/streamstest"
)

// tally is what is there in the end.
type tally struct {
	events     []stored
	duplicates []string // ids of the events that they repeat
	letters    int
	ready      int // messages in the queue
}

// stored is an event in EVENTS.
type stored struct {
	id string
	// returns is how often RabbitMQ had got it back before.
	returns int
}

// count opens the log from its files, as another process would.
func (s *site) count() (t tally) {
	s.Helper()
	quiet := slog.New(slog.DiscardHandler)
	server := &server{dir: s.settings.Dir, durability: s.settings.Log.Durability, logger: quiet}
	require.NoError(s, server.start())
	defer server.stop()
	nc, err := server.connect(quiet)
	require.NoError(s, err)
	defer nc.Close()
	options := s.settings.Log
	options.EventsMaxBytes = 0 // whatever it is by now
	log, err := streams.Open(s.Context(), nc, options)
	require.NoError(s, err)
	stop := streamstest.Run(s, log.Run)
	defer stop()
	ctx := s.Context()
	each(s, log.Events.Info, func(seq uint64) {
		e, err := log.Events.Get(ctx, seq)
		require.NoError(s, err)
		t.events = append(t.events, stored{id: e.Envelope.ID, returns: returnsOf(s, e)})
	})
	each(s, log.Outcomes.Info, func(seq uint64) {
		entry, err := log.Outcomes.Entry(ctx, seq)
		require.NoError(s, err)
		var d event.Duplicate
		require.NoError(s, json.Unmarshal(entry.Data, &d))
		require.Equal(s, event.KindDuplicate, d.Kind)
		t.duplicates = append(t.duplicates, slices.Repeat([]string{d.Event.ID}, d.Count)...)
	})
	each(s, log.DeadLetters.Info, func(uint64) { t.letters++ })
	t.ready = s.ready()
	return t
}

// each calls do for every sequence of a stream that nothing was removed from.
func each(t require.TestingT, info func(context.Context) (streams.StreamInfo, error), do func(uint64)) {
	i, err := info(context.Background())
	require.NoError(t, err)
	require.Equal(t, i.Messages, i.Last, "nothing was removed")
	for seq := range i.Last {
		do(seq + 1)
	}
}

// returnsOf reads how often a quorum queue got an event's delivery back.
func returnsOf(t require.TestingT, e streams.StoredEvent) int {
	if e.Headers == nil {
		return 0
	}
	headers, err := bridge.DecodeHeaders(e.Headers)
	require.NoError(t, err)
	n, _ := headers["x-delivery-count"].(int64)
	return int(n)
}

// givenAgain counts the events that RabbitMQ had got back before they were stored.
func (t tally) givenAgain() (n int) {
	for _, e := range t.events {
		if e.returns > 0 {
			n++
		}
	}
	return n
}

// done is what was done in a campaign, as far as it matters for the count.
type done struct {
	confirmed int // events, numbered from 0
	again     int // publishings of the same ids
	purged    int // events that were deleted with their queue
	untold    int // how many more may have gone with it, on their way to the bridge just then
	returns   int // how many times what was in hand may have been given twice
}

// faults says everything that is wrong after what was done.
func (t tally) faults(d done) (faults []string) {
	wrong := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	copies := map[string]int{}
	for _, e := range t.events {
		if copies[e.id]++; copies[e.id] > 1 {
			wrong("%s is in EVENTS %d times", e.id, copies[e.id])
		}
	}
	var lost []string
	for n := range d.confirmed {
		if copies[eventID(n)] == 0 {
			lost = append(lost, eventID(n))
		}
		delete(copies, eventID(n))
	}
	if len(lost) < d.purged || len(lost) > d.purged+d.untold {
		wrong("%d events were confirmed and are not in EVENTS, and %d were deleted with their queue: %v", len(lost), d.purged, lost)
	}
	for id := range copies {
		wrong("%q is in EVENTS, and was never confirmed", id)
	}
	if t.ready > 0 {
		wrong("%d messages are left in the queue", t.ready)
	}
	if t.letters > 0 {
		wrong("there are %d dead letters", t.letters)
	}
	return append(faults, t.unexplained(d)...)
}

// unexplained says which entries of the audit have no reason.
func (t tally) unexplained(d done) (faults []string) {
	if most := d.again + d.returns*window; len(t.duplicates) > most {
		faults = append(faults, fmt.Sprintf("the audit has %d duplicates, and at most %d have a reason", len(t.duplicates), most))
	}
	repeats := map[string]int{}
	for _, id := range t.duplicates {
		if repeats[id]++; repeats[id] > d.again+d.returns {
			faults = append(faults, fmt.Sprintf("the audit has %s as a duplicate for the %d. time", id, repeats[id]))
		}
	}
	return faults
}

func TestTheCountNotices(t *testing.T) {
	good := func() tally {
		return tally{events: []stored{{id: eventID(0)}, {id: eventID(1)}, {id: eventID(2)}}}
	}
	for name, c := range map[string]struct {
		change func(*tally)
		fault  string
	}{
		"nothing, if all is well":       {change: func(*tally) {}},
		"an event that is lost":         {change: func(t *tally) { t.events = t.events[1:] }, fault: "1 events were confirmed and are not in EVENTS, and 0 were deleted with their queue: [e-000000]"},
		"an event that is there twice":  {change: func(t *tally) { t.events = append(t.events, t.events[1]) }, fault: "e-000001 is in EVENTS 2 times"},
		"an event that nobody sent":     {change: func(t *tally) { t.events = append(t.events, stored{id: ""}) }, fault: `"" is in EVENTS, and was never confirmed`},
		"a message that is left":        {change: func(t *tally) { t.ready = 1 }, fault: "1 messages are left in the queue"},
		"a dead letter":                 {change: func(t *tally) { t.letters = 1 }, fault: "there are 1 dead letters"},
		"a duplicate nobody made":       {change: func(t *tally) { t.duplicates = make([]string, window+2) }, fault: "the audit has 258 duplicates, and at most 257 have a reason"},
		"a duplicate that has too many": {change: func(t *tally) { t.duplicates = []string{"a", "a", "a"} }, fault: "the audit has a as a duplicate for the 3. time"},
	} {
		t.Run(name, func(t *testing.T) {
			counted := good()
			c.change(&counted)
			faults := counted.faults(done{confirmed: 3, again: 1, returns: 1})
			if c.fault == "" {
				require.Empty(t, faults)
				return
			}
			require.Contains(t, faults, c.fault)
		})
	}
}
