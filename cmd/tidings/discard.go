package main

import (
	"context"

	"github.com/spf13/cobra"

	"tidings/cmd/internal/api"
)

func newDeadLettersDiscard(c *cli) *cobra.Command {
	var reason string
	var may consent
	cmd := &cobra.Command{
		Use: "discard KEY", Short: "End a dead letter for good", Args: exactly("the key of a dead letter"),
		Long: `Ends a dead letter for good: nothing more is sent of it, and its payload is
deleted. The history of an event stays, with your name and the reason.`,
		Example:           "  tidings deadletters discard kfQG3b8Tn6muLHPVukv2pQ --reason 'a test order'",
		ValidArgsFunction: c.completeLetters,
		RunE: c.runs(func(ctx context.Context, args []string) error {
			return c.discard(ctx, api.Key(args[0]), reason, may)
		}),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the history; needed")
	may.flags(cmd)
	return cmd
}

func (c *cli) discard(ctx context.Context, key api.Key, reason string, may consent) error {
	if reason == "" && !may.dryRun {
		return usage("--reason is needed: it goes into the history")
	}
	client, err := c.client()
	if err != nil {
		return err
	}
	letter, tag, err := client.TaggedLetter(ctx, key)
	if err != nil {
		return withHint(err, listLettersCommand)
	}
	if err := c.about(letter); err != nil {
		return err
	}
	goOn, err := c.confirm(ctx, may, "Discard this dead letter for good?")
	if err != nil || !goOn {
		return err
	}
	done, err := client.Discard(ctx, key, tag, reason)
	switch {
	case err != nil:
		return withHint(err, listLettersCommand)
	case c.json:
		return c.printJSON(done)
	}
	return c.fields("discarded", string(done.Key))
}

// about says on stderr which letter something is about to be done to.
func (c *cli) about(l api.Letter) error {
	shown := *c
	shown.out = c.err
	return shown.fields(letterFields(l)...)
}
