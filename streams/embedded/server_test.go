package embedded_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"tidings/streams"
	"tidings/streams/embedded"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, o embedded.Options) *embedded.Server {
	t.Helper()
	s, err := embedded.Start(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(s.Shutdown)
	return s
}

func connect(t *testing.T, s *embedded.Server) *nats.Conn {
	t.Helper()
	nc, err := s.Connect("test")
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	return nc
}

func TestServer(t *testing.T) {
	t.Run("carries the log, and what was stored is there after a restart", func(t *testing.T) {
		for _, d := range []streams.Durability{streams.Strict, streams.Relaxed} {
			dir := t.TempDir()
			for range 2 {
				s := start(t, embedded.Options{StoreDir: dir, Durability: d})
				nc := connect(t, s)
				l, err := streams.Open(t.Context(), nc, streams.Options{Durability: d})
				require.NoError(t, err)
				require.NoError(t, l.Retries.Wake(t.Context(), streams.Wakeup{Tenant: "t", Key: "AAAAAAAAAAAAAAAAAAAAAA"}))
				info, err := l.Retries.Info(t.Context())
				require.NoError(t, err)
				require.EqualValues(t, 1, info.Messages)
				nc.Close()
				s.Shutdown()
				s.Shutdown()
			}
		}
	})
	t.Run("is not reachable from outside the process unless told to listen", func(t *testing.T) {
		require.Empty(t, start(t, embedded.Options{StoreDir: t.TempDir()}).ClientURL())
		s := start(t, embedded.Options{StoreDir: t.TempDir(), Listen: "127.0.0.1:0"})
		require.True(t, strings.HasPrefix(s.ClientURL(), "nats://127.0.0.1:"), s.ClientURL())
		nc, err := streams.Connect(t.Context(), s.ClientURL(), "test", nil)
		require.NoError(t, err)
		nc.Close()
	})
	t.Run("takes messages of 12 MiB", func(t *testing.T) {
		require.EqualValues(t, embedded.MaxPayload, connect(t, start(t, embedded.Options{StoreDir: t.TempDir()})).MaxPayload())
	})
	t.Run("limits what JetStream may use", func(t *testing.T) {
		nc := connect(t, start(t, embedded.Options{StoreDir: t.TempDir(), MaxStore: 1 << 20}))
		_, err := streams.Open(t.Context(), nc, streams.Options{})
		require.ErrorContains(t, err, "insufficient storage")
	})
}

func TestStartRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for name, c := range map[string]struct {
		o    embedded.Options
		want string
	}{
		"no directory":                         {embedded.Options{}, "no directory"},
		"a directory that is a file":           {embedded.Options{StoreDir: file}, file},
		"an address that others reach":         {embedded.Options{StoreDir: t.TempDir(), Listen: "0.0.0.0:4222"}, "only loopback"},
		"a name that is not surely loopback":   {embedded.Options{StoreDir: t.TempDir(), Listen: "example.com:4222"}, "only loopback"},
		"an address without host":              {embedded.Options{StoreDir: t.TempDir(), Listen: ":4222"}, "only loopback"},
		"an address without port":              {embedded.Options{StoreDir: t.TempDir(), Listen: "127.0.0.1"}, "missing port"},
		"a port that is taken":                 {embedded.Options{StoreDir: t.TempDir(), Listen: taken(t)}, "address already in use"},
		"a directory in which it cannot write": {embedded.Options{StoreDir: filepath.Join(file, "below")}, "below"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := embedded.Start(t.Context(), c.o)
			require.ErrorContains(t, err, c.want)
			require.Nil(t, s)
		})
	}
	t.Run("nothing but stops when its context is done", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := embedded.Start(ctx, embedded.Options{StoreDir: t.TempDir()})
		require.ErrorIs(t, err, context.Canceled)
	})
}

func taken(t *testing.T) string {
	t.Helper()
	return strings.TrimPrefix(start(t, embedded.Options{StoreDir: t.TempDir(), Listen: "127.0.0.1:0"}).ClientURL(), "nats://")
}

func TestLogGoesToSlog(t *testing.T) {
	var b strings.Builder
	s := start(t, embedded.Options{StoreDir: t.TempDir(), Logger: slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	s.Shutdown()
	require.Empty(t, b.String(), "a normal life is not worth a warning")
}
