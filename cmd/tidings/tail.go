package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"tidings/cmd/internal/api"
)

func newEventsTail(c *cli) *cobra.Command {
	var q api.RecordQuery
	var key string
	var limit int
	cmd := &cobra.Command{
		Use: "tail", Short: "Follow what becomes of events", Args: exactly(),
		Long: `Shows what is decided and done from now on, or from the place that --after names,
as it happens. It goes on after a restart of tidings. With --json each line is an
entry as docs/records.md describes it, with the id to go on from.`,
		Example: "  tidings events tail --final\n  tidings events tail --after 0 --kind dead --json",
	}
	f := cmd.Flags()
	f.StringVar(&q.After, "after", "end", "an id or sequence, 0 for the beginning, or end")
	f.StringVar(&q.Tenant, "tenant", "", "tenant")
	f.StringVar(&q.Type, "type", "", "event type")
	f.StringVar(&key, "key", "", "key of an event")
	f.StringSliceVar(&q.Kinds, "kind", nil, "opened, claimed, waiting, settled, dead, late, duplicate or operation; several separated by commas")
	f.BoolVar(&q.Final, "final", false, "only how events end")
	f.IntVar(&limit, "limit", 0, "end after so many entries; 0 is never")
	cmd.RunE = c.runs(func(ctx context.Context, _ []string) error {
		q.Key = api.Key(key)
		return c.tail(ctx, q, limit)
	})
	return cmd
}

// errEnough ends a tail that was to be so long.
var errEnough = errors.New("enough")

func (c *cli) tail(ctx context.Context, q api.RecordQuery, limit int) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	shown := 0
	err = client.Follow(ctx, q, func(f api.Followed) error {
		if err := c.followed(f); err != nil {
			return err
		}
		if shown++; shown == limit {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// followed prints an entry.
func (c *cli) followed(f api.Followed) error {
	if c.json {
		line, err := json.Marshal(f)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(c.out, "%s\n", line)
		return err
	}
	var r struct {
		At    time.Time
		Event struct{ Key, Tenant, Type, ID string }
		State struct {
			Outcome  api.Outcome
			Phase    api.Phase
			Messages []api.Message
		}
	}
	if err := json.Unmarshal(f.Data, &r); err != nil {
		return fmt.Errorf("entry %s: %w", f.ID, err)
	}
	_, err := fmt.Fprintln(c.out, joined([]string{
		clock(r.At), r.Event.Key, r.Event.Tenant, r.Event.Type, r.Event.ID, string(f.Kind), string(r.State.Outcome),
	}))
	return err
}
