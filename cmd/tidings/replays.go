package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tidings/cmd/internal/api"
)

func newReplays(c *cli) *cobra.Command {
	return group("replays", "Requeue dead letters in bulk",
		newReplaysStart(c), newReplaysList(c), newReplaysShow(c), newReplaysStop(c))
}

// listReplaysCommand lists what there is.
const listReplaysCommand = "tidings replays list"

func newReplaysStart(c *cli) *cobra.Command {
	var r api.ReplayRequest
	var since, until string
	var detach bool
	var may consent
	cmd := &cobra.Command{
		Use: "start", Short: "Requeue the dead letters that a filter chooses", Args: exactly(),
		Long: `Requeues the dead letters that fit every flag, the oldest first. Which they are is
frozen at the start. Each gets one generation, also when tidings is restarted
meanwhile; what was delivered is not sent again. With --canary so many go first,
and unless each of them ends well the rest stays as it is.

It shows what would be sent and asks. Then it shows how far it is; an interrupt
leaves the replay going on, tidings replays stop ends it.`,
		Example: `  tidings replays start --cause rounds_exhausted --dry-run
  tidings replays start --cause rounds_exhausted --canary 5 --rate 20 --reason 'the mail server is back'`,
	}
	f := cmd.Flags()
	f.StringVar(&r.Tenant, "tenant", "", "tenant")
	f.StringVar(&r.Cause, "cause", "", "cause")
	f.StringVar(&r.Type, "type", "", "event type")
	f.StringVar(&r.Text, "text", "", "in the detail, the id or the type, in any case")
	f.StringVar(&since, "since", "", "letters written since: a time, or how long ago, like 2h")
	f.StringVar(&until, "until", "", "letters written before: a time, or how long ago")
	f.Float64Var(&r.Rate, "rate", 0, "letters a second; 0 is as fast as it goes")
	f.IntVar(&r.Canary, "canary", 0, "so many first, and the rest only if each of them ends well")
	f.StringVar(&r.Reason, "reason", "", "why, for the histories; needed")
	f.BoolVar(&detach, "detach", false, "do not wait for the end")
	may.flags(cmd)
	complete(cmd, "cause", names(api.Causes())...)
	cmd.RunE = c.runs(func(ctx context.Context, _ []string) error {
		if err := parseTimes(since, &r.Since, until, &r.Until); err != nil {
			return err
		}
		if strings.TrimSpace(r.Reason) == "" && !may.dryRun {
			return usage("--reason is needed: it goes into the histories")
		}
		return c.startReplay(ctx, r, may, detach)
	})
	return cmd
}

func (c *cli) startReplay(ctx context.Context, r api.ReplayRequest, may consent, detach bool) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	preview, err := client.PreviewReplay(ctx, r)
	if err != nil {
		return err
	}
	if may.dryRun && c.json {
		return c.printJSON(preview)
	}
	if err := c.aboutReplay(preview, may); err != nil {
		return err
	}
	if preview.Letters == 0 {
		return &exit{code: exitNotFound, err: fmt.Errorf("no dead letter is chosen\nsee: %s", listLettersCommand)}
	}
	goOn, err := c.confirm(ctx, may, fmt.Sprintf("Requeue %d dead letters?", preview.Letters))
	if err != nil || !goOn {
		return err
	}
	made, err := client.StartReplay(ctx, r)
	if err != nil {
		return err
	}
	if !detach {
		if made, err = c.watchReplay(ctx, client, made); err != nil {
			return err
		}
	}
	return c.replay(made)
}

// aboutReplay says what a replay would do.
func (c *cli) aboutReplay(p api.ReplayPreview, may consent) error {
	pairs := []string{"dead letters", strconv.Itoa(p.Letters)}
	for _, cause := range slices.Sorted(maps.Keys(p.Causes)) {
		pairs = append(pairs, " cause "+string(cause), strconv.Itoa(p.Causes[cause]))
	}
	for _, typ := range slices.Sorted(maps.Keys(p.Types)) {
		pairs = append(pairs, " type "+clean(typ), strconv.Itoa(p.Types[typ]))
	}
	pairs = append(pairs, "looked into", fmt.Sprintf("the oldest %d", p.Looked))
	for _, would := range slices.Sorted(maps.Keys(p.Messages)) {
		pairs = append(pairs, " messages to "+strings.ReplaceAll(would, "_", " "), strconv.Itoa(p.Messages[would]))
	}
	if p.Problems > 0 {
		pairs = append(pairs, " letters that would be dead again at once", strconv.Itoa(p.Problems))
	}
	if p.Nothing > 0 {
		pairs = append(pairs, " letters that would send nothing", strconv.Itoa(p.Nothing))
	}
	for _, name := range p.Blocked {
		pairs = append(pairs, " but", blocked(name))
	}
	return c.asking(may).fields(pairs...)
}

// watchReplay shows how far a replay is until it is over. An interrupt leaves it
// going on.
func (c *cli) watchReplay(ctx context.Context, client *api.Client, r api.Replay) (api.Replay, error) {
	say := c.progress(time.Now())
	for !r.Over() {
		select {
		case <-ctx.Done():
			c.message("the replay goes on: tidings replays show %s, or stop %s", r.ID, r.ID)
			return r, nil
		case <-time.After(200 * time.Millisecond):
		}
		now, err := client.Replay(ctx, r.ID)
		if ctx.Err() != nil {
			continue
		}
		if err != nil {
			return r, err
		}
		if r = now; r.Progress.Done > 0 {
			say(r.Progress.Done, r.Order.Letters)
		}
	}
	return r, nil
}

// replay prints where a plan stands. One that the canary stopped is a failure.
func (c *cli) replay(r api.Replay) error {
	if c.json {
		return c.printJSON(r)
	}
	p := r.Progress
	err := c.fields("replay", r.ID, "stands", string(r.Phase), "why", r.Reason, "by", r.Operator,
		"wanted by", r.Order.Operator, "because", r.Order.Reason, "started", clock(r.CreatedAt),
		"letters", strconv.Itoa(r.Order.Letters), "requeued", strconv.Itoa(p.Requeued), "skipped", strconv.Itoa(p.Skipped),
		"delivered", strconv.Itoa(p.Delivered), "settled otherwise", strconv.Itoa(p.Settled),
		"dead again", strconv.Itoa(p.Dead), "waiting for another round", strconv.Itoa(p.Waiting))
	if err == nil && r.Phase == api.ReplayStopped && r.Operator == "" {
		return &exit{code: exitFailed}
	}
	return err
}

func newReplaysList(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List replays, newest first", Args: exactly(),
		RunE: c.runs(func(ctx context.Context, _ []string) error {
			client, err := c.client()
			if err != nil {
				return err
			}
			plans, err := client.Replays(ctx)
			switch {
			case err != nil:
				return err
			case c.json:
				return c.printJSON(plans)
			}
			rows := make([][]string, len(plans))
			for i, r := range plans {
				rows[i] = []string{
					clock(r.CreatedAt), r.ID, string(r.Phase), r.Order.Operator,
					fmt.Sprintf("%d/%d", r.Progress.Done, r.Order.Letters), strconv.Itoa(r.Progress.Dead), r.Order.Reason,
				}
			}
			return c.table([]string{"STARTED", "REPLAY", "STANDS", "OPERATOR", "DONE", "DEAD AGAIN", "REASON"}, rows)
		}),
	}
}

func newReplaysShow(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show where a replay stands", Args: exactly("the id of a replay"),
		RunE: c.runs(func(ctx context.Context, args []string) error {
			client, err := c.client()
			if err != nil {
				return err
			}
			r, err := client.Replay(ctx, args[0])
			if err != nil {
				return withHint(err, listReplaysCommand)
			}
			return c.replay(r)
		}),
	}
}

func newReplaysStop(c *cli) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "stop ID", Short: "Stop a replay", Args: exactly("the id of a replay"),
		Long: "Stops a replay: what is requeued stays so, the rest stays a dead letter.",
		RunE: c.runs(func(ctx context.Context, args []string) error {
			if reason == "" {
				return usage("--reason is needed: it goes into the log")
			}
			client, err := c.client()
			if err != nil {
				return err
			}
			r, err := client.StopReplay(ctx, args[0], reason)
			if err != nil {
				return withHint(err, listReplaysCommand)
			}
			return c.replay(r)
		}),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the log; needed")
	return cmd
}
