package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"tidings/cmd/internal/app"
)

// shownLost is how many lost events are listed.
const shownLost = 20

func newRecover(c *cli) *cobra.Command {
	var reason string
	var may consent
	cmd := &cobra.Command{
		Use: "recover", Short: "Give the log back what it lost and the ledger knows", Args: exactly(),
		Long: `For when the log lost its end or a part of it, and Tidings says that log and
ledger do not fit: after a power cut, damage, or a backup that is older than the
ledger. Stop tidings first. Every event whose last record is not in the log gets
one that says where it stood by the ledger: what was delivered is not sent again,
and the history says who did this and why. Gaps that remain are passed over from
then on. The ledger is moved aside and built anew at the next start.

A backup of the log that is younger than the damage is better: look for one first.`,
		Example: "  tidings recover --dry-run\n  tidings recover --reason 'power cut of 3 May'",
		RunE:    c.runs(func(ctx context.Context, _ []string) error { return c.recover(ctx, reason, may) }),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the log; needed")
	may.flags(cmd)
	return cmd
}

func (c *cli) recover(ctx context.Context, reason string, may consent) error {
	if reason == "" && !may.dryRun {
		return usage("--reason is needed: it goes into the log")
	}
	conf, err := c.config()
	if err != nil {
		return err
	}
	logger, err := c.logger("warn")
	if err != nil {
		return err
	}
	found, kept, err := app.Recover(ctx, app.RecoverOptions{
		Config: conf, Logger: logger, Operator: c.whoAmI(), Reason: reason, Progress: c.progress(time.Now()),
		Confirm: func(ctx context.Context, f app.Findings) (bool, error) {
			if err := c.findings(f, may); err != nil {
				return false, err
			}
			return c.confirm(ctx, may, "Give the log what it lost?")
		},
	})
	switch {
	case err != nil:
		return err
	case c.json:
		return c.printJSON(struct {
			app.Findings
			Ledger string `json:"ledger_kept_as,omitempty"`
		}{found, kept})
	case found.Nothing():
		return c.fields("log and ledger", fmt.Sprintf("fit: %d events were compared", found.Looked))
	case kept == "":
		return nil
	}
	return c.fields("recovered", fmt.Sprintf("%d events", len(found.Lost)),
		"the old ledger", kept, "now", "start tidings: it builds the ledger anew, and goes on")
}

// findings says what would be done.
func (c *cli) findings(f app.Findings, may consent) error {
	pairs := []string{"misfit", f.Misfit, "events compared", fmt.Sprint(f.Looked), "events that the log lost", fmt.Sprint(len(f.Lost))}
	for i, row := range f.Lost {
		if i == shownLost {
			pairs = append(pairs, " ", fmt.Sprintf("and %d more", len(f.Lost)-i))
			break
		}
		pairs = append(pairs, " "+string(row.Key), fmt.Sprintf("%s %s of tenant %s: %s %s", row.Type, row.EventID, row.Tenant, row.Phase, row.Outcome))
	}
	for _, g := range f.Gaps {
		pairs = append(pairs, "to be passed over", g.String()+" of OUTCOMES")
	}
	if n := len(f.Unlettered); n > 0 {
		pairs = append(pairs, "dead letters to be written again", fmt.Sprint(n))
	}
	return c.asking(may).fields(pairs...)
}

// progress returns what says on a terminal how far something long is, at most
// twice a second.
func (c *cli) progress(started time.Time) func(done, total int) {
	if !isTerminal(c.err) {
		return func(int, int) {}
	}
	said := started
	return func(done, total int) {
		if time.Since(said) < time.Second/2 && done < total {
			return
		}
		said = time.Now()
		rate := float64(done) / said.Sub(started).Seconds()
		left := time.Duration(float64(total-done) / rate * float64(time.Second)).Round(time.Second)
		fmt.Fprintf(c.err, "\r%d of %d, %.0f/s, %s left \x1b[K", done, total, rate, left)
		if done == total {
			fmt.Fprintln(c.err)
		}
	}
}
