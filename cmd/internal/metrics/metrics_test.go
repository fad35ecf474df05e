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
	"tidings/cmd/internal/api"
	"tidings/dispatcher"
	"tidings/streams/event"
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
		Configuration: func() []api.Configuration {
			return []api.Configuration{{
				Revision: "0123abcd", LoadedAt: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC), Reloads: 3, Failed: 1,
				Refused: &api.RefusedConfiguration{},
			}}
		},
		Dispatcher: func() []dispatcher.Status {
			return []dispatcher.Status{{
				InHand: 3, Steps: 70, Waiting: 12, MaxWaiting: 100, Channels: []dispatcher.ChannelStatus{
					{Channel: "hook", Breaker: dispatcher.BreakerClosed, Calls: 2, InHand: 4, Line: 1, Concurrency: 64},
					{Channel: "mail", Breaker: dispatcher.BreakerHalfOpen, Stuck: 1, Aside: 9, Throttled: 7, Concurrency: 16, Providers: []dispatcher.ProviderStatus{
						{Provider: "ses", Breaker: dispatcher.BreakerHalfOpen, Stuck: 1, Throttled: 7}, {Provider: "backup", Breaker: dispatcher.BreakerOpen, Calls: 2},
					}},
					{Channel: "mail", Tenant: "acme", Breaker: dispatcher.BreakerClosed},
				},
			}}
		},
	}
}

// full returns the metrics of the sample, each with a value.
func full() *Metrics {
	m := New(sample())
	m.Held("orders")(20 * time.Millisecond)
	m.Tried("hook", "hook", event.TryDelivered, 20*time.Millisecond)
	m.Tried("mail", "ses", event.TryTransient, 3*time.Second)
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
# HELP tidings_channel_aside Events that were set aside until the channel has room, as of a few seconds ago.
# TYPE tidings_channel_aside gauge
tidings_channel_aside{channel="hook",tenant=""} 0
tidings_channel_aside{channel="mail",tenant=""} 9
tidings_channel_aside{channel="mail",tenant="acme"} 0
# HELP tidings_channel_breaker_open 1 while no provider is called, or once to see whether calls get through again; 0 if calls are made.
# TYPE tidings_channel_breaker_open gauge
tidings_channel_breaker_open{channel="hook",tenant=""} 0
tidings_channel_breaker_open{channel="mail",tenant=""} 1
tidings_channel_breaker_open{channel="mail",tenant="acme"} 0
# HELP tidings_channel_calls Calls under way.
# TYPE tidings_channel_calls gauge
tidings_channel_calls{channel="hook",tenant=""} 2
tidings_channel_calls{channel="mail",tenant=""} 0
tidings_channel_calls{channel="mail",tenant="acme"} 0
# HELP tidings_channel_concurrency Calls that may be under way at a time.
# TYPE tidings_channel_concurrency gauge
tidings_channel_concurrency{channel="hook",tenant=""} 64
tidings_channel_concurrency{channel="mail",tenant=""} 16
tidings_channel_concurrency{channel="mail",tenant="acme"} 0
# HELP tidings_channel_in_hand Events in hand that may call the channel.
# TYPE tidings_channel_in_hand gauge
tidings_channel_in_hand{channel="hook",tenant=""} 4
tidings_channel_in_hand{channel="mail",tenant=""} 0
tidings_channel_in_hand{channel="mail",tenant="acme"} 0
# HELP tidings_channel_line Events in hand that wait a moment for the channel to have room.
# TYPE tidings_channel_line gauge
tidings_channel_line{channel="hook",tenant=""} 1
tidings_channel_line{channel="mail",tenant=""} 0
tidings_channel_line{channel="mail",tenant="acme"} 0
# HELP tidings_channel_stuck Calls under way although their time is over.
# TYPE tidings_channel_stuck gauge
tidings_channel_stuck{channel="hook",tenant=""} 0
tidings_channel_stuck{channel="mail",tenant=""} 1
tidings_channel_stuck{channel="mail",tenant="acme"} 0
# HELP tidings_channel_throttled_total Calls that waited because of the channel's rate.
# TYPE tidings_channel_throttled_total counter
tidings_channel_throttled_total{channel="hook",tenant=""} 0
tidings_channel_throttled_total{channel="mail",tenant=""} 7
tidings_channel_throttled_total{channel="mail",tenant="acme"} 0
# HELP tidings_channel_tries_total Calls that ended, by result: delivered, permanent, transient, rate_limited or unknown.
# TYPE tidings_channel_tries_total counter
tidings_channel_tries_total{channel="hook",provider="hook",result="delivered"} 1
tidings_channel_tries_total{channel="mail",provider="ses",result="transient"} 1
# HELP tidings_config_info Always 1; the label says which revision of the configuration runs.
# TYPE tidings_config_info gauge
tidings_config_info{revision="0123abcd"} 1
# HELP tidings_config_loaded_timestamp_seconds When the configuration that runs was loaded, in seconds since 1970.
# TYPE tidings_config_loaded_timestamp_seconds gauge
tidings_config_loaded_timestamp_seconds 1.7776368e+09
# HELP tidings_config_refused 1 if the last reload was refused, so that something else runs than what is configured; status and log say why.
# TYPE tidings_config_refused gauge
tidings_config_refused 1
# HELP tidings_config_reloads_failed_total Reloads that changed nothing.
# TYPE tidings_config_reloads_failed_total counter
tidings_config_reloads_failed_total 1
# HELP tidings_config_reloads_total Reloads that put another configuration in force.
# TYPE tidings_config_reloads_total counter
tidings_config_reloads_total 3
# HELP tidings_dispatcher_in_hand Events being worked on.
# TYPE tidings_dispatcher_in_hand gauge
tidings_dispatcher_in_hand 3
# HELP tidings_dispatcher_max_waiting Events that may wait before no more are taken.
# TYPE tidings_dispatcher_max_waiting gauge
tidings_dispatcher_max_waiting 100
# HELP tidings_dispatcher_ready 1 if events are taken and worked on, 0 if not; status and log say why.
# TYPE tidings_dispatcher_ready gauge
tidings_dispatcher_ready 1
# HELP tidings_dispatcher_steps_total Deliveries of events and wake-ups that were handled.
# TYPE tidings_dispatcher_steps_total counter
tidings_dispatcher_steps_total 70
# HELP tidings_dispatcher_waiting Events that wait for a time or for a channel, as of a few seconds ago.
# TYPE tidings_dispatcher_waiting gauge
tidings_dispatcher_waiting 12
# HELP tidings_provider_breaker_open 1 while the provider is not called, or once to see whether it gets through again; 0 if it is called.
# TYPE tidings_provider_breaker_open gauge
tidings_provider_breaker_open{channel="mail",provider="backup",tenant=""} 1
tidings_provider_breaker_open{channel="mail",provider="ses",tenant=""} 1
# HELP tidings_provider_calls Calls of the provider that are under way.
# TYPE tidings_provider_calls gauge
tidings_provider_calls{channel="mail",provider="backup",tenant=""} 2
tidings_provider_calls{channel="mail",provider="ses",tenant=""} 0
# HELP tidings_provider_stuck Calls of the provider that are under way although their time is over.
# TYPE tidings_provider_stuck gauge
tidings_provider_stuck{channel="mail",provider="backup",tenant=""} 0
tidings_provider_stuck{channel="mail",provider="ses",tenant=""} 1
# HELP tidings_provider_throttled_total Calls that waited because of the provider's rate.
# TYPE tidings_provider_throttled_total counter
tidings_provider_throttled_total{channel="mail",provider="backup",tenant=""} 0
tidings_provider_throttled_total{channel="mail",provider="ses",tenant=""} 7
`), names(t, full(), func(name string) bool {
		return !strings.HasSuffix(name, "_seconds") || strings.HasSuffix(name, "timestamp_seconds")
	})...))
}

func TestTimesAreObserved(t *testing.T) {
	m := full()
	m.Held("orders")(2 * time.Second)
	body := scrape(t, m)
	require.Contains(t, body, `tidings_bridge_held_seconds_count{source="orders"} 2`)
	require.Contains(t, body, `tidings_bridge_held_seconds_bucket{source="orders",le="0.025"} 1`)
	require.Contains(t, body, `tidings_channel_call_seconds_count{channel="mail",provider="ses"} 1`)
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
			var names []string
			for _, l := range f.GetMetric()[0].GetLabel() {
				names = append(names, "`"+l.GetName()+"`")
			}
			label := strings.Join(names, ", ")
			shown[f.GetName()] = " " + strings.ToLower(f.GetType().String()) + " | " + label + " | " + f.GetHelp() + " "
		}
	}
	require.Equal(t, shown, documented)
}

func TestACollectorWithoutAPartShowsNothing(t *testing.T) {
	require.Zero(t, testutil.CollectAndCount(collector(nil, sourceLabels(), sourceFamilies()...)))
	var _ prometheus.Collector = collector(nil, sourceLabels())
}
