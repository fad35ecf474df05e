package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"tidings/cmd/internal/api"
)

func newLedgerStatus(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show how far the ledger is, and what is being done with it", Args: exactly(),
		RunE: c.runs(func(ctx context.Context, _ []string) error {
			client, err := c.client()
			if err != nil {
				return err
			}
			f, err := client.Ledger(ctx)
			switch {
			case err != nil:
				return err
			case c.json:
				return c.printJSON(f)
			}
			return c.ledgerStatus(f)
		}),
	}
}

func (c *cli) ledgerStatus(f api.LedgerFile) error {
	pairs := []string{"schema", strconv.Itoa(f.Schema), "size", humanize.IBytes(uint64(f.Bytes))}
	for _, at := range f.Checkpoints {
		pairs = append(pairs, at.Stream, "folded up to "+strconv.FormatUint(at.Sequence, 10))
	}
	if o := f.Operation; o != nil {
		pairs = append(pairs, string(o.Kind), "by "+o.Operator+" at "+clock(o.Started))
		if o.Over() {
			pairs = append(pairs, " ended", string(o.Result)+" at "+clock(o.Ended), " error", o.Error)
		} else {
			left := time.Duration(o.Left * float64(time.Second)).Round(time.Second)
			pairs = append(pairs, " "+string(o.Phase), fmt.Sprintf("%d of %d, %.0f/s, %s left", o.Done, o.Total, o.Rate, left))
		}
		if o.Found != nil && !o.Found.Differences.None() {
			pairs = append(pairs, " differences", o.Found.Differences.String())
		}
	}
	return c.fields(pairs...)
}

func newLedgerBackup(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "backup FILE", Short: "Copy the file of the ledger while tidings runs", Args: exactly("a file"),
		Long: `Copies the ledger as of one moment into a file, which has its name when it is whole
and checked. It can be put in the place of ledger.db of a tidings that does not run:
the next start goes on from there. The log is not in it: see tidings ledger export.`,
		RunE: c.runs(func(ctx context.Context, args []string) error { return c.ledgerBackup(ctx, args[0]) }),
	}
}

func (c *cli) ledgerBackup(ctx context.Context, name string) (err error) {
	client, err := c.client()
	if err != nil {
		return err
	}
	saved, err := client.SaveLedger(ctx, name, c.pace("copied bytes:"))
	if errors.Is(err, fs.ErrExist) {
		return &exit{exitRefused, fmt.Errorf("%s is there already: choose another name, or remove it", name)}
	}
	if err != nil {
		return err
	}
	if c.json {
		return c.printJSON(struct {
			File string `json:"file"`
			api.SavedLedger
		}{name, saved})
	}
	pairs := []string{"copied to", name, "size", humanize.IBytes(uint64(saved.Bytes)), "digest", saved.Digest}
	for _, at := range saved.Checkpoints {
		pairs = append(pairs, at.Stream, "folded up to "+strconv.FormatUint(at.Sequence, 10))
	}
	return c.fields(pairs...)
}
