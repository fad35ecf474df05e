package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"tidings/cmd/internal/api"
	"tidings/cmd/internal/app"
	"tidings/streams/archive"
)

// rebuilding is what the flags of rebuild and verify say.
type rebuilding struct {
	verify, accept, offline bool
	from                    string
	may                     consent
}

func (r *rebuilding) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&r.offline, "offline", false, "work on the data directory (--data) of a tidings that does not run")
	f.StringVar(&r.from, "from", "", "fold this export in place of the log; with --offline")
}

func newLedgerRebuild(c *cli) *cobra.Command {
	r := rebuilding{may: consent{look: "without --accept"}}
	cmd := &cobra.Command{
		Use: "rebuild", Short: "Make the ledger anew from the log", Args: exactly(),
		Long: `Folds the log into a second file while the ledger serves, compares both, and puts
the second in the place of the first. Nothing is sent. If they differ it says how,
changes nothing (exit code 4) and keeps the second file for a look; --accept puts it
in place. Where the log lacks what the ledger knows it is refused in any case: see
tidings recover. An interrupt cancels it; the next one goes on where it was.`,
		Example: "  tidings ledger rebuild\n  tidings ledger rebuild --accept --yes\n  tidings ledger rebuild --offline --data /var/lib/tidings",
		RunE:    c.runs(func(ctx context.Context, _ []string) error { return c.rebuild(ctx, r) }),
	}
	r.flags(cmd)
	cmd.Flags().BoolVar(&r.accept, "accept", false, "put the new ledger in place although it differs")
	cmd.Flags().BoolVar(&r.may.yes, "yes", false, "do not ask before a difference is accepted")
	return cmd
}

func newLedgerVerify(c *cli) *cobra.Command {
	r := rebuilding{verify: true}
	cmd := &cobra.Command{
		Use: "verify", Short: "Compare the ledger with the log", Args: exactly(),
		Long: `Folds the log into a file of its own and compares the ledger with it, for all that
the log still has. It changes nothing, everything goes on meanwhile, and it may run
every night. The exit code is 4 if they differ.`,
		Example: "  tidings ledger verify --json",
		RunE:    c.runs(func(ctx context.Context, _ []string) error { return c.rebuild(ctx, r) }),
	}
	r.flags(cmd)
	return cmd
}

func (c *cli) rebuild(ctx context.Context, r rebuilding) error {
	if r.from != "" && !r.offline {
		return usage("--from is for a tidings that does not run: add --offline")
	}
	if r.accept {
		if goOn, err := c.confirm(ctx, r.may, "Put the new ledger in place whatever differs?"); err != nil || !goOn {
			return err
		}
	}
	if r.offline {
		return c.rebuildOffline(ctx, r)
	}
	client, err := c.client()
	if err != nil {
		return err
	}
	start := func() (api.Operation, error) { return client.RebuildLedger(ctx, r.accept) }
	if r.verify {
		start = func() (api.Operation, error) { return client.VerifyLedger(ctx) }
	}
	op, err := start()
	if err != nil {
		return err
	}
	if op, err = c.watchLedger(ctx, client, op); err != nil {
		return err
	}
	return c.operated(op, "")
}

// watchLedger shows how far an operation is until it is over. An interrupt cancels it.
func (c *cli) watchLedger(ctx context.Context, client *api.Client, begun api.Operation) (api.Operation, error) {
	say := c.folding()
	for asking := ctx; ; {
		select {
		case <-ctx.Done():
			var stop context.CancelFunc
			asking, stop = context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
			defer stop()
			if _, err := client.CancelLedger(asking); err != nil {
				c.message("%s", err)
			}
			return begun, errors.New("interrupted: it was cancelled; the next rebuild goes on where it was")
		case <-time.After(100 * time.Millisecond):
		}
		f, err := client.Ledger(asking)
		switch {
		case ctx.Err() != nil:
			continue
		case err != nil:
			return begun, err
		case f.Operation == nil || !f.Operation.Started.Equal(begun.Started):
			return begun, errors.New("tidings was started anew meanwhile: run the command again")
		case f.Operation.Over():
			return *f.Operation, nil
		}
		say(f.Operation.Progress)
	}
}

// folding returns what says how far it is.
func (c *cli) folding() func(api.Progress) {
	say, first, begun := c.pace("folded"), uint64(0), false
	var phase api.OperationPhase
	return func(p api.Progress) {
		if p.Phase != phase && p.Phase != api.PhaseFolding {
			c.message("%s", p.Phase)
		}
		phase = p.Phase
		if p.Phase != api.PhaseFolding || p.Total == 0 {
			return
		}
		if !begun {
			begun, first = true, p.Done
		}
		say(p.Done-min(first, p.Done), p.Total-min(first, p.Total))
	}
}

func (c *cli) rebuildOffline(ctx context.Context, r rebuilding) error {
	conf, err := c.config()
	if err != nil {
		return err
	}
	logger, err := c.logger("warn")
	if err != nil {
		return err
	}
	o := app.RebuildOptions{Config: conf, Logger: logger, Verify: r.verify, Accept: r.accept, Progress: c.folding()}
	if r.from != "" {
		check := c.pace("checked bytes:")
		if o.From, err = archive.Check(ctx, r.from, func(read, size int64) { check(uint64(read), uint64(size)) }); err != nil {
			return notThere(err)
		}
	}
	started := time.Now().UTC()
	found, kept, err := app.RebuildStopped(ctx, o)
	if err != nil && !api.Differs(err) {
		return err
	}
	op := api.Operation{Kind: api.KindRebuild, Operator: c.whoAmI(), Accept: r.accept, Started: started, Ended: time.Now().UTC(), Found: &found}
	if r.verify {
		op.Kind = api.KindVerify
	}
	op.Result = api.ResultOf(found, err)
	return c.operated(op, kept)
}

// operated prints how an operation ended. Its exit code is 4 where the ledger is not
// what the log says and stays so, or the log lacks what the ledger knows.
func (c *cli) operated(op api.Operation, kept string) error {
	if c.json {
		if err := c.printJSON(op); err != nil {
			return err
		}
	} else if err := c.outcome(op, kept); err != nil {
		return err
	}
	switch op.Result {
	case api.ResultSame, api.ResultAccepted:
		return nil
	case api.ResultDiffers:
		return &exit{code: exitRefused}
	case api.ResultRefused:
		return &exit{code: exitRefused, err: op.Err()}
	}
	return &exit{code: exitFailed, err: op.Err()}
}

func (c *cli) outcome(op api.Operation, kept string) error {
	found := op.Found
	if found == nil || op.Result != api.ResultSame && op.Result != api.ResultAccepted && op.Result != api.ResultDiffers {
		return nil
	}
	said := map[bool]string{true: "what the log says", false: "not what the log says"}
	pairs := []string{
		"ledger", said[found.Differences.None()], "entries folded", strconv.FormatUint(found.Entries, 10),
		"took", op.Ended.Sub(op.Started).Round(time.Millisecond).String(), "size", humanize.IBytes(uint64(found.Before)),
	}
	if found.Replaced {
		pairs = append(pairs, "made anew", humanize.IBytes(uint64(found.After)))
	}
	pairs = append(pairs, "the other ledger, for a look", found.Kept, "what was there before", kept, "cannot be read", found.Differences.Unreadable)
	for _, what := range slices.Sorted(maps.Keys(found.Differences.Count)) {
		pairs = append(pairs, "differences: "+what, strconv.Itoa(found.Differences.Count[what]))
	}
	if err := c.fields(pairs...); err != nil {
		return err
	}
	for _, d := range found.Differences.First {
		fmt.Fprintln(c.out, clean(d.String()))
	}
	if op.Result == api.ResultDiffers && op.Kind == api.KindRebuild {
		c.message("nothing was changed: --accept puts the new ledger in place")
	}
	return nil
}
