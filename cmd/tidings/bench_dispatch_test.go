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

func TestBenchDispatchPrintsJSON(t *testing.T) {
	vhost := bridgetest.New(t).Vhost(t)
	run := func(t *testing.T, args ...string) []byte {
		t.Helper()
		var out bytes.Buffer
		root := newRoot(&cli{out: &out, err: io.Discard})
		root.SetArgs(append([]string{
			"bench", "dispatch", "--json", "--count", "50", "--rounds", "1", "--steady", "40ms", "--amqp-url", vhost.URL,
		}, args...))
		require.NoError(t, root.ExecuteContext(t.Context()))
		return out.Bytes()
	}
	members := []string{"mode", "from", "events_per_s", "p50_ms", "p99_ms", "at_500_p99_ms", "peak_rss_mib"}
	t.Run("of one kind as an object", func(t *testing.T) {
		var got map[string]any
		require.NoError(t, json.Unmarshal(run(t, "--durability", "relaxed", "--from", "amqp"), &got))
		require.Equal(t, "relaxed", got["mode"])
		require.Equal(t, "amqp", got["from"])
		require.Positive(t, got["at_500_p99_ms"])
		require.ElementsMatch(t, members, slices.Collect(maps.Keys(got)))
	})
	t.Run("of several as a list", func(t *testing.T) {
		var got []map[string]any
		require.NoError(t, json.Unmarshal(run(t, "--from", "jetstream"), &got))
		require.Len(t, got, 3)
		for _, g := range got {
			require.ElementsMatch(t, members, slices.Collect(maps.Keys(g)))
		}
		require.Equal(t, "strict-ungrouped", got[2]["mode"])
		require.Nil(t, got[2]["at_500_p99_ms"])
	})
}

func TestBenchDispatchRefuses(t *testing.T) {
	for name, args := range map[string][]string{
		"another durability":     {"--durability", "none"},
		"another source":         {"--from", "kafka"},
		"no events":              {"--count", "0"},
		"no rounds":              {"--rounds", "0"},
		"no steady load":         {"--steady", "1ms"},
		"what is not a duration": {"--steady", "long"},
	} {
		t.Run(name, func(t *testing.T) {
			root := newRoot(&cli{out: io.Discard, err: io.Discard})
			root.SetArgs(append([]string{"bench", "dispatch"}, args...))
			err := root.ExecuteContext(t.Context())
			require.Error(t, err)
			require.Equal(t, exitUsage, exitCode(err))
		})
	}
}

func TestPrintDispatch(t *testing.T) {
	var out bytes.Buffer
	p99 := 12.34
	require.NoError(t, (&cli{out: &out}).printDispatch([]bench.DispatchResult{
		{Mode: "strict", From: bench.FromAMQP, Rate: 4000.4, P50: 1.25, P99: 12, SteadyP99: &p99, PeakRSS: 64},
		{Mode: "strict-ungrouped", From: bench.FromAMQP, Rate: 900, P50: 1, P99: 2, PeakRSS: 64},
	}))
	require.Equal(t, `MODE              FROM  EVENTS/S  P50 MS  P99 MS  P99 MS AT 500/S  PEAK MIB
strict            amqp  4000      1.2     12.0    12.3             64.0
strict-ungrouped  amqp  900       1.0     2.0     -                64.0
`, out.String())
}
