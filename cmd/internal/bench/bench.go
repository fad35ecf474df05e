// Package bench measures how fast events come in, on real parts: RabbitMQ, and
// the embedded NATS server on the disk of the temporary directory.
//
// # What to believe
//
//   - The product is the bridge and the door as the process runs them. It is
//     held against a bare loop, the least that does the same job without any of
//     the guarantees: consume, publish with a message id, acknowledge when the
//     log has it. Both run in turn, in one process, on the same broker and the
//     same settings of the log, with the same window.
//   - Each measurement has a queue and a log of its own, and fails unless every
//     message is in EVENTS once and acknowledged.
//   - Rates are medians of the rounds. What else the machine does meanwhile
//     changes both; compare ratios, not rates of different machines.
//
// # What not to believe
//
//   - That the times are those of an event that comes alone: the queue is full
//     from the start, so that a whole window is always in hand.
//   - That the memory is the bridge's alone: it is that of the whole process,
//     with the embedded server in it.
package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime/debug"
	"slices"
	"time"

	"tidings/bridge/bridgetest"
	"tidings/streams"
)

// Options say what is measured. All but AMQPURL and Progress are required.
type Options struct {
	Modes  []streams.Durability
	Count  int // messages in each measurement
	Size   int // of a body in bytes, at least MinSize
	Window int // deliveries in hand
	Rounds int // measurements of each kind
	// Duplicates and Conflicts are the parts of the messages, from 0 to 1, that
	// have the id of one before, with the same body and with another. If there
	// are any, the product is also measured with them.
	Duplicates, Conflicts float64
	// DuplicateWindow is how long JetStream recognises a repeat, at least
	// MinWindow; 0: as long as in production.
	DuplicateWindow time.Duration
	// Memory asks for the memory along the way.
	Memory bool
	// AMQPURL is of the broker; empty: a private node is started.
	AMQPURL  string
	Progress io.Writer // a line a second; nil: discard
}

// Result is what was measured in one mode.
type Result struct {
	Mode string `json:"mode"` // strict or relaxed
	// Messages a second, from the first delivery taken to the last
	// acknowledgement: medians of the rounds.
	Product float64 `json:"product_per_s"`
	Bare    float64 `json:"bare_per_s"`
	Ratio   float64 `json:"ratio"` // of the two
	// P50 and P99 are the milliseconds from taking a delivery to its
	// acknowledgement, over all rounds of the product.
	P50 float64 `json:"p50_ms"`
	P99 float64 `json:"p99_ms"`
	// PeakRSS is the most memory that this process had in a round of the
	// product, in MiB; 0 where the system does not say.
	PeakRSS float64 `json:"peak_rss_mib"`

	// Mixed is the rate of the product with duplicates and conflicts, and
	// MixedRatio that to the rate without. Zero if they were not asked for.
	Mixed      float64 `json:"mixed_per_s,omitempty"`
	MixedRatio float64 `json:"mixed_ratio,omitempty"`
	// Memory is that of the product in its last round; nil if it was not asked for.
	Memory *Memory `json:"peak_rss_mib_at,omitempty"`
}

// Memory is the most that this process had since the first message, in MiB,
// after parts of the messages.
type Memory struct {
	At10  float64 `json:"10%"`
	At50  float64 `json:"50%"`
	At100 float64 `json:"100%"`
}

// Validate says what cannot be measured.
func (o Options) Validate() error {
	var errs []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	refuse(len(o.Modes) == 0, "--durability: name at least one")
	refuse(o.Count < 1, "--count %d: it is at least 1", o.Count)
	refuse(o.Size < MinSize || o.Size > streams.MaxData, "--size %d: it is between %d and %d", o.Size, MinSize, streams.MaxData)
	refuse(o.Window < 1 || o.Window > math.MaxUint16, "--window %d: it is between 1 and %d", o.Window, math.MaxUint16)
	refuse(o.Rounds < 1, "--rounds %d: it is at least 1", o.Rounds)
	refuse(o.DuplicateWindow != 0 && o.DuplicateWindow < MinWindow, "--duplicate-window %s: it is at least %s", o.DuplicateWindow, MinWindow)
	for name, part := range map[string]float64{"duplicates": o.Duplicates, "conflicts": o.Conflicts} {
		refuse(!(part >= 0 && part <= maxPart), "--%s %g%%: it is between 0 and %g%%", name, part*100, maxPart*100.0)
	}
	return errors.Join(errs...)
}

// MinWindow is longer than a message takes.
const MinWindow = time.Second

// maxPart leaves enough originals, each of which is repeated once.
const maxPart = 0.2

// Bridge measures the bridge in every mode of o, and returns the results in
// that order. Queues and directories are gone when it returns, and so is a node
// that it started.
func Bridge(ctx context.Context, o Options) ([]Result, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o.Progress = cmp.Or[io.Writer](o.Progress, io.Discard)
	if o.AMQPURL == "" {
		node, err := bridgetest.Start(ctx, bridgetest.Options{Private: true, Log: o.Progress})
		if err != nil {
			return nil, err
		}
		defer node.Stop()
		o.AMQPURL = node.URL()
	}
	b := &bench{Options: o, seen: map[series][]measured{}}
	// Each message is published and consumed.
	b.progress = &progress{to: o.Progress, started: time.Now(), all: 2 * o.Count * o.Rounds * len(b.loads()) * len(o.Modes)}
	if err := b.measure(ctx); err != nil {
		return nil, err
	}
	var results []Result
	for _, mode := range o.Modes {
		results = append(results, b.result(mode))
	}
	return results, nil
}

// bench is one benchmark under way.
type bench struct {
	Options
	progress *progress
	seen     map[series][]measured
}

// series is measurements that are alike.
type series struct {
	mode streams.Durability
	load load
}

// load is what is measured.
type load string

const (
	clean load = "product"
	plain load = "bare loop"
	mixed load = "product with repeats"
)

func (b *bench) loads() []load {
	if b.Duplicates+b.Conflicts > 0 {
		return []load{clean, plain, mixed}
	}
	return []load{clean, plain}
}

func (s series) String() string { return s.mode.String() + ", " + string(s.load) }

// measure takes turns, so that what else the machine does hits all alike. Who
// is first changes with every round.
func (b *bench) measure(ctx context.Context) error {
	for round := range b.Rounds {
		for _, mode := range b.Modes {
			loads := b.loads()
			first := round % len(loads)
			for _, load := range slices.Concat(loads[first:], loads[:first]) {
				s := series{mode, load}
				m, err := b.once(ctx, s, fmt.Sprintf("round %d of %d, %s", round+1, b.Rounds, s))
				if err != nil {
					return fmt.Errorf("measure %s: %w", s, err)
				}
				b.seen[s] = append(b.seen[s], m)
			}
		}
	}
	return nil
}

// once is one measurement with a queue and a log of its own.
func (b *bench) once(ctx context.Context, s series, what string) (m measured, err error) {
	q, err := newQueue(b.AMQPURL)
	if err != nil {
		return measured{}, err
	}
	defer func() { err = errors.Join(err, q.remove()) }()
	var mix mix
	loop := product
	switch s.load {
	case plain:
		loop = bare
	case mixed:
		mix.duplicates, mix.conflicts = b.Duplicates, b.Conflicts
	}
	if err := q.fillWith(ctx, mix, b.Count, b.Size, b.progress.follow(what+", publishing", b.Count)); err != nil {
		return measured{}, err
	}
	place, err := openLog(ctx, streams.Options{Durability: s.mode, DuplicateWindow: b.DuplicateWindow})
	if err != nil {
		return measured{}, err
	}
	defer place.close()

	meter := newMeter(b.Count)
	debug.FreeOSMemory() // of the measurement before
	resetPeakRSS()
	err = until(ctx, meter, b.progress.follow(what, b.Count), func(ctx context.Context) error {
		return loop(ctx, b.AMQPURL, q.name, b.Window, place, meter)
	})
	if err != nil {
		return measured{}, err
	}
	return meter.result(), place.holdsAll(ctx, mix.count(b.Count))
}

func (b *bench) result(mode streams.Durability) Result {
	products, rate := b.seen[series{mode, clean}], func(l load) float64 { return medianRate(b.seen[series{mode, l}]) }
	var held []time.Duration
	var peak float64
	for _, m := range products {
		held, peak = append(held, m.held...), max(peak, m.peak.At100)
	}
	slices.Sort(held)
	r := Result{
		Mode: mode.String(), Product: round(rate(clean), 1), Bare: round(rate(plain), 1),
		Ratio: round(rate(clean)/rate(plain), 3),
		P50:   round(ms(percentile(held, 50)), 2), P99: round(ms(percentile(held, 99)), 2), PeakRSS: peak,
	}
	if slices.Contains(b.loads(), mixed) {
		r.Mixed, r.MixedRatio = round(rate(mixed), 1), round(rate(mixed)/rate(clean), 3)
	}
	if b.Memory {
		r.Memory = &products[len(products)-1].peak
	}
	return r
}
