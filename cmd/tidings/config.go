package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
)

func newConfig(c *cli) *cobra.Command {
	return group(
		"config", "Check the configuration, and put it in force",
		newConfigReload(c),
	)
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
