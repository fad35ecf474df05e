package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"tidings/cmd/internal/demo"
	"tidings/examples"
)

func newDemo(c *cli) *cobra.Command {
	var exitAfter bool
	cmd := &cobra.Command{
		Use:   "demo [EXAMPLE]",
		Short: "Show the main job on real parts",
		Long: `Starts a RabbitMQ node (or uses AMQP_URL), a mail catcher and an HTTP sink,
runs Tidings between them, publishes the sample events of an example over AMQP,
and shows what became of each. Nothing is left behind.

The examples are in the folder examples: shop (customers of a shop; this one if
none is named), oncall (alerts to chat, pager and mail, with a mail provider that
is down) and saas (three tenants).

Without --exit it goes on until it is interrupted, and says where to look.`,
		Args:      atMostOne("an example"),
		ValidArgs: examples.Names(),
		RunE: c.runs(func(ctx context.Context, args []string) error {
			example := examples.Names()[0]
			if len(args) > 0 {
				example = args[0]
			}
			if !slices.Contains(examples.Names(), example) {
				return usage("there is no example %q: there are %s", example, strings.Join(examples.Names(), ", "))
			}
			return c.demo(ctx, example, exitAfter)
		}),
	}
	cmd.Flags().BoolVar(&exitAfter, "exit", false, "leave when the samples have ended: 0 if every row is as expected, else 1")
	return cmd
}

func (c *cli) demo(ctx context.Context, example string, exitAfter bool) error {
	o := demo.Options{Example: example, Version: thisBuild().Version, Progress: cleaner{c.err}}
	show := func(r demo.Report) error {
		if c.json {
			return json.NewEncoder(c.out).Encode(r)
		}
		return c.printReport(r)
	}
	shown := false
	if !exitAfter {
		o.Stay = func(ctx context.Context, r demo.Report, p demo.Place) {
			shown = show(r) == nil
			c.message("\nTidings goes on until Ctrl-C. In another terminal, in this directory:\n\n%s", hint(c.self, p))
			<-ctx.Done()
		}
	}
	report, err := demo.Run(ctx, o)
	if err != nil {
		return err
	}
	if !shown {
		if err := show(report); err != nil {
			return err
		}
	}
	if !report.OK {
		c.message("%s", report.Summary())
		return &exit{code: exitFailed}
	}
	return nil
}

// hint returns commands that can be pasted into a shell. self is how the binary
// was started.
func hint(self string, p demo.Place) string {
	lines := []string{
		fmt.Sprintf("export TIDINGS_URL=%s TIDINGS_DATA=%s", shellWord(p.URL), shellWord(p.Data)),
		fmt.Sprintf("%s publish --amqp-url %s --queue %s --type order.shipped --id order-1042 --source /shop --body '%s'",
			shellWord(self), shellWord(p.AMQPURL), shellWord(p.Queue),
			`{"order":"1042","carrier":"Post","customer":{"email":"ann@example.com"}}`),
	}
	for _, command := range []string{"events list", "deadletters list", "status", "events why order-1042"} {
		lines = append(lines, shellWord(self)+" "+command)
	}
	return "  " + strings.Join(lines, "\n  ")
}

// shellWord returns a word as a shell takes it, whatever is in it.
func shellWord(word string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789%+,-./:=@_"
	if word != "" && strings.Trim(word, plain) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// printReport prints what became of each sample, the dead letters, and what was
// really received. It is for people whatever it is written to: programs have --json.
func (c *cli) printReport(r demo.Report) error {
	rows := make([][]string, len(r.Events))
	for i, e := range r.Events {
		m := e.Messages
		rows[i] = []string{
			e.Shows, e.Type, e.EventID, string(e.Outcome), inWords(m.Created, m.Delivered, m.Failed, m.Suppressed, m.Uncertain),
			strconv.Itoa(e.Tries), strconv.Itoa(e.Duplicates),
		}
	}
	if err := aligned(c.out, []string{"SAMPLE", "TYPE", "ID", "OUTCOME", "MESSAGES", "TRIES", "DUPLICATES"}, rows); err != nil {
		return err
	}
	fmt.Fprintln(c.out)
	rows = make([][]string, len(r.DeadLetters))
	for i, l := range r.DeadLetters {
		rows[i] = []string{string(l.Key), string(l.Cause), string(l.Stage), l.Detail}
	}
	if err := aligned(c.out, []string{"DEAD LETTER", "CAUSE", "STAGE", "DETAIL"}, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintf(c.out, "\nmails received: %d, webhook requests received: %d; %s\n", r.SMTPReceived, r.WebhookReceived, r.Summary())
	return err
}

// inWords says how an event's messages ended, such as "2 delivered".
func inWords(created, delivered, failed, suppressed, uncertain int) string {
	var parts []string
	for _, p := range []struct {
		n    int
		what string
	}{{delivered, "delivered"}, {failed, "failed"}, {suppressed, "suppressed"}, {uncertain, "uncertain"}} {
		if p.n > 0 {
			parts = append(parts, strconv.Itoa(p.n)+" "+p.what)
		}
	}
	if created == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}
