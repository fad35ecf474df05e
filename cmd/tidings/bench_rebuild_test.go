package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"tidings/cmd/internal/bench"
)

func TestPrintRebuild(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, (&cli{out: &out}).printRebuild(bench.RebuildResult{
		Records: 200_000, Rate: 40000.4, Floor: 80000, Ratio: 0.5, PeakRSS: 128,
	}))
	require.Equal(t, `RECORDS  RECORDS/S  FLOOR/S  RATIO  PEAK MIB
200000   40000      80000    0.50   128.0
`, out.String())
}
