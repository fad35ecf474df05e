package streams_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"tidings/streams"
	"tidings/streams/streamstest"
)

// plainServer is a nats-server that is not one of ours.
func plainServer(t *testing.T, o server.Options) *server.Server {
	t.Helper()
	o.DontListen = o.Port == 0
	o.NoSigs, o.NoLog, o.StoreDir = true, true, t.TempDir()
	s, err := server.NewServer(&o)
	require.NoError(t, err)
	s.Start()
	require.True(t, s.ReadyForConnections(10*time.Second))
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	return s
}

// oldServer has no JetStream of its own; what stands in for it says that it is
// of an API level that Tidings cannot work with.
func oldServer(t *testing.T) *server.Server {
	t.Helper()
	s := plainServer(t, server.Options{})
	nc := inProcess(t, s)
	_, err := nc.Subscribe("$JS.API.INFO", func(m *nats.Msg) { _ = m.Respond([]byte(`{"api":{"level":3}}`)) })
	require.NoError(t, err)
	require.NoError(t, nc.Flush())
	return s
}

func inProcess(t *testing.T, p nats.InProcessConnProvider) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect("", append(streams.ConnectOptions("test", slog.New(slog.DiscardHandler)), nats.InProcessServer(p),
		nats.CustomReconnectDelay(func(int) time.Duration { return 10 * time.Millisecond }))...)
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	return nc
}

func TestOpenRefusesAServer(t *testing.T) {
	t.Run("that is too old, and says what is needed", func(t *testing.T) {
		_, err := streams.Open(t.Context(), inProcess(t, oldServer(t)), streams.Options{})
		var tooOld *streams.VersionError
		require.ErrorAs(t, err, &tooOld)
		require.Equal(t, 3, tooOld.APILevel)
		require.ErrorContains(t, err, "upgrade it to 2.15.0")
	})
	t.Run("that takes only small messages", func(t *testing.T) {
		s := plainServer(t, server.Options{JetStream: true, MaxPayload: 64 << 10})
		_, err := streams.Open(t.Context(), inProcess(t, s), streams.Options{})
		require.ErrorContains(t, err, "max_payload")
	})
	t.Run("without JetStream", func(t *testing.T) {
		_, err := streams.Open(t.Context(), inProcess(t, plainServer(t, server.Options{})), streams.Options{})
		require.ErrorContains(t, err, "JetStream")
	})
}

func TestEventsAreSmallerWhereTheServerTakesLess(t *testing.T) {
	s := plainServer(t, server.Options{JetStream: true, MaxPayload: 1 << 20})
	small := streams.Options{EventsMaxBytes: 1 << 20, OutcomesMaxBytes: 1 << 20, DeadLettersMaxBytes: 1 << 20}
	l, err := streams.Open(t.Context(), inProcess(t, s), small)
	require.NoError(t, err)
	require.Equal(t, 384<<10, l.Events.MaxData())
}

func TestLettersAtTheEdgeOfAMessage(t *testing.T) {
	const most = 1 << 20
	s := plainServer(t, server.Options{JetStream: true, MaxPayload: most})
	room := streams.Options{EventsMaxBytes: 1 << 20, OutcomesMaxBytes: 1 << 20, DeadLettersMaxBytes: 64 << 20, OversizeMaxBytes: 64 << 20}
	l, err := streams.Open(t.Context(), inProcess(t, s), room)
	require.NoError(t, err)
	objects := 0
	for size := most/4*3 - 4<<10; size < most/4*3; size += 100 {
		want := letter(fmt.Sprint(size), 0)
		want.Data = noise(size)
		_, _, err := l.DeadLetters.Put(t.Context(), want)
		require.NoError(t, err, size)
		got, _, err := l.DeadLetters.Get(t.Context(), want.Tenant, want.Key)
		require.NoError(t, err, size)
		if got.PayloadObject != nil {
			objects++
			got.PayloadObject = nil
		}
		require.Equal(t, want, got, size)
	}
	require.Positive(t, objects)
	require.Less(t, objects, 41, "some fit")
}

// swap is a place where one server can be put in another's stead.
type swap struct {
	now atomic.Pointer[nats.InProcessConnProvider]
}

func (s *swap) InProcessConn() (net.Conn, error) { return (*s.now.Load()).InProcessConn() }

func (s *swap) put(p nats.InProcessConnProvider) { s.now.Store(&p) }

func TestRunEndsWhenAReconnectEndsAtAServerThatIsTooOld(t *testing.T) {
	s, old := streamstest.NewServer(t), oldServer(t)
	var place swap
	place.put(s)
	l, err := streams.Open(t.Context(), inProcess(t, &place), s.Options())
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- l.Run(context.WithoutCancel(t.Context())) }()
	require.Eventually(t, func() bool {
		_, err := l.Events.Publish(t.Context(), streams.Incoming{Envelope: order("1")})
		return err == nil
	}, 10*time.Second, 10*time.Millisecond)
	place.put(old)
	s.Stop()
	var tooOld *streams.VersionError
	require.ErrorAs(t, receive(t, done), &tooOld)
}

func TestConnectRefusesWrongCredentialsAtOnce(t *testing.T) {
	s := plainServer(t, server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, Username: "u", Password: "right"})
	_, err := streams.Connect(t.Context(), "nats://u:wr0ng@"+s.Addr().String(), "test", nil)
	require.ErrorIs(t, err, nats.ErrAuthorization)
	require.NotContains(t, err.Error(), "wr0ng")
	require.ErrorContains(t, err, "check user, password")
}
