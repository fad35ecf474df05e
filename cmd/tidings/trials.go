package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"tidings/cmd/internal/api"
)

// trial is a test on its way.
type trial struct {
	publication // for its payload
	test        api.Test
	at          string
	dryRun      bool
	wait        bool
}

func newEventsTest(c *cli) *cobra.Command {
	var t trial
	cmd := &cobra.Command{
		Use: "test", Short: "Send an event as a test, to one address only", Args: exactly(),
		Long: `Sends an event the whole way, to one address: it is stored, claimed, planned,
sent and recorded, but every message goes to --to, and none to the recipients
that its data names. It is marked as a test in the ledger, and counted apart.

The same --id is sent once. --dry-run shows the messages and sends nothing.`,
		Example: "  tidings events test --id try-1 --type order.placed --to me@example.com --file order.json",
	}
	t.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&t.test.Type, "type", "", "type of the event, such as order.placed")
	f.StringVar(&t.test.Channel, "channel", "", "only routes on this channel")
	f.StringVar(&t.test.Subject, "subject", "", "subject of the event")
	f.StringVar(&t.test.CorrelationID, "correlation-id", "", "correlation id")
	f.StringVar(&t.at, "time", "", "when it occurred: a time (RFC 3339), how long ago (2h), or now")
	for _, name := range []string{"id", "type", "to"} {
		_ = cmd.MarkFlagRequired(name) // the flag is there
	}
	cmd.MarkFlagsOneRequired("file", "body")
	cmd.RunE = c.runs(func(ctx context.Context, _ []string) error { return c.tryOut(ctx, t) })
	return cmd
}

func newTemplatesTest(c *cli) *cobra.Command {
	var t trial
	cmd := &cobra.Command{
		Use: "test ROUTE", Short: "Show the message of a route or, with --to, send it there",
		Args: exactly("the name of a route"),
		Long: `Shows what the template of a route writes for --file or --body or, without
them, for the sample beside it, _sample.json. Nothing is sent.

With --to it is sent to that address, as a test: it goes the whole way, whatever
the route's condition says. --dry-run only shows it.`,
		Example: "  tidings templates test order-shipped\n  tidings templates test order-shipped --to me@example.com",
	}
	t.flags(cmd)
	cmd.Flags().StringVar(&t.test.Type, "type", "", "type of the event, where the route is for several")
	cmd.RunE = c.runs(func(ctx context.Context, args []string) error {
		t.test.Route = args[0]
		t.dryRun = t.dryRun || t.test.To == ""
		return c.tryOut(ctx, t)
	})
	return cmd
}

// flags are those of both commands.
func (t *trial) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&t.test.ID, "id", "", "id of the test: the same id is sent once")
	f.StringVar(&t.test.To, "to", "", "the one address: a mailbox, or the URL of a webhook")
	f.StringVar(&t.test.Tenant, "tenant", "", "tenant")
	f.StringVar(&t.test.ContentType, "content-type", "application/json", "content type of the body")
	f.StringVar(&t.file, "file", "", "file with the body; - is stdin")
	f.StringVar(&t.body, "body", "", "the body itself")
	f.BoolVar(&t.dryRun, "dry-run", false, "show the messages, and send nothing")
	f.BoolVar(&t.wait, "wait", false, "wait until the test has ended; exit code 1 if it is a dead letter")
	cmd.MarkFlagsMutuallyExclusive("file", "body")
	cmd.MarkFlagsMutuallyExclusive("dry-run", "wait")
}

func (c *cli) tryOut(ctx context.Context, t trial) error {
	var err error
	if t.test.OccurredAt, err = parseOccurred(t.at); err != nil {
		return err
	}
	if t.file != "" || t.body != "" {
		body, err := c.body(t.publication)
		if err != nil {
			return err
		}
		t.test.DataBase64 = &body
	}
	client, err := c.client()
	if err != nil {
		return err
	}
	if t.dryRun {
		return c.previewTest(ctx, client, t.test)
	}
	accepted, err := client.Test(ctx, t.test)
	switch {
	case err != nil:
		return err
	case accepted.Quarantined != "":
		return quarantined(accepted)
	case t.wait:
		return c.tested(ctx, client, accepted)
	case c.json:
		return c.printJSON(accepted)
	case accepted.Duplicate:
		c.message("the test was sent before: nothing is sent now")
	}
	return c.fields("test", string(accepted.Key), "to", t.test.To, "see", "tidings events why "+string(accepted.Key))
}

// tested waits until the test has ended, and says how.
func (c *cli) tested(ctx context.Context, client *api.Client, a api.Accepted) error {
	done := api.Requeued{Admitted: true, Duplicate: a.Duplicate}
	done.Event.Key = a.Key
	if a.Duplicate {
		c.message("the test was sent before: nothing is sent now")
	}
	return c.opened(ctx, client, done, true)
}

func (c *cli) previewTest(ctx context.Context, client *api.Client, t api.Test) error {
	preview, err := client.PreviewTest(ctx, t)
	switch {
	case err != nil:
		return err
	case c.json:
		err = c.printJSON(preview)
	default:
		err = c.printTest(preview)
	}
	if err == nil && preview.Problem != "" {
		err = &exit{code: exitFailed, err: fmt.Errorf("it would be a dead letter: %s", preview.Problem)}
	}
	return err
}

// printTest shows the messages as a reader gets them.
func (c *cli) printTest(p api.TestPreview) error {
	for i, m := range p.Messages {
		if i > 0 {
			fmt.Fprintln(c.out)
		}
		err := c.fields("route", m.Route, "channel", m.Channel, "template", m.Template, "locale", m.Locale, "to", m.To,
			"subject", m.Subject, "content type", m.ContentType)
		if err != nil {
			return err
		}
		for _, words := range []string{m.Text, m.HTML, m.Body} {
			if words == "" {
				continue
			}
			if _, err := fmt.Fprintf(cleaner{c.out}, "\n%s\n", strings.TrimRight(words, "\n")); err != nil {
				return err
			}
		}
	}
	if len(p.Messages) == 0 && p.Problem == "" {
		fmt.Fprintln(cleaner{c.out}, "nothing would be sent: "+string(p.Nothing))
	}
	for _, r := range p.Routes {
		if r.Verdict != "planned" {
			fmt.Fprintf(cleaner{c.out}, "route %q: %s: %s\n", r.Route, r.Verdict, r.Detail)
		}
	}
	return nil
}
