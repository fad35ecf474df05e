package embedded

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/streams"
)

// Nothing here cuts the power, so what can be checked is what the server is told.
func TestDurabilityIsWhatTheServerIsTold(t *testing.T) {
	strict, _, err := Options{StoreDir: "x"}.server()
	require.NoError(t, err)
	require.True(t, strict.SyncAlways, "strict is the default")

	relaxed, _, err := Options{StoreDir: "x", Durability: streams.Relaxed}.server()
	require.NoError(t, err)
	require.False(t, relaxed.SyncAlways)
	require.Equal(t, time.Second, relaxed.SyncInterval)

	require.True(t, strict.NoSigs)
	require.True(t, strict.DontListen)
	require.EqualValues(t, defaultMaxStore, strict.JetStreamMaxStore)
}
