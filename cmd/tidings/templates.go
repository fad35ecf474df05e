package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"tidings/dispatcher/plan"
	"tidings/streams/event"
)

func newTemplates(c *cli) *cobra.Command {
	return group("templates", "The words of messages", newTemplatesLint(c), newTemplatesRender(c), newTemplatesTest(c))
}

// rulesOf returns what plans by the configuration in force. It asks nobody, and the
// hashes of recipients are not those of a data directory.
func (c *cli) rulesOf() (*plan.Planner, error) {
	conf, err := c.config()
	if err != nil {
		return nil, err
	}
	if err := conf.Validate(); err != nil {
		return nil, &exit{code: exitUsage, err: err}
	}
	return conf.Planner([]byte("nobody is told"))
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

// linted is what lint prints with --json.
type linted struct {
	OK       bool     `json:"ok"`
	Problems []string `json:"problems"`
	Warnings []string `json:"warnings"`
}

func (c *cli) lintTemplates() error {
	p, err := c.rulesOf()
	if err != nil {
		return err
	}
	problems, warnings := p.Lint()
	out := linted{OK: len(problems) == 0, Problems: []string{}, Warnings: append(append([]string{}, p.Warnings()...), warnings...)}
	for _, one := range problems {
		out.Problems = append(out.Problems, one.String())
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
	typ, part   string
	as          plan.Reader
	tenant      string
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
	f.StringVar(&r.typ, "type", "", "type of the event; that of the route, if empty")
	f.StringVar(&r.tenant, "tenant", "", "tenant")
	f.StringVar(&r.as.Address, "to", "", "who reads it; the first recipient of the event, if empty")
	f.StringVar(&r.as.Locale, "locale", "", "language of who reads it, such as pt-BR")
	f.StringVar(&r.as.Timezone, "timezone", "", "zone of who reads it, such as Europe/Berlin")
	f.StringVar(&r.part, "part", "", "only subject, text, html or body, as it is")
	f.StringVar(&r.file, "file", "", "file with the data of the event; - is stdin")
	f.StringVar(&r.body, "body", "", "the data itself")
	cmd.MarkFlagsMutuallyExclusive("file", "body")
	cmd.RunE = c.runs(func(_ context.Context, args []string) error { return c.renderTemplate(args[0], r) })
	return cmd
}

// rendered is what render prints with --json.
type rendered struct {
	Route       string `json:"route"`
	Channel     string `json:"channel"`
	Template    string `json:"template,omitempty"`
	Version     string `json:"template_version,omitempty"`
	Locale      string `json:"locale,omitempty"`
	Timezone    string `json:"timezone"`
	To          string `json:"to"`
	Subject     string `json:"subject,omitempty"`
	Text        string `json:"text,omitempty"`
	HTML        string `json:"html,omitempty"`
	Body        string `json:"body,omitempty"`
	ContentType string `json:"content_type,omitempty"` // of Body
	Degraded    string `json:"degraded,omitempty"`
}

func (c *cli) renderTemplate(route string, r rendering) error {
	data, err := c.body(r.publication)
	if err != nil {
		return err
	}
	p, err := c.rulesOf()
	if err != nil {
		return err
	}
	m, err := p.Render(route, event.Envelope{Tenant: r.tenant, Type: r.typ, Data: data}, r.as)
	if of, ok := errors.AsType[*plan.Error](err); ok {
		return fmt.Errorf("it would be a dead letter: %w", of)
	}
	if err != nil {
		return &exit{code: exitNotFound, err: err}
	}
	out := rendered{
		Route: m.Route, Channel: m.Channel, Template: m.Template, Version: m.Version, Locale: m.Locale, Timezone: m.Zone.String(),
		To: m.Address, Subject: m.Content.Subject, Text: m.Content.Text, HTML: m.Content.HTML,
		Body: string(m.Content.Body), ContentType: m.Content.ContentType, Degraded: m.Degraded,
	}
	switch {
	case r.part != "":
		return c.printPart(out, r.part)
	case c.json:
		return c.printJSON(out)
	}
	return c.printRendered(out)
}

func (c *cli) printPart(m rendered, part string) error {
	words, known := map[string]string{"subject": m.Subject, "text": m.Text, "html": m.HTML, "body": m.Body}[part]
	if !known {
		return usage("--part %q: it is subject, text, html or body", part)
	}
	_, err := fmt.Fprint(c.out, words)
	return err
}

func (c *cli) printRendered(m rendered) error {
	err := c.fields("route", m.Route, "channel", m.Channel, "template", m.Template, "locale", m.Locale, "timezone", m.Timezone,
		"to", m.To, "subject", m.Subject, "content type", m.ContentType, "degraded", m.Degraded)
	for _, words := range []string{m.Text, m.HTML, m.Body} {
		if words != "" && err == nil {
			_, err = fmt.Fprintf(cleaner{c.out}, "\n%s\n", strings.TrimRight(words, "\n"))
		}
	}
	return err
}
