package main

import "github.com/spf13/cobra"

func newLedger(c *cli) *cobra.Command {
	return group("ledger", "Copy what is remembered, and bring it back",
		newLedgerExport(c), newLedgerImport(c), newLedgerSkip(c))
}
