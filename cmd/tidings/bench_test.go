package main

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"tidings/bridge/bridgetest"
	"tidings/cmd/internal/bench"
)

func TestBenchBridgePrintsJSON(t *testing.T) {
	vhost := bridgetest.New(t).Vhost(t)
	run := func(t *testing.T, args ...string) []byte {
		t.Helper()
		var out bytes.Buffer
		root := newRoot(&cli{out: &out, err: io.Discard})
		root.SetArgs(append([]string{"bench", "bridge", "--json", "--count", "20", "--rounds", "1", "--amqp-url", vhost.URL}, args...))
		require.NoError(t, root.ExecuteContext(t.Context()))
		return out.Bytes()
	}
	members := []string{"mode", "product_per_s", "bare_per_s", "ratio", "p50_ms", "p99_ms", "peak_rss_mib"}
	t.Run("of one mode as an object", func(t *testing.T) {
		var got map[string]any
		require.NoError(t, json.Unmarshal(run(t, "--durability", "strict"), &got))
		require.Equal(t, "strict", got["mode"])
		require.ElementsMatch(t, members, slices.Collect(maps.Keys(got)))
	})
	t.Run("with more where more is asked for", func(t *testing.T) {
		var got map[string]any
		require.NoError(t, json.Unmarshal(run(t, "--durability", "relaxed", "--duplicates", "10%", "--conflicts", "10", "--memory"), &got))
		require.ElementsMatch(t, append(slices.Clone(members), "mixed_per_s", "mixed_ratio", "peak_rss_mib_at"), slices.Collect(maps.Keys(got)))
	})
	t.Run("of both as a list", func(t *testing.T) {
		var got []map[string]any
		require.NoError(t, json.Unmarshal(run(t), &got))
		require.Len(t, got, 2)
		for _, g := range got {
			require.ElementsMatch(t, members, slices.Collect(maps.Keys(g)))
		}
	})
}

func TestBenchBridgeRefuses(t *testing.T) {
	for name, args := range map[string][]string{
		"another durability":   {"--durability", "none"},
		"no messages":          {"--count", "0"},
		"a body without room":  {"--size", "3"},
		"a window of nothing":  {"--window", "0"},
		"no rounds":            {"--rounds", "-1"},
		"what is not a number": {"--count", "many"},
		"parts of nothing":     {"--duplicates", "few"},
		"too many duplicates":  {"--duplicates", "30%"},
		"a window too short":   {"--duplicate-window", "1ms"},
		"less than none":       {"--conflicts", "-1%"},
	} {
		t.Run(name, func(t *testing.T) {
			root := newRoot(&cli{out: io.Discard, err: io.Discard})
			root.SetArgs(append([]string{"bench", "bridge"}, args...))
			err := root.ExecuteContext(t.Context())
			require.Error(t, err)
			require.Equal(t, exitUsage, exitCode(err))
		})
	}
}

func TestPrintBench(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, (&cli{out: &out}).printBench([]bench.Result{{
		Mode: "relaxed", Product: 9000.4, Bare: 10000, Ratio: 0.9, P50: 1.25, P99: 12, PeakRSS: 64,
	}}))
	require.Equal(t, `MODE     PRODUCT/S  BARE/S  RATIO  P50 MS  P99 MS  PEAK MIB
relaxed  9000       10000   0.90   1.2     12.0    64.0
`, out.String())
}

func TestPrintBenchWithMore(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, (&cli{out: &out}).printBench([]bench.Result{{
		Mode: "strict", Product: 9000, Bare: 3000, Ratio: 3, P50: 1, P99: 12, PeakRSS: 64,
		Mixed: 8100, MixedRatio: 0.9, Memory: &bench.Memory{At10: 60, At50: 62.5, At100: 64},
	}}))
	require.Equal(t, `MODE    PRODUCT/S  BARE/S  RATIO  P50 MS  P99 MS  PEAK MIB  WITH REPEATS/S  OF PRODUCT  PEAK AT 10%  50%   100%
strict  9000       3000    3.00   1.0     12.0    64.0      8100            0.90        60.0         62.5  64.0
`, out.String())
}
