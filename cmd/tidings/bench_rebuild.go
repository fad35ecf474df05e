package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"

	"github.com/spf13/cobra"

	"tidings/cmd/internal/bench"
)

func newBenchRebuild(c *cli) *cobra.Command {
	var o bench.RebuildOptions
	var part string
	cmd := &cobra.Command{
		Use:   "rebuild",
		Short: "Measure how fast the ledger is made anew from the log",
		Long: `Fills a log of its own in the temporary directory (TMPDIR) with what Tidings
writes about events of all sorts, and measures how fast a new ledger is folded
from it, as when the ledger is lost. In turn with it, the floor is measured: the
same stream is read in the same way, and two rows are put for each record, as
large as those of the ledger and in transactions of the same size. Nothing is left
behind.

Rates are records a second, medians of the rounds. Each measurement has a process
of its own; the memory is the most that a rebuilding one had, with the embedded
server and the pages of the ledger's file in it. A measurement fails unless the
ledger has every record and duplicate of the log, and each event with the outcome
that it must have, and unless all rounds make the same ledger.

With --queries, the queries of the ledger are measured on the last one, each a
thousand times and about another event. With --memory, the heap in use for each
event is, in a process that has the log and the ledger open.

A million records take about 6 GiB of disk for a while.`,
		Example: "  tidings bench rebuild --records 1000000 --rounds 1\n  TMPDIR=/var/lib/tidings tidings bench rebuild --json",
		Args:    exactly(),
		RunE: c.runs(func(ctx context.Context, _ []string) error {
			if part != "" {
				return bench.RebuildPart(ctx, part, c.out)
			}
			return c.benchRebuild(ctx, o)
		}),
	}
	f := cmd.Flags()
	f.IntVar(&o.Records, "records", 200_000, "records in the log")
	f.IntVar(&o.Rounds, "rounds", 3, "measurements of each kind")
	f.BoolVar(&o.Queries, "queries", false, "measure the queries of the ledger as well")
	f.BoolVar(&o.Memory, "memory", false, "measure the memory for each event as well")
	f.StringVar(&o.CPUProfile, "cpuprofile", "", "file for a profile of the processors in the last rebuild")
	f.StringVar(&part, "part", "", "make one measurement (for the process that the command starts)")
	_ = f.MarkHidden("part")
	return cmd
}

func (c *cli) benchRebuild(ctx context.Context, o bench.RebuildOptions) error {
	o.Progress = cleaner{c.err}
	o.Process = func(ctx context.Context, part string) *exec.Cmd {
		return exec.CommandContext(ctx, c.self, "bench", "rebuild", "--part", part)
	}
	if err := o.Validate(); err != nil {
		return usage("%s", err)
	}
	r, err := bench.Rebuild(ctx, o)
	if err != nil {
		return err
	}
	if c.json {
		return c.printJSON(r)
	}
	return c.printRebuild(r)
}

// printRebuild prints a table for people, whatever it is written to: programs have --json.
func (c *cli) printRebuild(r bench.RebuildResult) error {
	err := aligned(c.out, []string{"RECORDS", "RECORDS/S", "FLOOR/S", "RATIO", "PEAK MIB"}, [][]string{{
		fmt.Sprint(r.Records), fmt.Sprintf("%.0f", r.Rate), fmt.Sprintf("%.0f", r.Floor), fmt.Sprintf("%.2f", r.Ratio), decimal(r.PeakRSS),
	}})
	if len(r.Queries) > 0 {
		rows := make([][]string, len(r.Queries))
		for i, q := range r.Queries {
			rows[i] = []string{q.Query, fmt.Sprintf("%.3f", q.P50), fmt.Sprintf("%.3f", q.P99)}
		}
		fmt.Fprintln(c.out)
		err = errors.Join(err, aligned(c.out, []string{"QUERY", "P50 MS", "P99 MS"}, rows))
	}
	if h := r.Heap; h != nil {
		fmt.Fprintln(c.out)
		err = errors.Join(err, aligned(c.out, []string{"EVENTS", "HEAP BYTES EACH, RESTARTED", "WRITING"}, [][]string{{
			fmt.Sprint(h.IDs), decimal(h.Restarted), decimal(h.Writing),
		}}))
	}
	return err
}
