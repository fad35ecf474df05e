package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"tidings/cmd/internal/api"
)

func revisionLabels() labels[api.Configuration] {
	return labels[api.Configuration]{names: []string{"revision"}, values: func(c api.Configuration) []string { return []string{c.Revision} }}
}

func revisionFamilies() []family[api.Configuration] {
	return []family[api.Configuration]{{
		"tidings_config_info", "Always 1; the label says which revision of the configuration runs.", prometheus.GaugeValue,
		func(api.Configuration) (float64, bool) { return truth(true) },
	}}
}

func configurationLabels() labels[api.Configuration] {
	return labels[api.Configuration]{values: func(api.Configuration) []string { return nil }}
}

func configurationFamilies() []family[api.Configuration] {
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	type conf = api.Configuration
	return []family[conf]{
		{
			"tidings_config_loaded_timestamp_seconds", "When the configuration that runs was loaded, in seconds since 1970.", gauge,
			func(c conf) (float64, bool) { return instant(c.LoadedAt) },
		},
		{
			"tidings_config_refused", "1 if the last reload was refused, so that something else runs than what is configured; status and log say why.", gauge,
			func(c conf) (float64, bool) { return truth(c.Refused != nil) },
		},
		{
			"tidings_config_reloads_total", "Reloads that put another configuration in force.", counter,
			func(c conf) (float64, bool) { return number(c.Reloads) },
		},
		{
			"tidings_config_reloads_failed_total", "Reloads that changed nothing.", counter,
			func(c conf) (float64, bool) { return number(c.Failed) },
		},
	}
}
