package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"tidings/cmd/internal/api"
)

func newDeadLettersDiscard(c *cli) *cobra.Command {
	var reason string
	var filter letterFilter
	var all bool
	var may consent
	cmd := &cobra.Command{
		Use: "discard [KEY]", Short: "End dead letters for good: one, or those that a filter chooses",
		Args: atMostOne("the key of a dead letter"),
		Long: `Ends a dead letter for good: nothing more is sent of it, and its payload is
deleted. The history of an event stays, with your name and the reason.

Without a key it ends those that fit every flag and that nobody has requeued. It
shows how many they are, and asks.`,
		Example: "  tidings deadletters discard kfQG3b8Tn6muLHPVukv2pQ --reason 'a test order'\n" +
			"  tidings deadletters discard --cause undecodable --until 720h --reason 'nobody missed them'",
		ValidArgsFunction: c.completeLetters,
	}
	f := cmd.Flags()
	f.StringVar(&reason, "reason", "", "why, for the history; needed")
	f.BoolVar(&all, "all", false, "all dead letters, where no other flag chooses")
	filter.flags(cmd)
	may.flags(cmd)
	cmd.RunE = c.runs(func(ctx context.Context, args []string) error {
		q, err := filter.query()
		switch {
		case err != nil:
			return err
		case strings.TrimSpace(reason) == "" && !may.dryRun:
			return usage("--reason is needed: it goes into the history")
		case len(args) == 1 && (all || !filter.empty()):
			return usage("a key and a filter exclude each other")
		case len(args) == 1:
			return c.discard(ctx, api.Key(args[0]), reason, may)
		case filter.empty() && !all:
			return usage("which ones? Give a key, or choose them with --cause, --type, --text …, or --all")
		}
		return c.discardMany(ctx, q, reason, may)
	})
	return cmd
}

func (c *cli) discard(ctx context.Context, key api.Key, reason string, may consent) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	letter, tag, err := client.TaggedLetter(ctx, key)
	if err != nil {
		return withHint(err, listLettersCommand)
	}
	if may.dryRun && c.json {
		return c.printJSON(letter)
	}
	if err := c.asking(may).fields(letterFields(letter)...); err != nil {
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
