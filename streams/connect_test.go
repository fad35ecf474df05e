package streams_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"tidings/streams"
	"tidings/streams/embedded"
)

// lockedBuffer is written by the logger and read by the test.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func freePort(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	return ln.Addr().String()
}

func TestConnect(t *testing.T) {
	t.Run("waits for a server that is down", func(t *testing.T) {
		addr := freePort(t)
		var logged lockedBuffer
		done := make(chan error, 1)
		go func() {
			nc, err := streams.Connect(t.Context(), "nats://user:s3cret@"+addr, "test", slog.New(slog.NewTextHandler(&logged, nil)))
			if err == nil {
				nc.Close()
			}
			done <- err
		}()
		require.Eventually(t, func() bool { return logged.String() != "" }, 10*time.Second, time.Millisecond)
		srv, err := embedded.Start(t.Context(), embedded.Options{StoreDir: t.TempDir(), Listen: addr})
		require.NoError(t, err)
		t.Cleanup(srv.Shutdown)
		require.NoError(t, <-done)
		require.Contains(t, logged.String(), addr)
		require.NotContains(t, logged.String(), "s3cret")
	})
	t.Run("ends with its context, saying where and why, and no password", func(t *testing.T) {
		addr := freePort(t)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := streams.Connect(ctx, "nats://user:s3cret@"+addr+", "+addr, "test", nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, addr)
		require.NotContains(t, err.Error(), "s3cret")
	})
	t.Run("refuses a URL that cannot be read without quoting it", func(t *testing.T) {
		for _, bad := range []string{"nats://user:s3 cr%zzet@host:4222", "nats://user:s3cret@", "", "nats://h:s3cret"} {
			_, err := streams.Connect(t.Context(), bad, "test", nil)
			require.Error(t, err, bad)
			require.NotContains(t, err.Error(), "s3", bad)
		}
	})
	t.Run("warns of a connection that is lost, and not of one that is closed on purpose", func(t *testing.T) {
		for name, tt := range map[string]struct {
			end  func(*nats.Conn, *embedded.Server)
			want string
		}{
			"closed": {func(nc *nats.Conn, _ *embedded.Server) { nc.Close() }, `level=DEBUG msg="NATS connection closed"`},
			"lost":   {func(_ *nats.Conn, srv *embedded.Server) { srv.Shutdown() }, `level=WARN msg="NATS connection lost" error=EOF`},
		} {
			t.Run(name, func(t *testing.T) {
				srv, err := embedded.Start(t.Context(), embedded.Options{StoreDir: t.TempDir(), Listen: freePort(t)})
				require.NoError(t, err)
				t.Cleanup(srv.Shutdown)
				var logged lockedBuffer
				logger := slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
				nc, err := streams.Connect(t.Context(), srv.ClientURL(), "test", logger)
				require.NoError(t, err)
				t.Cleanup(nc.Close)
				tt.end(nc, srv)
				require.Eventually(t, func() bool { return logged.String() != "" }, 10*time.Second, time.Millisecond)
				require.Contains(t, logged.String(), tt.want)
				require.Equal(t, name == "lost", strings.Contains(logged.String(), "WARN"))
			})
		}
	})
}
