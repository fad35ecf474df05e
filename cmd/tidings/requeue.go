package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"tidings/cmd/internal/api"
)

func newDeadLettersRequeue(c *cli) *cobra.Command {
	var reason string
	var wait, dryRun bool
	cmd := &cobra.Command{
		Use: "requeue KEY", Short: "Send again what was not delivered of a dead letter", Args: exactly("the key of a dead letter"),
		Long: `Opens the event of a dead letter again, as its next generation: what was
delivered is not sent again, and what was not keeps its id. It is in the history
with your name and the reason. The letter stays in the list until the event has
ended. If somebody else was faster, the answer says who, with exit code 4.

A delivery that could not become an event is handed in again, as its source is
configured now. If it is refused again, the answer says why, and the letter stays.`,
		Example: "  tidings deadletters requeue kfQG3b8Tn6muLHPVukv2pQ --dry-run\n" +
			"  tidings deadletters requeue kfQG3b8Tn6muLHPVukv2pQ --reason 'the partner is back' --wait",
		ValidArgsFunction: c.completeLetters,
		RunE: c.runs(func(ctx context.Context, args []string) error {
			if dryRun {
				return c.preview(ctx, api.Key(args[0]))
			}
			return c.requeue(ctx, api.Key(args[0]), reason, wait)
		}),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the history")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only say what would be sent")
	waitFlag(cmd, &wait)
	return cmd
}

// preview says what a requeue would do.
func (c *cli) preview(ctx context.Context, key api.Key) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	p, err := client.Preview(ctx, key, "*", api.Change{})
	switch {
	case err != nil:
		return withHint(err, listLettersCommand)
	case c.json:
		return c.printJSON(p)
	}
	return c.printPreview(p)
}

func waitFlag(cmd *cobra.Command, wait *bool) {
	cmd.Flags().BoolVar(wait, "wait", false, "wait until the event has ended again; exit code 1 if it is a dead letter again")
}

func (c *cli) requeue(ctx context.Context, key api.Key, reason string, wait bool) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	done, err := client.Requeue(ctx, key, reason)
	if err != nil {
		return withHint(err, listLettersCommand)
	}
	return c.opened(ctx, client, done, wait)
}

// opened says that an event is worked on again and, if that is wanted, how it ends.
func (c *cli) opened(ctx context.Context, client *api.Client, done api.Requeued, wait bool) error {
	if !wait {
		if c.json {
			return c.printJSON(done)
		}
		if done.Duplicate {
			c.message("the event was known already: nothing is sent")
		}
		if done.Admitted {
			return c.fields("taken in", string(done.Event.Key), "see", "tidings events why "+string(done.Event.Key))
		}
		return c.fields("requeued", string(done.Event.Key), "generation", strconv.Itoa(done.Generation),
			"see", "tidings events why "+string(done.Event.Key))
	}
	row, err := c.ended(ctx, client, done)
	if err != nil {
		return err
	}
	if c.json {
		err = c.printJSON(row)
	} else {
		err = c.printEvent(row)
	}
	if err == nil && row.Phase == api.PhaseDead {
		err = &exit{code: exitFailed}
	}
	return err
}

// ended waits until the generation that was opened has ended, and returns the row.
func (c *cli) ended(ctx context.Context, client *api.Client, done api.Requeued) (api.Row, error) {
	if done.Admitted {
		c.message("taken in as event %s: waiting until it has ended", done.Event.Key)
	} else {
		c.message("requeued as generation %d: waiting until it has ended", done.Generation)
	}
	for told := false; ; {
		found, err := client.Event(ctx, string(done.Event.Key), "")
		if err == nil && found.Event.Generation >= done.Generation && found.Event.Ended() {
			return found.Event, nil
		}
		if ctx.Err() != nil {
			return api.Row{}, fmt.Errorf("interrupted: the event is worked on without you\nsee: tidings events why %s", done.Event.Key)
		}
		if err != nil && codeOf(err) != exitNotFound {
			return api.Row{}, err
		}
		if err == nil && !told && found.Event.Generation >= done.Generation && found.Event.Phase == api.PhaseWaiting {
			told = true
			c.message("it waits for its next round, or for a channel that does not get through: tidings events why %s", done.Event.Key)
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// completeLetters offers the keys of the newest dead letters to the shell.
func (c *cli) completeLetters(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	client, err := c.client()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	page, err := client.DeadLetters(cmd.Context(), api.LetterQuery{})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var keys []cobra.Completion
	for _, l := range page.Items {
		keys = append(keys, cobra.CompletionWithDesc(string(l.Key), string(l.Cause)+" "+clean(l.Type)))
	}
	return keys, cobra.ShellCompDirectiveNoFileComp
}
