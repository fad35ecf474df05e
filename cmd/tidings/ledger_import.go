package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"tidings/cmd/internal/app"
	"tidings/cmd/internal/config"
	"tidings/streams/archive"
)

func newLedgerImport(c *cli) *cobra.Command {
	var may consent
	cmd := &cobra.Command{
		Use: "import FILE", Short: "Bring an export into a new data directory", Args: exactly("a file"),
		Long: `Brings all of an export into the log of a data directory (--data) that never held
anything, or of an external NATS server. Tidings must not run there. The file is
read to its end and checked before anything is written. If it is cut off, run the
same command again: it goes on where it was, and until it is done tidings does not
start there.

Entries keep their sequences, and the time at which they were stored counts as it
did; but the horizon, after which they are forgotten, begins anew.

Copy recipients.key from the old data directory too, before the first start: without
it recipients of old and new events are not the same. Events that were under way are
not in an export: let the old instance finish them, or they become dead letters.`,
		Example: "  tidings ledger import tidings.jsonl.zst --data /var/lib/tidings --dry-run",
		RunE:    c.runs(func(ctx context.Context, args []string) error { return c.ledgerImport(ctx, args[0], may) }),
	}
	may.flags(cmd)
	return cmd
}

func (c *cli) ledgerImport(ctx context.Context, name string, may consent) error {
	conf, err := c.config()
	if err != nil {
		return err
	}
	logger, err := c.logger("warn")
	if err != nil {
		return err
	}
	check := c.pace("checked bytes:")
	file, err := archive.Check(ctx, name, func(read, size int64) { check(uint64(read), uint64(size)) })
	if err != nil {
		return notThere(err)
	}
	say := c.pace("imported")
	plan, done, err := app.Import(ctx, app.ImportOptions{
		Config: conf, Logger: logger, File: file, Progress: say,
		Confirm: func(ctx context.Context, p app.ImportPlan) (bool, error) {
			if err := c.toImport(file, conf, p, may); err != nil {
				return false, err
			}
			return c.confirm(ctx, may, "Import it?")
		},
	})
	if err != nil && ctx.Err() != nil {
		return errors.New("interrupted: run the same command again, which goes on there")
	}
	if err != nil {
		return err
	}
	return c.imported(file, plan, done)
}

// toImport says what would be done.
func (c *cli) toImport(f *archive.File, conf config.Config, p app.ImportPlan, may consent) error {
	h, end := f.Header(), f.End()
	pairs := []string{"file", f.Path(), "exported", h.Created.Format(time.RFC3339) + " by tidings " + h.Tidings}
	for _, s := range end.Streams {
		what := fmt.Sprintf("%d entries", s.Entries)
		if s.Entries > 0 {
			what += fmt.Sprintf(", of sequences %d to %d", max(s.First, 1), s.Last)
		}
		pairs = append(pairs, s.Stream, what)
	}
	where := conf.Data
	if conf.NATS.URL != "" {
		where = conf.NATS.URL.String()
	}
	pairs = append(pairs, "large payloads", fmt.Sprint(end.Objects), "into", where)
	if n := f.Damaged(); n > 0 {
		pairs = append(pairs, "of these damaged before", fmt.Sprint(n))
	}
	if p.There > 0 {
		pairs = append(pairs, "there already", fmt.Sprintf("%d, of an import that was cut off", p.There))
	}
	if !p.Key {
		pairs = append(pairs, "missing", "recipients.key: copy it from the old data directory before the first start")
	}
	if p.Ledger {
		pairs = append(pairs, "in the way", "a ledger of another log: if it knows more, run tidings recover after this, else move it away")
	}
	return c.asking(may).fields(pairs...)
}

func (c *cli) imported(f *archive.File, plan app.ImportPlan, done bool) error {
	counts := countsOf(f.End())
	if c.json {
		return c.printJSON(struct {
			File string `json:"file"`
			fileCounts
			app.ImportPlan
			Imported bool `json:"imported"`
		}{f.Path(), counts, plan, done})
	}
	if !done {
		return nil
	}
	return c.fields("imported", fmt.Sprintf("%d entries and %d dead letters", counts.Outcomes, counts.DeadLetters),
		"now", "start tidings: it builds the ledger from them")
}
