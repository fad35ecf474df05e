package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tidings/dispatcher"
	"tidings/streams/event"
)

func dispatcherLabels() labels[dispatcher.Status] {
	return labels[dispatcher.Status]{values: func(dispatcher.Status) []string { return nil }}
}

func dispatcherFamilies() []family[dispatcher.Status] {
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	type status = dispatcher.Status
	return []family[status]{
		{
			"tidings_dispatcher_ready", "1 if events are taken and worked on, 0 if not; status and log say why.", gauge,
			func(s status) (float64, bool) { return truth(s.Trouble == "" && !s.Full()) },
		},
		{
			"tidings_dispatcher_in_hand", "Events being worked on.", gauge,
			func(s status) (float64, bool) { return number(s.InHand) },
		},
		{
			"tidings_dispatcher_steps_total", "Deliveries of events and wake-ups that were handled.", counter,
			func(s status) (float64, bool) { return number(s.Steps) },
		},
		{
			"tidings_dispatcher_waiting", "Events that wait for a time or for a channel, as of a few seconds ago.", gauge,
			func(s status) (float64, bool) { return number(s.Waiting) },
		},
		{
			"tidings_dispatcher_max_waiting", "Events that may wait before no more are taken.", gauge,
			func(s status) (float64, bool) { return number(s.MaxWaiting) },
		},
	}
}

// channels returns those of the dispatcher, if there is one.
func channels(dispatchers func() []dispatcher.Status) func() []dispatcher.ChannelStatus {
	return func() (all []dispatcher.ChannelStatus) {
		if dispatchers == nil {
			return nil
		}
		for _, s := range dispatchers() {
			all = append(all, s.Channels...)
		}
		return all
	}
}

func channelLabels() labels[dispatcher.ChannelStatus] {
	return labels[dispatcher.ChannelStatus]{
		names:  []string{"channel", "tenant"},
		values: func(s dispatcher.ChannelStatus) []string { return []string{s.Channel, s.Tenant} },
	}
}

// of is a provider and the channel that it is of.
type of struct {
	channel, tenant string
	dispatcher.ProviderStatus
}

// providers returns those of all channels.
func providers(dispatchers func() []dispatcher.Status) func() []of {
	return func() (all []of) {
		for _, c := range channels(dispatchers)() {
			for _, p := range c.Providers {
				all = append(all, of{c.Channel, c.Tenant, p})
			}
		}
		return all
	}
}

func providerLabels() labels[of] {
	return labels[of]{
		names:  []string{"channel", "tenant", "provider"},
		values: func(s of) []string { return []string{s.channel, s.tenant, s.Provider} },
	}
}

func providerFamilies() []family[of] {
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	return []family[of]{
		{
			"tidings_provider_breaker_open", "1 while the provider is not called, or once to see whether it gets through again; 0 if it is called.", gauge,
			func(s of) (float64, bool) { return truth(s.Breaker != dispatcher.BreakerClosed) },
		},
		{
			"tidings_provider_calls", "Calls of the provider that are under way.", gauge,
			func(s of) (float64, bool) { return number(s.Calls) },
		},
		{
			"tidings_provider_stuck", "Calls of the provider that are under way although their time is over.", gauge,
			func(s of) (float64, bool) { return number(s.Stuck) },
		},
		{
			"tidings_provider_throttled_total", "Calls that waited because of the provider's rate.", counter,
			func(s of) (float64, bool) { return number(s.Throttled) },
		},
	}
}

func channelFamilies() []family[dispatcher.ChannelStatus] {
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	type status = dispatcher.ChannelStatus
	return []family[status]{
		{
			"tidings_channel_breaker_open", "1 while no provider is called, or once to see whether calls get through again; 0 if calls are made.", gauge,
			func(s status) (float64, bool) { return truth(s.Breaker != dispatcher.BreakerClosed) },
		},
		{
			"tidings_channel_calls", "Calls under way.", gauge,
			func(s status) (float64, bool) { return number(s.Calls) },
		},
		{
			"tidings_channel_concurrency", "Calls that may be under way at a time.", gauge,
			func(s status) (float64, bool) { return number(s.Concurrency) },
		},
		{
			"tidings_channel_stuck", "Calls under way although their time is over.", gauge,
			func(s status) (float64, bool) { return number(s.Stuck) },
		},
		{
			"tidings_channel_in_hand", "Events in hand that may call the channel.", gauge,
			func(s status) (float64, bool) { return number(s.InHand) },
		},
		{
			"tidings_channel_line", "Events in hand that wait a moment for the channel to have room.", gauge,
			func(s status) (float64, bool) { return number(s.Line) },
		},
		{
			"tidings_channel_aside", "Events that were set aside until the channel has room, as of a few seconds ago.", gauge,
			func(s status) (float64, bool) { return number(s.Aside) },
		},
		{
			"tidings_channel_throttled_total", "Calls that waited because of the channel's rate.", counter,
			func(s status) (float64, bool) { return number(s.Throttled) },
		},
	}
}

func newTries() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tidings_channel_tries_total", Help: "Calls that ended, by result: delivered, permanent, transient, rate_limited or unknown.",
	}, []string{"channel", "provider", "result"})
}

func newCalled() *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "tidings_channel_call_seconds", Help: "How long calls took, whatever came of them.",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
	}, []string{"channel", "provider"})
}

// Tried takes in how a call ended and how long it took. It may be called by several
// goroutines.
func (m *Metrics) Tried(channel, provider string, result event.TryResult, took time.Duration) {
	m.tries.WithLabelValues(channel, provider, string(result)).Inc()
	m.called.WithLabelValues(channel, provider).Observe(took.Seconds())
}
