//go:build unix

package embedded_test

import (
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"tidings/streams/embedded"
)

func TestAServerThatCouldNotWriteSaysSo(t *testing.T) {
	s := start(t, embedded.Options{StoreDir: t.TempDir()})
	nc := connect(t, s)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}})
	require.NoError(t, err)
	_, err = js.Publish(t.Context(), "s", nil)
	require.NoError(t, err)
	require.NoError(t, s.Health())

	limitFiles(t, 1<<20) // above what the test binary itself writes
	require.NoError(t, nc.Publish("s", make([]byte, 4<<20)))
	require.NoError(t, nc.Flush())
	require.Eventually(t, func() bool { return s.Health() != nil }, 10*time.Second, 10*time.Millisecond)
	require.ErrorContains(t, s.Health(), "see to the disk, and restart tidings")
}

// limitFiles lets no file of this process grow beyond size, as a full disk would,
// until the test ends.
func limitFiles(t *testing.T, size uint64) {
	t.Helper()
	signal.Ignore(syscall.SIGXFSZ)
	var before syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before))
	limit := before
	limit.Cur = size
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit))
	t.Cleanup(func() {
		require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before))
		signal.Reset(syscall.SIGXFSZ)
	})
}
