package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"tidings/cmd/internal/api"
)

func newMessages(c *cli) *cobra.Command {
	return group("messages", "Single messages of events", newMessagesRetry(c))
}

// retry is the command that tries one message again.
type retry struct {
	tenant, reason string
	wait, yes      bool
}

func newMessagesRetry(c *cli) *cobra.Command {
	var r retry
	cmd := &cobra.Command{
		Use: "retry EVENT MESSAGE", Short: "Try one message again that failed or is uncertain",
		Args: exactly("the key or id of an event", "the id of one of its messages"),
		Long: `Opens an event that has ended again for one message alone: the others stay as
they ended. The ids of its messages are in tidings events show. An uncertain
message may have been received already, so it asks first.`,
		Example: "  tidings messages retry order-1042 Ue71ih1OnrGEMocH4GigqQ --reason 'the mailbox is back'",
		RunE: c.runs(func(ctx context.Context, args []string) error {
			return c.retry(ctx, args[0], args[1], r)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&r.tenant, "tenant", "", "tenant, where several use the id")
	f.StringVar(&r.reason, "reason", "", "why, for the history; needed")
	f.BoolVar(&r.yes, "yes", false, "send it also if it may have been received already")
	waitFlag(cmd, &r.wait)
	return cmd
}

func (c *cli) retry(ctx context.Context, id, message string, r retry) error {
	if r.reason == "" {
		return usage("--reason is needed: it goes into the history")
	}
	client, err := c.client()
	if err != nil {
		return err
	}
	found, err := client.Event(ctx, id, r.tenant)
	if err != nil {
		return withHint(err, "tidings events list")
	}
	key := string(found.Event.Key)
	if m := messageOf(found, message); m != nil && m.State == api.MessageUncertain {
		question := fmt.Sprintf("%s to %s may have been received already. Send it again?", m.Channel, m.Recipient.Mask)
		goOn, err := c.confirm(ctx, consent{yes: r.yes}, question)
		if err != nil || !goOn {
			return err
		}
		r.yes = true
	}
	done, err := client.RetryMessage(ctx, found.Event.Key, message, r.reason, r.yes)
	if err != nil {
		return withHint(err, "tidings events show "+key)
	}
	return c.opened(ctx, client, done, r.wait)
}

func messageOf(e api.Event, id string) *api.Message {
	for i, m := range e.Messages {
		if m.ID == id {
			return &e.Messages[i]
		}
	}
	return nil
}
