package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"tidings/cmd/internal/api"
)

func newStatus(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show whether work moves, and what the ledger holds", Args: exactly(),
		Long: "Show whether work moves, and what the ledger holds. The exit code is 1 if a part is not ready.",
		RunE: c.runs(func(ctx context.Context, _ []string) error { return c.status(ctx) }),
	}
}

func (c *cli) status(ctx context.Context) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	s, err := client.Status(ctx)
	if err != nil {
		return err
	}
	if c.json {
		err = c.printJSON(s)
	} else {
		err = c.printStatus(s)
	}
	if err == nil && !s.Ready {
		return &exit{code: exitFailed}
	}
	return err
}

func (c *cli) printStatus(s api.Status) error {
	waiting := ""
	if s.Dispatcher.MaxWaiting > 0 {
		waiting = fmt.Sprintf("%d of %d", s.Dispatcher.Waiting, s.Dispatcher.MaxWaiting)
	}
	if err := c.fields("version", s.Version, "started", clock(s.StartedAt), "ready", yes(s.Ready), "waiting", waiting); err != nil {
		return err
	}
	if err := c.section([]string{"PART", "READY", "REASON"}, parts(s.Parts)); err != nil {
		return err
	}
	head := []string{"SOURCE", "BROKER", "QUEUE", "WAITING", "IN HAND", "WINDOW", "ACKED", "DUPLICATES", "QUARANTINED", "RECONNECTS", "LAST DELIVERY"}
	if err := c.section(head, sources(s.Sources)); err != nil {
		return err
	}
	if err := c.section(channels(s.Dispatcher.Channels)); err != nil {
		return err
	}
	if err := c.section([]string{"LEDGER", "COUNT"}, counts(s.Ledger)); err != nil {
		return err
	}
	if s.StreamsProblem != "" {
		c.message("streams: %s", s.StreamsProblem)
	}
	return c.section([]string{"STREAM", "ENTRIES", "SIZE", "OF", "FIRST", "LAST"}, fillings(s.Streams))
}

// section is a table with an empty line before it, if there is any row.
func (c *cli) section(head []string, rows [][]string) error {
	if len(rows) == 0 {
		return nil
	}
	fmt.Fprintln(c.out)
	return c.table(head, rows)
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func parts(all []api.Part) [][]string {
	var rows [][]string
	for _, p := range all {
		rows = append(rows, []string{p.Name, yes(p.Ready), p.Reason})
	}
	return rows
}

func sources(all []api.Source) [][]string {
	var rows [][]string
	for _, s := range all {
		waiting := ""
		if s.Waiting >= 0 {
			waiting = strconv.Itoa(s.Waiting)
		}
		rows = append(rows, []string{
			s.Name, s.Broker, s.Queue, waiting, strconv.Itoa(s.InHand), strconv.Itoa(s.Window), strconv.FormatUint(s.Acked, 10),
			strconv.FormatUint(s.Duplicates, 10), strconv.FormatUint(s.Quarantined, 10),
			strconv.FormatUint(s.Reconnects, 10), clock(s.LastDelivery),
		})
	}
	return rows
}

// channels returns a row for each channel, and one for each provider where there are
// several. Where no channel has several nor a tenant any, nothing is said of either.
func channels(all []api.Channel) (head []string, rows [][]string) {
	plain := !slices.ContainsFunc(all, func(s api.Channel) bool { return s.Tenant != "" || len(s.Providers) > 1 })
	row := func(cells ...string) {
		if plain {
			cells = slices.Delete(cells, 1, 3)
		}
		rows = append(rows, cells)
	}
	row("CHANNEL", "TENANT", "PROVIDER", "BREAKER", "SINCE", "CODE", "CALLS", "OF", "IN HAND", "ASIDE", "THROTTLED")
	for _, s := range all {
		row(s.Channel, s.Tenant, "", string(s.Breaker), clock(s.Since), s.Code, strconv.Itoa(s.Calls), strconv.Itoa(s.Concurrency),
			strconv.Itoa(s.InHand), strconv.Itoa(s.Aside), strconv.FormatUint(s.Throttled, 10))
		if len(s.Providers) < 2 {
			continue
		}
		for _, p := range s.Providers {
			row(s.Channel, s.Tenant, p.Provider, string(p.Breaker), clock(p.Since), p.Code, strconv.Itoa(p.Calls), strconv.Itoa(p.Concurrency),
				"", "", strconv.FormatUint(p.Throttled, 10))
		}
	}
	return rows[0], rows[1:]
}

func counts(n api.Counts) [][]string {
	var rows [][]string
	for _, o := range api.Outcomes() {
		rows = append(rows, []string{string(o), strconv.Itoa(n.Outcomes[o])})
	}
	for _, p := range api.OpenPhases() {
		rows = append(rows, []string{string(p), strconv.Itoa(n.Open[p])})
	}
	return append(rows,
		[]string{"test", strconv.Itoa(n.Tests)},
		[]string{string(api.Duplicate), strconv.Itoa(n.Duplicates)},
		[]string{"dead letters", strconv.Itoa(n.Letters)})
}

func fillings(all []api.Stream) [][]string {
	var rows [][]string
	for _, s := range all {
		limit := "no limit"
		if s.MaxBytes >= 0 {
			limit = humanize.IBytes(uint64(s.MaxBytes))
		}
		rows = append(rows, []string{
			s.Name, strconv.FormatUint(s.Messages, 10), humanize.IBytes(s.Bytes), limit,
			strconv.FormatUint(s.First, 10), strconv.FormatUint(s.Last, 10),
		})
	}
	return rows
}
