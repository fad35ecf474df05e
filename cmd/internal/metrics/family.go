package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// family is one metric of all things of a kind, such as all sources.
type family[T any] struct {
	name, help string
	kind       prometheus.ValueType
	// value returns that of one thing; known is false where there is none, and
	// nothing is shown then.
	value func(T) (_ float64, known bool)
}

// labels tell the things of a kind apart.
type labels[T any] struct {
	names  []string
	values func(T) []string
}

// things is a kind of things that are asked for at every scrape.
type things[T any] struct {
	all      func() []T
	labels   labels[T]
	families []family[T]
	descs    []*prometheus.Desc
}

// collector shows the families of all things; all may be nil.
func collector[T any](all func() []T, l labels[T], families ...family[T]) prometheus.Collector {
	if all == nil {
		all = func() []T { return nil }
	}
	t := things[T]{all: all, labels: l, families: families}
	for _, f := range families {
		t.descs = append(t.descs, prometheus.NewDesc(f.name, f.help, l.names, nil))
	}
	return t
}

// Describe implements prometheus.Collector.
func (t things[T]) Describe(out chan<- *prometheus.Desc) {
	for _, d := range t.descs {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (t things[T]) Collect(out chan<- prometheus.Metric) {
	for _, thing := range t.all() {
		values := t.labels.values(thing)
		for i, f := range t.families {
			if v, known := f.value(thing); known {
				out <- prometheus.MustNewConstMetric(t.descs[i], f.kind, v, values...)
			}
		}
	}
}

// number is a value that there always is.
func number[N int | uint64](n N) (float64, bool) { return float64(n), true }

// seen is a value that is negative until it is known.
func seen(n int) (float64, bool) { return float64(n), n >= 0 }

// truth is 1 for true and 0 for false.
func truth(b bool) (float64, bool) {
	if b {
		return 1, true
	}
	return 0, true
}

// instant is a time in seconds since 1970; zero is none.
func instant(t time.Time) (float64, bool) {
	return float64(t.UnixMicro()) / 1e6, !t.IsZero()
}
