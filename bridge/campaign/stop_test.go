package campaign_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/bridge"
	"tidings/bridge/bridgetest"
)

func TestTheBridgeIsKilledTenTimes(t *testing.T) {
	t.Parallel()
	const times = 10
	s := newSite(t, bridgetest.Private(t))
	s.backlog(5000)
	s.spawn()
	stop := s.produce(100)
	for range times {
		s.untilFullHand()
		s.untilAcked(1 + rand.IntN(100)) // anywhere
		s.process.kill()
		s.spawn()
	}
	s.untilAcked(1)
	stop()
	s.done.returns = times
	s.finish()
}

func TestTheBridgeIsTerminatedTenTimes(t *testing.T) {
	t.Parallel()
	const times = 10
	s := newSite(t, bridgetest.Private(t))
	s.settings.Bridge.Drain = 25 * time.Second // the default, said here since it is what is shown
	s.backlog(5000)
	s.spawn()
	stop := s.produce(100)
	var longest time.Duration
	for range times {
		s.untilFullHand()
		s.untilAcked(1 + rand.IntN(100))
		// That no handler is cancelled is for the process to say.
		longest = max(longest, s.process.terminate())
		s.spawn()
	}
	s.untilAcked(1)
	stop()
	counted := s.finish()

	require.Less(t, longest, s.settings.Bridge.Drain)
	require.Empty(t, counted.duplicates, "what was begun is finished and acknowledged, and so not given again")
	require.LessOrEqual(t, counted.givenAgain(), times*window, "what was not begun is at most a window")
	t.Logf("the longest stop took %s", longest.Round(time.Millisecond))
}

// untilFullHand waits until the window is used up.
func (s *site) untilFullHand() {
	s.Helper()
	s.until("a full hand", func(b bridge.Status) bool { return b.InHand == window })
}
