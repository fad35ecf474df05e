//go:build unix

package campaign_test

import (
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/bridge"
	"tidings/bridge/bridgetest"
)

// FillDisk lets no file of the process grow any more once it has a size, as a
// full disk would.
func (c *control) FillDisk(size uint64, _ *struct{}) error {
	signal.Ignore(syscall.SIGXFSZ)
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	limit.Cur = size
	return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit)
}

func TestTheDiskIsFull(t *testing.T) {
	t.Parallel()
	s := newSite(t, bridgetest.Private(t))
	s.load.pad = strings.Repeat("x", 2000)
	s.settings.Bridge.HoldFor = 5 * time.Second // the disk is full for much longer
	s.spawn()
	stop := s.produce(200)
	s.untilAcked(100)

	s.process.call("FillDisk", uint64(1<<20), &struct{}{})
	s.until("a log that does not write", func(b bridge.Status) bool { return !b.Ready() })
	over := time.NewTimer(20 * time.Second)
	s.until("the window back", func(b bridge.Status) bool { return b.InHand == 0 && !b.Consuming })
	acked := s.until("the reason", func(b bridge.Status) bool {
		return strings.Contains(b.Reason, "see to the disk, and restart tidings")
	}).Acked
	<-over.C
	status, _ := s.process.status()
	require.Equal(t, acked, status.Acked, "nothing is acknowledged")

	s.process.terminate() // what it says is done: the limit ends with the process
	s.spawn()
	s.untilAcked(100)
	stop()
	s.done.returns = 1
	counted := s.finish()
	require.Positive(t, counted.givenAgain())
	for _, e := range counted.events {
		require.LessOrEqual(t, e.returns, 1, "given back once")
	}
}
