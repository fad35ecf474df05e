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

func TestPrintRebuildWithMore(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, (&cli{out: &out}).printRebuild(bench.RebuildResult{
		Records: 200_000, Rate: 40000, Floor: 80000, Ratio: 0.5, PeakRSS: 128,
		Queries: []bench.QueryResult{{Query: "events by tenant", P50: 0.5, P99: 1.25}, {Query: "counts", P50: 0.001, P99: 0.002}},
		Heap:    &bench.HeapPerID{IDs: 90_000, Restarted: 200, Writing: 250.5},
	}))
	require.Equal(t, `RECORDS  RECORDS/S  FLOOR/S  RATIO  PEAK MIB
200000   40000      80000    0.50   128.0

QUERY             P50 MS  P99 MS
events by tenant  0.500   1.250
counts            0.001   0.002

EVENTS  HEAP BYTES EACH, RESTARTED  WRITING
90000   200.0                       250.5
`, out.String())
}
