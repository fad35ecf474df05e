package event_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"tidings/streams/event"
)

func TestATestIsNeverTheSameAsAnEvent(t *testing.T) {
	for _, identity := range []event.Identity{{}, {IgnoreSource: true}} {
		key := event.TestKey("shop", "1")
		require.Equal(t, key, identity.KeyOf("shop", event.TestSource, "1"))
		require.NotEqual(t, key, identity.KeyOf("shop", "checkout", "1"))
		require.NotEqual(t, key, identity.KeyOf("shop", "", "1"))
	}
}
