package main

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"tidings/cmd/internal/api"
)

func newEventsCount(c *cli) *cobra.Command {
	var q api.HourQuery
	var since, until, outcome, by string
	cmd := &cobra.Command{
		Use: "count", Short: "Count events by tenant and outcome, and by hour", Args: exactly(),
		Long: `Counts events by tenant and outcome, in whole hours of UTC by when they were
stored. Tests are not counted. An event without an outcome has not ended.`,
		Example: "  tidings events count --since 24h\n  tidings events count --by hour --outcome failed --tenant shop",
	}
	f := cmd.Flags()
	f.StringVar(&by, "by", api.ByTotal, "hour, or total")
	f.StringVar(&q.Tenant, "tenant", "", "tenant")
	f.StringVar(&outcome, "outcome", "", "processed, failed, suppressed, no_recipient, no_template or stale")
	paging(cmd, &since, &until, &q.Limit, &q.Cursor)
	complete(cmd, "by", api.ByHour, api.ByTotal)
	complete(cmd, "outcome", names(api.Outcomes())...)
	cmd.RunE = c.runs(func(ctx context.Context, _ []string) error {
		q.Outcome = api.Outcome(outcome)
		if err := parseTimes(since, &q.Since, until, &q.Until); err != nil {
			return err
		}
		if err := checkLimit(q.Limit); err != nil {
			return err
		}
		return c.countEvents(ctx, q, by)
	})
	return cmd
}

func (c *cli) countEvents(ctx context.Context, q api.HourQuery, by string) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	page, err := client.Counts(ctx, q, by)
	switch {
	case err != nil:
		return err
	case c.json:
		return c.printJSON(page)
	}
	head := []string{"TENANT", "OUTCOME", "EVENTS"}
	if by == api.ByHour {
		head = append([]string{"HOUR"}, head...)
	}
	rows := make([][]string, len(page.Items))
	for i, n := range page.Items {
		row := []string{n.Tenant, first(string(n.Outcome), "not ended"), strconv.Itoa(n.Events)}
		if by == api.ByHour {
			row = append([]string{clock(n.Hour)}, row...)
		}
		rows[i] = row
	}
	if err := c.table(head, rows); err != nil {
		return err
	}
	c.more(page.Next)
	return nil
}
