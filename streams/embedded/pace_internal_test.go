package embedded

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

func TestAFollowerWhoAsksTooOftenIsCutOff(t *testing.T) {
	s, err := Start(t.Context(), Options{StoreDir: t.TempDir(), Followers: &Followers{Listen: "127.0.0.1:0", User: "follower", Password: "secret"}})
	require.NoError(t, err)
	t.Cleanup(s.Shutdown)
	require.NoError(t, s.OpenFollowers(t.Context()))
	cut := make(chan struct{})
	loop, err := nats.Connect(s.ClientURL(), nats.UserInfo("follower", "secret"), nats.NoReconnect(), nats.ClosedHandler(func(*nats.Conn) { close(cut) }))
	require.NoError(t, err)
	t.Cleanup(loop.Close)

	asked := s.cutOff(nil)
	require.Len(t, asked, 2, "the follower, and this process among followers")
	s.cutOff(asked)
	require.NoError(t, loop.Flush(), "who asks as one may stays")
	for id := range asked {
		asked[id] -= maxAsked + 1 // as if it had asked so often since
	}
	s.cutOff(asked)
	<-cut
	require.True(t, s.conns[1].IsConnected(), "this process is not cut off")
}
