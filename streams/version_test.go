package streams

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAtLeastComparesVersions(t *testing.T) {
	for version, want := range map[string]bool{
		"2.15.0": true, "2.15.2": true, "2.16.0": true, "3.0.0": true, "v2.15.0": true, "2.15.0-RC.1": true,
		"2.14.9": false, "2.9.20": false, "1.99.99": false, "": false, "junk": false,
	} {
		require.Equal(t, want, atLeast(version, "2.15.0"), version)
	}
}

func TestSeenForgetsTheOlderHalf(t *testing.T) {
	s := newSeen(2)
	mark := func(key string) bool { return s.mark(&entry{key: key}) }
	require.False(t, mark("a"))
	require.True(t, mark("a"))
	require.False(t, mark("b"))
	require.False(t, mark("c"))
	require.True(t, mark("a"), "one generation back")
	require.False(t, mark("d"))
	require.False(t, mark("b"), "two generations back")
}
