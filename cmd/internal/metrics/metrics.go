// Package metrics shows to Prometheus how the parts of Tidings are doing.
//
// What to believe: what a part counts itself is not counted a second time. Every
// scrape asks each part once for its status, and shows what it says, so that the
// numbers are those of the API, and those of one part belong together. Only what
// no status can hold, how long things take, is observed here.
//
// A further part is one more field of [Options] and one more line in [New], with
// its families in a file of its own. The table in docs/operating.md lists every
// family; a test compares.
package metrics

import (
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"tidings/bridge"
	"tidings/cmd/internal/api"
	"tidings/dispatcher"
)

// Options are where the numbers come from. A function that is nil has none; the
// others are asked at every scrape, by several goroutines, and answer at once.
type Options struct {
	Version string
	// Sources says how the bridges are doing. Their names differ.
	Sources func() []bridge.Status
	// Dispatcher says how the dispatcher and its channels are doing: none before
	// there is one.
	Dispatcher func() []dispatcher.Status
	// Configuration says which configuration is in force.
	Configuration func() []api.Configuration
	Logger        *slog.Logger // nil discards
}

// Metrics are all metrics of a process.
type Metrics struct {
	registry *prometheus.Registry
	held     *prometheus.HistogramVec
	called   *prometheus.HistogramVec
	tries    *prometheus.CounterVec
	logger   *slog.Logger
}

// New returns the metrics. It starts nothing.
func New(o Options) *Metrics {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	m := &Metrics{registry: prometheus.NewRegistry(), held: newHeld(), called: newCalled(), tries: newTries(), logger: o.Logger}
	m.registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		buildInfo(o.Version),
		m.held, m.called, m.tries,
		collector(o.Sources, sourceLabels(), sourceFamilies()...),
		collector(o.Dispatcher, dispatcherLabels(), dispatcherFamilies()...),
		collector(channels(o.Dispatcher), channelLabels(), channelFamilies()...),
		collector(providers(o.Dispatcher), providerLabels(), providerFamilies()...),
		collector(o.Configuration, revisionLabels(), revisionFamilies()...),
		collector(o.Configuration, configurationLabels(), configurationFamilies()...),
	)
	return m
}

// Handler returns what answers a scrape.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(m.logger.Handler(), slog.LevelWarn), EnableOpenMetrics: true,
	})
}

// buildInfo says which build it is, in the way that others do.
func buildInfo(version string) prometheus.Collector {
	g := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "tidings_build_info", Help: "Always 1; the label says which version runs.",
		ConstLabels: prometheus.Labels{"version": version},
	})
	g.Set(1)
	return g
}
