package dispatcher_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"tidings/streams/event"
)

func TestEightRacersInProcessesForEachOfAHundredEvents(t *testing.T) {
	t.Parallel()
	p := newPeers(t, nil)
	var events []event.Envelope
	for i := range 100 {
		events = append(events, p.order(fmt.Sprint(i), fmt.Sprint("/ok/", i)))
	}
	for range 8 {
		for _, e := range events {
			publishAgain(t, p.log, e)
		}
	}
	p.start("a", "b", "c", "d", "e", "f", "g", "h")
	h := p.until("seven of eight copies are duplicates", func(h history) bool { return len(h.duplicates) == 700 })
	require.Len(t, h.records, 200, "one claim and one end for each event")
	owners := map[string]bool{}
	for _, r := range h.records {
		require.Zero(t, r.State.Crashes)
		if r.State.Claim != nil {
			owners[r.State.Claim.Owner.Instance] = true
		}
	}
	require.Greater(t, len(owners), 1, "it was a race")
	require.Equal(t, 100, p.sink.Count())
	require.Zero(t, p.checkRepeats(h))
}
