package metrics

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"tidings/bridge"
)

// sample has something of everything: a part that is added here shows in the
// tests below.
func sample() Options {
	return Options{
		Version: "v1.2.3",
		Sources: func() []bridge.Status {
			last := time.Date(2026, 5, 1, 12, 0, 0, 500_000_000, time.UTC)
			return []bridge.Status{
				{
					Name: "orders", Connected: true, Window: 256, InHand: 2, Waiting: 7, Consumers: 1,
					Acked: 40, Duplicates: 3, Quarantined: 1, Reconnects: 5, LastDelivery: last, LastAck: last.Add(time.Second),
				},
				{Name: "far", Window: 256, Waiting: -1, Consumers: -1, Reason: "connection refused"},
			}
		},
	}
}

// full returns the metrics of the sample, each with a value.
func full() *Metrics {
	m := New(sample())
	m.Held("orders")(20 * time.Millisecond)
	return m
}

func TestSampleHasEveryPart(t *testing.T) {
	o := reflect.ValueOf(sample())
	for i := range o.NumField() {
		if o.Field(i).Kind() == reflect.Func {
			require.False(t, o.Field(i).IsNil(), "%s has no sample", o.Type().Field(i).Name)
		}
	}
}

func TestScrape(t *testing.T) {
	require.NoError(t, testutil.GatherAndCompare(full().registry, strings.NewReader(`
# HELP tidings_bridge_acked_total Deliveries acknowledged: new events, duplicates and dead letters.
# TYPE tidings_bridge_acked_total counter
tidings_bridge_acked_total{source="far"} 0
tidings_bridge_acked_total{source="orders"} 40
# HELP tidings_bridge_connected 1 if connected to the broker.
# TYPE tidings_bridge_connected gauge
tidings_bridge_connected{source="far"} 0
tidings_bridge_connected{source="orders"} 1
# HELP tidings_bridge_consumers Consumers of the queue, when last looked at; not shown before.
# TYPE tidings_bridge_consumers gauge
tidings_bridge_consumers{source="orders"} 1
# HELP tidings_bridge_duplicates_total Deliveries of events that were there before.
# TYPE tidings_bridge_duplicates_total counter
tidings_bridge_duplicates_total{source="far"} 0
tidings_bridge_duplicates_total{source="orders"} 3
# HELP tidings_bridge_in_hand Deliveries taken and not yet acknowledged.
# TYPE tidings_bridge_in_hand gauge
tidings_bridge_in_hand{source="far"} 0
tidings_bridge_in_hand{source="orders"} 2
# HELP tidings_bridge_last_ack_timestamp_seconds When the last delivery was acknowledged, in seconds since 1970; not shown before the first.
# TYPE tidings_bridge_last_ack_timestamp_seconds gauge
tidings_bridge_last_ack_timestamp_seconds{source="orders"} 1.7776368015e+09
# HELP tidings_bridge_last_delivery_timestamp_seconds When the last delivery came, in seconds since 1970; not shown before the first.
# TYPE tidings_bridge_last_delivery_timestamp_seconds gauge
tidings_bridge_last_delivery_timestamp_seconds{source="orders"} 1.7776368005e+09
# HELP tidings_bridge_quarantined_total Deliveries that became dead letters.
# TYPE tidings_bridge_quarantined_total counter
tidings_bridge_quarantined_total{source="far"} 0
tidings_bridge_quarantined_total{source="orders"} 1
# HELP tidings_bridge_ready 1 if work moves or there is none, 0 if not; status and log say why.
# TYPE tidings_bridge_ready gauge
tidings_bridge_ready{source="far"} 0
tidings_bridge_ready{source="orders"} 1
# HELP tidings_bridge_reconnects_total Connections after the first.
# TYPE tidings_bridge_reconnects_total counter
tidings_bridge_reconnects_total{source="far"} 0
tidings_bridge_reconnects_total{source="orders"} 5
# HELP tidings_bridge_waiting Messages ready in the queue, when last looked at; not shown before.
# TYPE tidings_bridge_waiting gauge
tidings_bridge_waiting{source="orders"} 7
# HELP tidings_bridge_window Deliveries that may be in hand at a time.
# TYPE tidings_bridge_window gauge
tidings_bridge_window{source="far"} 256
tidings_bridge_window{source="orders"} 256
# HELP tidings_build_info Always 1; the label says which version runs.
# TYPE tidings_build_info gauge
tidings_build_info{version="v1.2.3"} 1
`), names(t, full(), func(name string) bool { return name != "tidings_bridge_held_seconds" })...))
}

func TestTimesAreObserved(t *testing.T) {
	m := full()
	m.Held("orders")(2 * time.Second)
	body := scrape(t, m)
	require.Contains(t, body, `tidings_bridge_held_seconds_count{source="orders"} 2`)
	require.Contains(t, body, `tidings_bridge_held_seconds_bucket{source="orders",le="0.025"} 1`)
}

func TestTheGoRuntimeAndTheProcessAreShownToo(t *testing.T) {
	body := scrape(t, New(Options{}))
	require.Contains(t, body, "go_goroutines ")
	require.Contains(t, body, "process_resident_memory_bytes ")
	require.NotContains(t, body, "tidings_bridge")
}

func scrape(t *testing.T, m *Metrics) string {
	t.Helper()
	server := httptest.NewServer(m.Handler())
	defer server.Close()
	res, err := http.Get(server.URL)
	require.NoError(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, res.StatusCode)
	return string(body)
}

// names returns those of the families of Tidings that keep wants.
func names(t *testing.T, m *Metrics, keep func(string) bool) []string {
	t.Helper()
	families, err := m.registry.Gather()
	require.NoError(t, err)
	var names []string
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "tidings_") && keep(f.GetName()) {
			names = append(names, f.GetName())
		}
	}
	return names
}

func TestNamesAreAsPrometheusWantsThem(t *testing.T) {
	problems, err := testutil.GatherAndLint(full().registry)
	require.NoError(t, err)
	require.Empty(t, problems)
}

// The table of the documentation is what a scrape says of itself.
func TestPageHasEveryMetricAndNoOther(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "operating.md"))
	require.NoError(t, err)
	documented := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(tidings_[a-z_]+)` \\|(.*)\\|$").FindAllStringSubmatch(string(data), -1) {
		documented[m[1]] = m[2]
	}
	families, err := full().registry.Gather()
	require.NoError(t, err)
	shown := map[string]string{}
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "tidings_") {
			label := ""
			for _, l := range f.GetMetric()[0].GetLabel() {
				label += "`" + l.GetName() + "`"
			}
			shown[f.GetName()] = " " + strings.ToLower(f.GetType().String()) + " | " + label + " | " + f.GetHelp() + " "
		}
	}
	require.Equal(t, shown, documented)
}

func TestACollectorWithoutAPartShowsNothing(t *testing.T) {
	require.Zero(t, testutil.CollectAndCount(collector(nil, sourceLabels(), sourceFamilies()...)))
	var _ prometheus.Collector = collector(nil, sourceLabels())
}
