package main

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"tidings/cmd/internal/why"
)

func newDeadLettersCauses(c *cli) *cobra.Command {
	var tenant string
	cmd := &cobra.Command{
		Use: "causes", Short: "Count dead letters by cause, and say what each means", Args: exactly(),
		Long: `Counts dead letters by cause, the most first, at once however many there are.
Those that are requeued and have not ended are counted too.`,
		RunE: c.runs(func(ctx context.Context, _ []string) error { return c.causes(ctx, tenant) }),
	}
	cmd.Flags().StringVar(&tenant, "tenant", "", "tenant")
	return cmd
}

func (c *cli) causes(ctx context.Context, tenant string) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	counts, err := client.Causes(ctx, tenant)
	switch {
	case err != nil:
		return err
	case c.json:
		return c.printJSON(counts)
	}
	rows := make([][]string, len(counts.Items))
	for i, n := range counts.Items {
		rows[i] = []string{strconv.Itoa(n.Letters), string(n.Cause), clock(n.Oldest), clock(n.Newest), why.CauseInWords(n.Cause)}
	}
	return c.table([]string{"LETTERS", "CAUSE", "OLDEST", "NEWEST", "WHICH MEANS"}, rows)
}
