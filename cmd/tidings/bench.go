package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"tidings/cmd/internal/bench"
	"tidings/streams"
)

func newBench(c *cli) *cobra.Command {
	return group("bench", "Measure on this machine", newBenchBridge(c), newBenchDispatch(c), newBenchRebuild(c))
}

func newBenchBridge(c *cli) *cobra.Command {
	var o bench.Options
	var durability string
	cmd := &cobra.Command{
		Use:   "bridge",
		Short: "Measure how fast events come in from RabbitMQ",
		Long: `Fills a queue of its own, and measures how fast the bridge takes it to a log of
its own in the temporary directory (TMPDIR): once each is stored and
acknowledged. In turn with it, the bare loop is measured, which does the least
that could be called the same: consume, publish to JetStream with a message id,
acknowledge when JetStream has it. Nothing is left behind.

Rates are messages a second from the first delivery taken to the last
acknowledgement, medians of the rounds. p50 and p99 are the milliseconds from
taking a delivery to its acknowledgement, of the product. The queue is full from
the start, so they tell how long a full window takes, not how long an event that
comes alone does. The memory is that of this process, with the embedded server
in it and without RabbitMQ.

With --duplicates or --conflicts the product is measured once more, with messages
that have the id of an earlier one: with the same body, which becomes an entry of
the audit, or with another, which becomes a dead letter. --memory tells the most
memory up to 10 %, 50 % and all of the messages, to see whether it grows: it does
by the ids of --duplicate-window.

strict syncs every append to disk before it is acknowledged: measure it on the
disk that the data will be on.`,
		Example: "  tidings bench bridge --count 5000 --durability relaxed\n  tidings bench bridge --durability strict --duplicates 1% --conflicts 1%\n  tidings bench bridge --durability relaxed --count 1000000 --rounds 1 --memory\n  AMQP_URL=amqp://… TMPDIR=/var/lib/tidings tidings bench bridge --json",
		Args:    exactly(),
		RunE: c.runs(func(ctx context.Context, _ []string) error {
			var err error
			if o.Modes, err = parseModes(durability); err != nil {
				return err
			}
			return c.benchBridge(ctx, o)
		}),
	}
	f := cmd.Flags()
	f.IntVar(&o.Count, "count", 20000, "messages in each measurement")
	f.IntVar(&o.Size, "size", 512, "bytes of a message's body")
	f.IntVar(&o.Window, "window", 256, "deliveries in hand at the same time")
	f.IntVar(&o.Rounds, "rounds", 3, "measurements of each kind")
	f.Var((*percent)(&o.Duplicates), "duplicates", "messages that repeat an earlier one, such as 1%")
	f.Var((*percent)(&o.Conflicts), "conflicts", "messages that have the id of an earlier one and another body")
	f.DurationVar(&o.DuplicateWindow, "duplicate-window", 0, "how long JetStream recognises repeats (default as in production, 2m0s)")
	f.BoolVar(&o.Memory, "memory", false, "tell the memory along the way")
	f.StringVar(&durability, "durability", "both", "strict, relaxed or both; with --json, both print a list")
	f.StringVar(&o.AMQPURL, "amqp-url", "", "URL of RabbitMQ (AMQP_URL); without one, a private node is started")
	return cmd
}

// percent is a part of a whole, in percent on the command line.
type percent float64

// Set implements pflag.Value.
func (p *percent) Set(text string) error {
	n, err := strconv.ParseFloat(strings.TrimSuffix(text, "%"), 64)
	if err != nil {
		return fmt.Errorf("write a number of percent, such as 1%%")
	}
	*p = percent(n / 100)
	return nil
}

// String implements pflag.Value.
func (p *percent) String() string { return strconv.FormatFloat(float64(*p)*100, 'g', -1, 64) + "%" }

// Type implements pflag.Value.
func (p *percent) Type() string { return "percent" }

func parseModes(text string) ([]streams.Durability, error) {
	switch text {
	case "strict":
		return []streams.Durability{streams.Strict}, nil
	case "relaxed":
		return []streams.Durability{streams.Relaxed}, nil
	case "both":
		return []streams.Durability{streams.Relaxed, streams.Strict}, nil
	}
	return nil, usage("--durability: %q is neither strict nor relaxed nor both", text)
}

func (c *cli) benchBridge(ctx context.Context, o bench.Options) error {
	o.AMQPURL = cmp.Or(o.AMQPURL, c.getenv("AMQP_URL"))
	o.Progress = cleaner{c.err}
	if err := o.Validate(); err != nil {
		return usage("%s", err)
	}
	results, err := bench.Bridge(ctx, o)
	if err != nil {
		return err
	}
	switch {
	case c.json && len(results) == 1:
		return c.printJSON(results[0])
	case c.json:
		return c.printJSON(results)
	}
	return c.printBench(results)
}

// printBench prints a table for people, whatever it is written to: programs have --json.
func (c *cli) printBench(results []bench.Result) error {
	header := []string{"MODE", "PRODUCT/S", "BARE/S", "RATIO", "P50 MS", "P99 MS", "PEAK MIB"}
	if results[0].Mixed > 0 {
		header = append(header, "WITH REPEATS/S", "OF PRODUCT")
	}
	if results[0].Memory != nil {
		header = append(header, "PEAK AT 10%", "50%", "100%")
	}
	rows := make([][]string, len(results))
	for i, r := range results {
		rows[i] = []string{
			r.Mode, fmt.Sprintf("%.0f", r.Product), fmt.Sprintf("%.0f", r.Bare), fmt.Sprintf("%.2f", r.Ratio),
			decimal(r.P50), decimal(r.P99), decimal(r.PeakRSS),
		}
		if r.Mixed > 0 {
			rows[i] = append(rows[i], fmt.Sprintf("%.0f", r.Mixed), fmt.Sprintf("%.2f", r.MixedRatio))
		}
		if m := r.Memory; m != nil {
			rows[i] = append(rows[i], decimal(m.At10), decimal(m.At50), decimal(m.At100))
		}
	}
	return aligned(c.out, header, rows)
}

func decimal(f float64) string { return strconv.FormatFloat(f, 'f', 1, 64) }
