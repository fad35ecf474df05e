package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tidings/bridge"
)

func sourceLabels() labels[bridge.Status] {
	return labels[bridge.Status]{
		names:  []string{"source"},
		values: func(s bridge.Status) []string { return []string{s.Name} },
	}
}

func sourceFamilies() []family[bridge.Status] {
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	type status = bridge.Status
	return []family[status]{
		{
			"tidings_bridge_ready", "1 if work moves or there is none, 0 if not; status and log say why.", gauge,
			func(s status) (float64, bool) { return truth(s.Ready()) },
		},
		{
			"tidings_bridge_connected", "1 if connected to the broker.", gauge,
			func(s status) (float64, bool) { return truth(s.Connected) },
		},
		{
			"tidings_bridge_in_hand", "Deliveries taken and not yet acknowledged.", gauge,
			func(s status) (float64, bool) { return number(s.InHand) },
		},
		{
			"tidings_bridge_window", "Deliveries that may be in hand at a time.", gauge,
			func(s status) (float64, bool) { return number(s.Window) },
		},
		{
			"tidings_bridge_waiting", "Messages ready in the queue, when last looked at; not shown before.", gauge,
			func(s status) (float64, bool) { return seen(s.Waiting) },
		},
		{
			"tidings_bridge_consumers", "Consumers of the queue, when last looked at; not shown before.", gauge,
			func(s status) (float64, bool) { return seen(s.Consumers) },
		},
		{
			"tidings_bridge_acked_total", "Deliveries acknowledged: new events, duplicates and dead letters.", counter,
			func(s status) (float64, bool) { return number(s.Acked) },
		},
		{
			"tidings_bridge_duplicates_total", "Deliveries of events that were there before.", counter,
			func(s status) (float64, bool) { return number(s.Duplicates) },
		},
		{
			"tidings_bridge_quarantined_total", "Deliveries that became dead letters.", counter,
			func(s status) (float64, bool) { return number(s.Quarantined) },
		},
		{
			"tidings_bridge_reconnects_total", "Connections after the first.", counter,
			func(s status) (float64, bool) { return number(s.Reconnects) },
		},
		{
			"tidings_bridge_last_delivery_timestamp_seconds", "When the last delivery came, in seconds since 1970; not shown before the first.", gauge,
			func(s status) (float64, bool) { return instant(s.LastDelivery) },
		},
		{
			"tidings_bridge_last_ack_timestamp_seconds", "When the last delivery was acknowledged, in seconds since 1970; not shown before the first.", gauge,
			func(s status) (float64, bool) { return instant(s.LastAck) },
		},
	}
}

func newHeld() *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "tidings_bridge_held_seconds", Help: "How long deliveries were in hand that were acknowledged.",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
	}, []string{"source"})
}

// Held returns what the bridge of a source tells how long each delivery was in
// hand. It may be called by several goroutines.
func (m *Metrics) Held(source string) func(time.Duration) {
	observer := m.held.WithLabelValues(source)
	return func(d time.Duration) { observer.Observe(d.Seconds()) }
}
