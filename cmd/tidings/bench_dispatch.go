package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"tidings/cmd/internal/bench"
)

func newBenchDispatch(c *cli) *cobra.Command {
	var o bench.DispatchOptions
	var from, durability string
	cmd := &cobra.Command{
		Use:   "dispatch",
		Short: "Measure the whole way of an event, to a webhook and the ledger",
		Long: `Runs bridge, dispatcher, projector and ledger in this process, in the temporary
directory (TMPDIR), and a receiver of webhooks on loopback that answers 200 at
once. First a number of events of 512 bytes is taken as fast as it goes, then
500 a second are published for some seconds. Queue, log and ledger are new for
each measurement, and nothing is left behind. A measurement fails unless every
event was received exactly once, by its idempotency key, and has settled in the
ledger with one call and no duplicate.

The rate is events a second, from the first that was taken until the ledger has
all: the median of the rounds. p50 and p99 are the milliseconds from an event's
claim to its receipt, while as many are in hand as may be. p99 at 500/s is from
publishing to RabbitMQ, or appending to the log, to the receipt: the median of the
rounds. The memory is that of this process, with receiver and embedded server in
it and without RabbitMQ.

From amqp the events wait in a queue, from jetstream they are in the log already.
strict-ungrouped is strict durability with a sync for every append.`,
		Example: "  tidings bench dispatch --from amqp --durability relaxed\n  AMQP_URL=amqp://… TMPDIR=/var/lib/tidings tidings bench dispatch --json",
		Args:    exactly(),
		RunE: c.runs(func(ctx context.Context, _ []string) (err error) {
			if o.Modes, err = parseModes(durability); err != nil {
				return err
			}
			if o.From, err = parseFrom(from); err != nil {
				return err
			}
			return c.benchDispatch(ctx, o)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&from, "from", "both", "amqp, jetstream or both")
	f.IntVar(&o.Count, "count", 10000, "events in each measurement, beside those of the steady load")
	f.IntVar(&o.Rounds, "rounds", 3, "measurements of each kind")
	f.DurationVar(&o.Steady, "steady", 5*time.Second, "how long 500 events a second are published")
	f.StringVar(&durability, "durability", "both", "strict, relaxed or both")
	f.BoolVar(&o.Ungrouped, "ungrouped", true, "with strict: measure it without group commit as well")
	f.StringVar(&o.AMQPURL, "amqp-url", "", "URL of RabbitMQ (AMQP_URL); without one, a private node is started")
	return cmd
}

func parseFrom(text string) ([]bench.From, error) {
	switch from := bench.From(text); from {
	case bench.FromAMQP, bench.FromJetStream:
		return []bench.From{from}, nil
	case "both":
		return []bench.From{bench.FromAMQP, bench.FromJetStream}, nil
	}
	return nil, usage("--from: %q is neither amqp nor jetstream nor both", text)
}

func (c *cli) benchDispatch(ctx context.Context, o bench.DispatchOptions) error {
	o.AMQPURL = cmp.Or(o.AMQPURL, c.getenv("AMQP_URL"))
	o.Progress = cleaner{c.err}
	if err := o.Validate(); err != nil {
		return usage("%s", err)
	}
	results, err := bench.Dispatch(ctx, o)
	if err != nil {
		return err
	}
	switch {
	case c.json && len(results) == 1:
		return c.printJSON(results[0])
	case c.json:
		return c.printJSON(results)
	}
	return c.printDispatch(results)
}

// printDispatch prints a table for people, whatever it is written to: programs have --json.
func (c *cli) printDispatch(results []bench.DispatchResult) error {
	rows := make([][]string, len(results))
	for i, r := range results {
		steady := "-"
		if r.SteadyP99 != nil {
			steady = decimal(*r.SteadyP99)
		}
		rows[i] = []string{
			r.Mode, string(r.From), fmt.Sprintf("%.0f", r.Rate), decimal(r.P50), decimal(r.P99), steady, decimal(r.PeakRSS),
		}
	}
	return aligned(c.out, []string{"MODE", "FROM", "EVENTS/S", "P50 MS", "P99 MS", "P99 MS AT 500/S", "PEAK MIB"}, rows)
}
