package main

import "github.com/spf13/cobra"

func newLedger(c *cli) *cobra.Command {
	return group("ledger", "Look after the ledger, copy what is remembered, and bring it back",
		newLedgerStatus(c), newLedgerRebuild(c), newLedgerVerify(c), newLedgerBackup(c),
		newLedgerExport(c), newLedgerImport(c), newLedgerSkip(c))
}
