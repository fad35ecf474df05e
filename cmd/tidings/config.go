package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"tidings/cmd/internal/config"
	"tidings/docs"
)

func newConfig(c *cli) *cobra.Command {
	return group(
		"config", "Check the configuration, show it, put it in force",
		newConfigCheck(c), newConfigPrint(c), newConfigSchema(c), newConfigReload(c),
	)
}

func newConfigCheck(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "check [FILE]", Short: "Say everything that is wrong with a configuration", Args: atMostOne("the file"),
		Long: `Looks at a configuration as serve would, with the environment, and starts
nothing: keys and values, expressions, templates, contracts, files of secrets and
certificates. FILE is that of --config if it is not given.

Problems are a line each on stderr, with line and column, and the exit code is 2.
What is allowed but hardly meant is a warning, and the exit code stays 0.`,
		RunE: c.runs(func(_ context.Context, args []string) error { return c.configCheck(args) }),
	}
}

func (c *cli) configCheck(args []string) error {
	if len(args) > 0 {
		c.configPath = args[0]
	}
	report := config.Report{}
	conf, err := c.config()
	if err != nil {
		report = config.Unreadable(err)
	} else {
		report = conf.Check()
	}
	if c.json {
		err = c.printJSON(report)
	} else {
		err = c.printCheck(report)
	}
	if err == nil && !report.Valid {
		return &exit{code: exitUsage}
	}
	return err
}

func (c *cli) printCheck(r config.Report) error {
	for _, p := range r.Problems {
		p.Place = p.Exact()
		c.message("%s", p)
	}
	for _, w := range r.Warnings {
		c.message("warning: %s", w)
	}
	if !r.Valid {
		return nil
	}
	_, err := fmt.Fprintf(c.out, "valid: %s, %s, %s; revision %s\n",
		several(r.Routes, "route"), several(r.Channels, "channel"), several(r.Tenants, "tenant"), r.Revision)
	return err
}

func several(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func newConfigPrint(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "print", Short: "Show the configuration in force, and where each value comes from", Args: exactly(),
		Long: `Shows the configuration as serve would have it here, from defaults, file,
environment and flags, without its secrets. Behind each value stands where it
comes from. It is not checked. With --json: the configuration, and the sources by key.`,
		RunE: c.runs(func(context.Context, []string) error { return c.configPrint() }),
	}
}

func (c *cli) configPrint() error {
	conf, err := c.config()
	if err != nil {
		return err
	}
	if !c.json {
		return conf.Print(c.out)
	}
	explained, err := conf.Explain()
	return errors.Join(err, c.printJSON(explained))
}

func newConfigSchema(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of the configuration file, for editors", Args: exactly(),
		Long: `Prints the JSON Schema (draft 2020-12) of the configuration file. Editors complete
and check by it when the file begins with:

  # yaml-language-server: $schema=config.schema.json`,
		RunE: c.runs(func(context.Context, []string) error {
			_, err := fmt.Fprint(c.out, docs.ConfigSchema)
			return err
		}),
	}
}

func newConfigReload(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "reload", Short: "Have a running tidings read its configuration anew", Args: exactly(),
		Long: `Has a running tidings read its configuration anew, with its templates, contracts
and files of secrets, and put it in force, as SIGHUP does. Everything is checked
first: where something is wrong nothing changes, and the exit code is 2. What
takes a restart is refused by name, with 4. Events in hand are finished by what
was in force before.`,
		RunE: c.runs(func(ctx context.Context, _ []string) error { return c.configReload(ctx) }),
	}
}

func (c *cli) configReload(ctx context.Context) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	done, err := client.ReloadConfiguration(ctx)
	if err != nil {
		return err
	}
	if c.json {
		return c.printJSON(done)
	}
	for _, w := range done.Warnings {
		c.message("warning: %s", w)
	}
	changed := "nothing"
	if len(done.Changed) > 0 {
		changed = strings.Join(done.Changed, ", ")
	}
	return c.fields("changed", changed, "revision", done.Revision, "before", done.Before)
}
