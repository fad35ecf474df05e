package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

func newLedgerSkip(c *cli) *cobra.Command {
	var reason string
	var may consent
	cmd := &cobra.Command{
		Use: "skip SEQUENCE", Short: "Pass over an entry of the log that cannot be folded",
		Args: exactly("the sequence of an entry of OUTCOMES"),
		Long: `For when the projector has halted because an entry cannot be folded: it is of a
kind that this version knows, and cannot be read, or does not follow what was
before it. The status names its sequence. The entry is shown, and stays in the log
and in the history as it is, with your name and the reason; the ledger goes on
without it, and so does every ledger that is made anew.`,
		Example: "  tidings ledger skip 4711 --dry-run\n  tidings ledger skip 4711 --reason 'written by a script of ours'",
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the log; needed")
	may.flags(cmd)
	cmd.RunE = c.runs(func(ctx context.Context, args []string) error {
		sequence, err := strconv.ParseUint(args[0], 10, 64)
		switch {
		case err != nil || sequence == 0:
			return usage("%q is no sequence: the status names it", args[0])
		case strings.TrimSpace(reason) == "" && !may.dryRun:
			return usage("--reason is needed: it goes into the log")
		}
		return c.skip(ctx, sequence, reason, may)
	})
	return cmd
}

func (c *cli) skip(ctx context.Context, sequence uint64, reason string, may consent) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	found, err := client.Unreadable(ctx, sequence)
	switch {
	case err != nil:
		return err
	case may.dryRun && c.json:
		return c.printJSON(found)
	}
	err = c.asking(may).fields("sequence", fmt.Sprint(found.Sequence), "problem", found.Problem, "event", string(found.Event),
		"kind", string(found.Kind), "subject", found.Subject, "stored at", found.StoredAt.Format(time.RFC3339), "data", shortened(found.Data))
	if err != nil {
		return err
	}
	goOn, err := c.confirm(ctx, may, "Skip this entry for good?")
	if err != nil || !goOn {
		return err
	}
	done, err := client.Skip(ctx, sequence, reason)
	switch {
	case err != nil:
		return err
	case c.json:
		return c.printJSON(done)
	}
	return c.fields("skipped", fmt.Sprint(done.Sequence), "recorded at", fmt.Sprint(done.Recorded))
}

// shownData is how much of an entry is shown.
const shownData = 1000

// shortened is the beginning of data as text.
func shortened(data []byte) string {
	if len(data) > shownData {
		return fmt.Sprintf("%s … and %d more bytes", data[:shownData], len(data)-shownData)
	}
	return string(data)
}
