package streams_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"tidings/streams"
)

func TestLimitsAreWrittenAsTheyAreDocumented(t *testing.T) {
	for n, want := range map[int]string{
		0: "0 bytes", 1000: "1000 bytes", 64 << 10: "64 KiB", 8 << 20: "8 MiB", 12<<20 + 1: "12582913 bytes", 3 << 30: "3072 MiB",
	} {
		require.Equal(t, want, streams.Bytes(n))
	}
}
