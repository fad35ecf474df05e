package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"tidings/cmd/internal/api"
	"tidings/cmd/internal/why"
)

func newEvents(c *cli) *cobra.Command {
	return group("events", "What became of events",
		newEventsList(c), newEventsCount(c), newEventsShow(c), newEventsWhy(c), newEventsTail(c), newEventsTest(c))
}

// eventFilter is the flags that choose events: those that fit all of them.
type eventFilter struct {
	q                            api.EventQuery
	since, until, outcome, phase string
}

func (e *eventFilter) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&e.q.ID, "id", "", "id that the producer gave")
	f.StringVar(&e.q.Tenant, "tenant", "", "tenant")
	f.StringVar(&e.q.Type, "type", "", "event type")
	f.StringVar(&e.outcome, "outcome", "", "processed, failed, suppressed, no_recipient, no_template or stale")
	f.StringVar(&e.phase, "phase", "", "open, claimed, waiting, settled or dead")
	f.StringVar(&e.q.Source, "source", "", "source, as the producer says it")
	f.StringVar(&e.q.CorrelationID, "correlation", "", "correlation id")
	f.StringVar(&e.q.Address, "recipient", "", "address of a recipient of one of its messages")
	f.StringVar(&e.q.Text, "text", "", "in its id, type, source, correlation id or cause, in any case")
	complete(cmd, "outcome", names(api.Outcomes())...)
	complete(cmd, "phase", names(api.Phases())...)
}

// query returns what the flags say.
func (e *eventFilter) query() (api.EventQuery, error) {
	e.q.Outcome, e.q.Phase = api.Outcome(e.outcome), api.Phase(e.phase)
	return e.q, parseTimes(e.since, &e.q.Since, e.until, &e.q.Until)
}

func newEventsList(c *cli) *cobra.Command {
	var filter eventFilter
	var limit int
	var cursor string
	var all bool
	cmd := &cobra.Command{
		Use: "list", Short: "List events, newest first", Args: exactly(),
		Example: "  tidings events list --outcome failed --since 2h\n  tidings events list --recipient ann@example.com --all",
	}
	filter.flags(cmd)
	paging(cmd, &filter.since, &filter.until, &limit, &cursor)
	cmd.Flags().BoolVar(&all, "all", false, "all that fit, page after page; with --json an event a line")
	cmd.MarkFlagsMutuallyExclusive("all", "limit")
	cmd.RunE = c.runs(func(ctx context.Context, _ []string) error {
		q, err := filter.query()
		if err != nil {
			return err
		}
		if err := checkLimit(limit); err != nil {
			return err
		}
		if q.Limit, q.Cursor = limit, cursor; all {
			return c.listAllEvents(ctx, q)
		}
		return c.listEvents(ctx, q)
	})
	return cmd
}

func (c *cli) listEvents(ctx context.Context, q api.EventQuery) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	page, err := client.Events(ctx, q)
	switch {
	case err != nil:
		return err
	case c.json:
		return c.printJSON(page)
	}
	if err := c.table(eventHead(), eventRows(page.Items)); err != nil {
		return err
	}
	c.more(page.Next)
	return nil
}

// listAllEvents writes what is chosen as it comes, and holds one page at a time. A
// page without events is not the end, as long as it names a next one.
func (c *cli) listAllEvents(ctx context.Context, q api.EventQuery) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	show := c.eventsAsLines()
	for q.Limit = api.MaxLimit; ; {
		page, err := client.Events(ctx, q)
		if err != nil {
			return err
		}
		if err := show(page.Items); err != nil {
			return err
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return nil
		}
	}
}

// eventsAsLines returns what writes pages of events below each other.
func (c *cli) eventsAsLines() func([]api.Row) error {
	if c.json {
		enc := json.NewEncoder(c.out)
		enc.SetEscapeHTML(false)
		return func(rows []api.Row) error {
			for _, r := range rows {
				if err := enc.Encode(r); err != nil {
					return err
				}
			}
			return nil
		}
	}
	return func(rows []api.Row) error {
		if len(rows) == 0 {
			return nil
		}
		return c.table(eventHead(), eventRows(rows)) // each page with a heading, as its columns are its own
	}
}

func eventHead() []string {
	return []string{"RECEIVED", "KEY", "TENANT", "TYPE", "ID", "OUTCOME", "PHASE", "DELIVERED", "TRIES", "DUPLICATES"}
}

func eventRows(events []api.Row) [][]string {
	rows := make([][]string, len(events))
	for i, r := range events {
		rows[i] = []string{
			clock(r.ReceivedAt), string(r.Key), r.Tenant, r.Type, r.EventID, standing(r), string(r.Phase),
			delivered(r.Messages), strconv.Itoa(r.Tries), strconv.Itoa(r.Duplicates),
		}
	}
	return rows
}

// more says how to get the next page.
func (c *cli) more(next string) {
	if next != "" {
		c.message("there are more: the next page is that of --cursor %s", next)
	}
}

// standing is the outcome of an ended event, and the phase of an open one. It
// marks tests.
func standing(r api.Row) string {
	s := first(string(r.Outcome), string(r.Phase))
	if r.Test {
		s += " (test)"
	}
	return s
}

func delivered(n api.Messages) string { return fmt.Sprintf("%d/%d", n.Delivered, n.Created) }

func newEventsShow(c *cli) *cobra.Command {
	var tenant string
	var tries bool
	cmd := &cobra.Command{
		Use: "show ID", Short: "Show where an event and its messages stand", Args: exactly("the key or id of an event"),
		RunE: c.runs(func(ctx context.Context, args []string) error {
			if tries {
				return c.showTries(ctx, args[0], tenant)
			}
			return c.showEvent(ctx, args[0], tenant)
		}),
	}
	cmd.Flags().BoolVar(&tries, "tries", false, "every call of a provider instead, with its result and times")
	cmd.Flags().StringVar(&tenant, "tenant", "", "tenant, where several use the id")
	return cmd
}

func (c *cli) showEvent(ctx context.Context, id, tenant string) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	found, err := client.Event(ctx, id, tenant)
	switch {
	case err != nil:
		return withHint(err, listLettersCommand)
	case c.json:
		return c.printJSON(found)
	}
	if err := c.printEvent(found.Event); err != nil || len(found.Messages) == 0 {
		return err
	}
	fmt.Fprintln(c.out)
	rows := make([][]string, len(found.Messages))
	for i, m := range found.Messages {
		rows[i] = []string{m.ID, m.Route, m.Channel, m.Recipient.Mask, string(m.State), strconv.Itoa(m.Tries), m.Code, m.Reason}
	}
	return c.table([]string{"MESSAGE", "ROUTE", "CHANNEL", "RECIPIENT", "STATE", "TRIES", "CODE", "REASON"}, rows)
}

func (c *cli) printEvent(r api.Row) error {
	return c.fields(
		"key", string(r.Key), "tenant", r.Tenant, "source", r.Source, "id", r.EventID, "id source", string(r.IDSource),
		"amqp message-id", r.AMQPMessageID,
		"type", r.Type, "correlation id", r.CorrelationID,
		"outcome", string(r.Outcome), "phase", string(r.Phase), "due", clock(r.Due), "cause", string(r.Cause),
		"delivered", delivered(r.Messages), "tries", strconv.Itoa(r.Tries), "duplicates", strconv.Itoa(r.Duplicates),
		"generation", strconv.Itoa(r.Generation), "crashes", strconv.Itoa(r.Crashes),
		"occurred", clock(r.OccurredAt), "received", clock(r.ReceivedAt), "changed", clock(r.ChangedAt),
	)
}

func newEventsWhy(c *cli) *cobra.Command {
	var tenant string
	cmd := &cobra.Command{
		Use: "why ID", Short: "Tell the whole history of an event in words", Args: exactly("the key or id of an event"),
		RunE: c.runs(func(ctx context.Context, args []string) error { return c.why(ctx, args[0], tenant) }),
	}
	cmd.Flags().StringVar(&tenant, "tenant", "", "tenant, where several use the id")
	return cmd
}

func (c *cli) why(ctx context.Context, id, tenant string) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	found, err := client.Event(ctx, id, tenant)
	if err != nil {
		return withHint(err, listLettersCommand)
	}
	history, err := client.History(ctx, found.Event.Key)
	if err != nil {
		return err
	}
	story := why.Tell(found.Event, history)
	if c.json {
		return c.printJSON(story)
	}
	return story.Format(cleaner{c.out})
}

// paging adds the flags of lists.
func paging(cmd *cobra.Command, since, until *string, limit *int, cursor *string) {
	f := cmd.Flags()
	f.StringVar(since, "since", "", "from then on: a time (RFC 3339), or how long ago (2h)")
	f.StringVar(until, "until", "", "before then: a time (RFC 3339), or how long ago (2h)")
	f.IntVar(limit, "limit", api.DefaultLimit, "at most this many, up to 1000")
	f.StringVar(cursor, "cursor", "", "where the page before said that the next begins")
}

// checkLimit refuses what would mean the default to the API.
func checkLimit(n int) error {
	if n < 1 {
		return usage("--limit %d: a page has 1 to 1000", n)
	}
	return nil
}

func parseTimes(since string, s *time.Time, until string, u *time.Time) (err error) {
	if *s, err = parseTime("since", since); err != nil {
		return err
	}
	*u, err = parseTime("until", until)
	return err
}

// parseTime reads a time, or how long ago it was.
func parseTime(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil {
		return time.Now().Add(-ago), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, usage("--%s: %q is neither a time such as 2026-05-01T12:00:00Z nor a duration such as 2h", flag, text)
	}
	return at, nil
}

// complete offers the values of a flag to the shell.
func complete(cmd *cobra.Command, flag string, values ...string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
}

func names[T ~string](values []T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}
