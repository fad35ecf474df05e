package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"time"

	"tidings/bridge/bridgetest"
	"tidings/streams"
)

// What is the same for all measurements of the dispatcher.
const (
	dispatchSize   = 512 // bytes of a body
	dispatchWindow = 256 // deliveries in hand of the bridge, its default
	steadyRate     = 500 // events a second
)

// DispatchOptions say what is measured. All but Ungrouped, AMQPURL and Progress
// are required.
type DispatchOptions struct {
	Modes  []streams.Durability
	From   []From
	Count  int           // events in each measurement
	Rounds int           // measurements of each kind
	Steady time.Duration // how long the steady load lasts that follows each
	// Ungrouped measures strict durability without group commit as well, if Modes has it.
	Ungrouped bool
	// AMQPURL is of the broker; empty: a private node is started if one is needed.
	AMQPURL  string
	Progress io.Writer // a line a second; nil: discard
}

// DispatchResult is what was measured in one mode from one source.
type DispatchResult struct {
	Mode string `json:"mode"` // relaxed, strict, or strict-ungrouped: strict without group commit
	From From   `json:"from"`
	// Rate is events a second, from the first taken until the ledger has all:
	// the median of the rounds.
	Rate float64 `json:"events_per_s"`
	// P50 and P99 are the milliseconds from an event's claim to its receipt by
	// the provider, over all rounds.
	P50 float64 `json:"p50_ms"`
	P99 float64 `json:"p99_ms"`
	// SteadyP99 is the milliseconds from publishing an event, or appending it to
	// EVENTS, to its receipt by the provider at 500 events a second: the median of
	// the rounds. It is null without group commit.
	SteadyP99 *float64 `json:"at_500_p99_ms"`
	// PeakRSS is the most memory that this process had in a round, in MiB; 0 where
	// the system does not say.
	PeakRSS float64 `json:"peak_rss_mib"`
}

// Validate says what cannot be measured.
func (o DispatchOptions) Validate() error {
	var errs []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	refuse(len(o.Modes) == 0, "--durability: name at least one")
	refuse(len(o.From) == 0, "--from: name at least one")
	refuse(o.Count < 1, "--count %d: it is at least 1", o.Count)
	refuse(o.Rounds < 1, "--rounds %d: it is at least 1", o.Rounds)
	refuse(o.steadyCount() < 1, "--steady %s: it is too short for one event at %d a second", o.Steady, steadyRate)
	return errors.Join(errs...)
}

func (o DispatchOptions) steadyCount() int { return int(o.Steady * steadyRate / time.Second) }

// Dispatch measures the whole way of an event, to a provider and to the ledger,
// in every mode and from every source of o, and returns the results in that
// order. A measurement fails unless every event was received exactly once and has
// settled. Queues and directories are gone when it returns, and so is a node that
// it started.
func Dispatch(ctx context.Context, o DispatchOptions) ([]DispatchResult, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o.Progress = cmp.Or[io.Writer](o.Progress, io.Discard)
	if o.AMQPURL == "" && slices.Contains(o.From, FromAMQP) {
		node, err := bridgetest.Start(ctx, bridgetest.Options{Private: true, Log: o.Progress})
		if err != nil {
			return nil, err
		}
		defer node.Stop()
		o.AMQPURL = node.URL()
	}
	b := &dispatchBench{DispatchOptions: o, settings: o.settings(), seen: map[setting][]run{}}
	b.progress = &progress{to: o.Progress, started: time.Now(), all: b.steps()}
	if err := b.measure(ctx); err != nil {
		return nil, err
	}
	var results []DispatchResult
	for _, k := range b.settings {
		results = append(results, b.result(k))
	}
	return results, nil
}

// setting is measurements that are alike.
type setting struct {
	mode      streams.Durability
	ungrouped bool
	from      From
}

func (k setting) name() string {
	if k.ungrouped {
		return k.mode.String() + "-ungrouped"
	}
	return k.mode.String()
}

func (o DispatchOptions) settings() []setting {
	var settings []setting
	for _, from := range o.From {
		for _, mode := range o.Modes {
			settings = append(settings, setting{mode: mode, from: from})
			if o.Ungrouped && mode == streams.Strict {
				settings = append(settings, setting{mode: mode, from: from, ungrouped: true})
			}
		}
	}
	return settings
}

// dispatchBench is one benchmark under way.
type dispatchBench struct {
	DispatchOptions
	settings []setting
	progress *progress
	seen     map[setting][]run
}

// run is what one measurement showed.
type run struct {
	rate    float64
	claimed []time.Duration // from claim to receipt
	steady  []time.Duration // from publishing to receipt, under the steady load
	peakRSS float64
}

// steps returns how many events are published and settled in all.
func (b *dispatchBench) steps() int {
	n := 0
	for _, k := range b.settings {
		n += 2*b.Count + b.steadyOf(k)
	}
	return n * b.Rounds
}

// steadyOf returns how many events the steady load of a setting has.
func (b *dispatchBench) steadyOf(k setting) int {
	if k.ungrouped {
		return 0
	}
	return b.steadyCount()
}

// measure takes turns, so that what else the machine does hits all alike. Every
// second round is in the opposite order.
func (b *dispatchBench) measure(ctx context.Context) error {
	for round := range b.Rounds {
		order := slices.Clone(b.settings)
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, k := range order {
			what := fmt.Sprintf("round %d of %d, %s from %s", round+1, b.Rounds, k.name(), k.from)
			debug.FreeOSMemory() // of the measurement before
			r, err := b.once(ctx, k, what)
			if err != nil {
				return fmt.Errorf("measure %s from %s: %w", k.name(), k.from, err)
			}
			b.seen[k] = append(b.seen[k], r)
		}
	}
	return nil
}

func (b *dispatchBench) result(k setting) DispatchResult {
	var rates, steady []float64
	var claimed []time.Duration
	var peak float64
	for _, r := range b.seen[k] {
		rates, claimed, peak = append(rates, r.rate), append(claimed, r.claimed...), max(peak, r.peakRSS)
		if slices.Sort(r.steady); len(r.steady) > 0 {
			steady = append(steady, ms(percentile(r.steady, 99)))
		}
	}
	slices.Sort(claimed)
	result := DispatchResult{
		Mode: k.name(), From: k.from, Rate: round(median(rates), 1),
		P50: round(ms(percentile(claimed, 50)), 2), P99: round(ms(percentile(claimed, 99)), 2), PeakRSS: round(peak, 1),
	}
	if len(steady) > 0 {
		p99 := round(median(steady), 2)
		result.SteadyP99 = &p99
	}
	return result
}
