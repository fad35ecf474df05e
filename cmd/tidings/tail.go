package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
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
		Example: "  tidings events tail --final\n  tidings events tail --after 0 --kind dead --json\n  tidings events tail --outcome failed,suppressed --tenant shop",
	}
	f := cmd.Flags()
	f.StringVar(&q.After, "after", "end", "an id or sequence, 0 for the beginning, or end")
	f.StringVar(&q.Tenant, "tenant", "", "tenant")
	f.StringVar(&q.Type, "type", "", "event type")
	f.StringVar(&key, "key", "", "key of an event")
	f.StringSliceVar(&q.Kinds, "kind", nil, "opened, claimed, waiting, settled, dead, late, duplicate, operation, replay or skip; several separated by commas")
	f.StringSliceVar(&q.Outcomes, "outcome", nil, "processed, failed, suppressed, no_recipient, no_template, stale or duplicate; several separated by commas")
	f.BoolVar(&q.Final, "final", false, "only how events end")
	f.IntVar(&limit, "limit", 0, "end after so many entries; 0 is never")
	complete(cmd, "kind", names(api.RecordKinds())...)
	complete(cmd, "outcome", names(api.RecordOutcomes())...)
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
	if isTerminal(c.out) && !c.json {
		fmt.Fprintln(c.out, inColumns([]string{"AT", "KEY", "TENANT", "TYPE", "ID", "KIND", "CAME OF IT"}))
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
	row, err := entryRow(f)
	if err != nil {
		return fmt.Errorf("entry %s: %w", f.ID, err)
	}
	line := joined(row)
	if isTerminal(c.out) {
		line = inColumns(strings.Split(line, "\t"))
	}
	_, err = fmt.Fprintln(c.out, line)
	return err
}

// inColumns aligns a row with others that are not known yet: what is wider than is
// usual moves the rest of its line.
func inColumns(row []string) string {
	var b strings.Builder
	for i, width := range []int{20, 22, 10, 18, 16, 9, 0} {
		fmt.Fprintf(&b, "%-*s  ", width, row[i])
	}
	return strings.TrimRight(b.String(), " ")
}

// entryRow is an entry in a line: when, the key of what it is about, tenant, type, id,
// the kind, and what came of it. An operation is about the event that a delivery has
// become, or else about its letter; an entry of a replay plan is about the plan.
func entryRow(f api.Followed) ([]string, error) {
	var r struct {
		At     time.Time
		Tenant string
		Event  json.RawMessage // of an operation it is a key alone
		State  struct{ Outcome string }
		Action string
		Letter struct{ Key string }
		Replay string
		Step   string
	}
	if err := json.Unmarshal(f.Data, &r); err != nil {
		return nil, err
	}
	var key string
	var e struct{ Key, Tenant, Type, ID string }
	if len(r.Event) > 0 && json.Unmarshal(r.Event, &key) != nil {
		if err := json.Unmarshal(r.Event, &e); err != nil {
			return nil, err
		}
	}
	about := cmp.Or(e.Key, key, r.Letter.Key, r.Replay)
	came := cmp.Or(r.State.Outcome, r.Action, r.Step)
	return []string{clock(r.At), about, cmp.Or(e.Tenant, r.Tenant), e.Type, e.ID, string(f.Kind), came}, nil
}
