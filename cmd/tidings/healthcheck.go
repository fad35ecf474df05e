package main

import (
	"context"

	"github.com/spf13/cobra"

	"tidings/cmd/internal/api"
)

func newHealthcheck(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "healthcheck", Short: "Exit with 0 if a running tidings is ready, else with 1", Args: exactly(),
		Long: `Asks /readyz, without a token, and exits with 0 if every part is ready. Else it
says which part is not, and why, and exits with 1. For containers and scripts.`,
		RunE: c.runs(func(ctx context.Context, _ []string) error { return c.healthcheck(ctx) }),
	}
}

func (c *cli) healthcheck(ctx context.Context) error {
	conf, err := c.config()
	if err != nil {
		return err
	}
	client := &api.Client{BaseURL: first(c.url, c.getenv("TIDINGS_URL"), urlOf(conf.API.Listen))}
	ready, err := client.Ready(ctx)
	if err != nil {
		return err
	}
	if c.json {
		if err := c.printJSON(ready); err != nil {
			return err
		}
	}
	for _, p := range ready.Parts {
		if !p.Ready && !c.json {
			c.message("%s is not ready: %s", p.Name, p.Reason)
		}
	}
	if !ready.Ready {
		return &exit{code: exitFailed}
	}
	return nil
}
