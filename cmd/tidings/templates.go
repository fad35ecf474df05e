package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"tidings/cmd/internal/config"
)

func newTemplates(c *cli) *cobra.Command {
	return group("templates", "The words of messages", newTemplatesLint(c), newTemplatesRender(c), newTemplatesTest(c))
}

func newTemplatesLint(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "lint", Short: "Write every template for its sample, and say which fail", Args: exactly(),
		Long: `Writes the template of every route, of everybody and of tenants that have one of
their own, in every language, for the sample beside it, _sample.json, which must
keep its contract too. It asks no tidings and sends nothing.

A template without a sample is a warning. The exit code is 1 if any fails.`,
		Example: "  tidings templates lint --config tidings.yaml",
		RunE:    c.runs(func(context.Context, []string) error { return c.lintTemplates() }),
	}
}

func (c *cli) lintTemplates() error {
	conf, err := c.config()
	if err != nil {
		return err
	}
	out, err := conf.LintTemplates()
	if err != nil {
		return &exit{code: exitUsage, err: err}
	}
	if c.json {
		if err := c.printJSON(out); err != nil {
			return err
		}
	} else {
		for _, w := range out.Warnings {
			c.message("warning: %s", w)
		}
		for _, one := range out.Problems {
			fmt.Fprintln(cleaner{c.out}, one)
		}
	}
	if !out.OK {
		return &exit{code: exitFailed}
	}
	return nil
}

// rendering is a message that is only looked at.
type rendering struct {
	publication // for its payload
	of          config.Rendering
	only        string // part
}

func newTemplatesRender(c *cli) *cobra.Command {
	var r rendering
	cmd := &cobra.Command{
		Use: "render ROUTE", Short: "Write the message of a route, by the files alone", Args: exactly("the name of a route"),
		Long: `Writes what a route says about an event, whatever its condition says: for --file
or --body or, without them, for the sample beside its template. It reads the
configuration and the templates, asks no tidings and sends nothing.`,
		Example: "  tidings templates render order-shipped --locale de --timezone Europe/Berlin\n" +
			"  tidings templates render order-shipped --part html > order.html",
	}
	f := cmd.Flags()
	f.StringVar(&r.of.Type, "type", "", "type of the event; that of the route, if empty")
	f.StringVar(&r.of.Tenant, "tenant", "", "tenant")
	f.StringVar(&r.of.To, "to", "", "who reads it; the first recipient of the event, if empty")
	f.StringVar(&r.of.Locale, "locale", "", "language of who reads it, such as pt-BR")
	f.StringVar(&r.of.Timezone, "timezone", "", "zone of who reads it, such as Europe/Berlin")
	f.StringVar(&r.only, "part", "", "only subject, text, html or body, as it is")
	f.StringVar(&r.file, "file", "", "file with the data of the event; - is stdin")
	f.StringVar(&r.body, "body", "", "the data itself")
	cmd.MarkFlagsMutuallyExclusive("file", "body")
	cmd.RunE = c.runs(func(_ context.Context, args []string) error {
		r.of.Route = args[0]
		return c.renderTemplate(r)
	})
	return cmd
}

func (c *cli) renderTemplate(r rendering) error {
	conf, err := c.config()
	if err != nil {
		return err
	}
	if r.of.Data, err = c.body(r.publication); err != nil {
		return err
	}
	m, err := conf.RenderTemplate(r.of)
	switch {
	case errors.Is(err, config.ErrDeadLetter):
		return err
	case errors.Is(err, config.ErrNoRoute):
		return &exit{code: exitNotFound, err: err}
	case err != nil:
		return &exit{code: exitUsage, err: err}
	case r.only != "":
		return c.printPart(m, r.only)
	case c.json:
		return c.printJSON(m)
	}
	return c.printRendered(m)
}

func (c *cli) printPart(m config.Rendered, part string) error {
	words, known := map[string]string{"subject": m.Subject, "text": m.Text, "html": m.HTML, "body": m.Body}[part]
	if !known {
		return usage("--part %q: it is subject, text, html or body", part)
	}
	_, err := fmt.Fprint(c.out, words)
	return err
}

func (c *cli) printRendered(m config.Rendered) error {
	err := c.fields("route", m.Route, "channel", m.Channel, "template", m.Template, "locale", m.Locale, "timezone", m.Timezone,
		"to", m.To, "subject", m.Subject, "content type", m.ContentType, "degraded", m.Degraded)
	for _, words := range []string{m.Text, m.HTML, m.Body} {
		if words != "" && err == nil {
			_, err = fmt.Fprintf(cleaner{c.out}, "\n%s\n", strings.TrimRight(words, "\n"))
		}
	}
	return err
}
