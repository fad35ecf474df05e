package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// consent is how a command that cannot be undone is allowed to go on.
type consent struct {
	yes    bool   // --yes
	dryRun bool   // --dry-run
	look   string // what shows it and does nothing; empty: with --dry-run
}

func (s *consent) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&s.yes, "yes", false, "do not ask")
	f.BoolVar(&s.dryRun, "dry-run", false, "only say what would be done")
	cmd.MarkFlagsMutuallyExclusive("yes", "dry-run")
}

// asking returns where to show what is about to be done: on stderr, before the
// question, or on stdout if that is all that was asked for and no JSON is there.
func (c *cli) asking(s consent) *cli {
	shown := *c
	if !s.dryRun || c.json {
		shown.out = c.err
	}
	return &shown
}

// confirm asks the person at the keyboard, and reports whether to go on. Where
// nobody is there it wants to be told by --yes.
func (c *cli) confirm(ctx context.Context, s consent, question string) (bool, error) {
	switch {
	case s.dryRun:
		c.message("a dry run: nothing was done")
		return false, nil
	case s.yes:
		return true, nil
	case !isKeyboard(c.in):
		return false, usage("nobody is there to ask: %s Say --yes, or look first %s", question, cmp.Or(s.look, "with --dry-run"))
	}
	fmt.Fprintf(c.err, "%s [y/N] ", clean(question))
	said := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(c.in).ReadString('\n')
		said <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case word := <-said:
		if word == "y" || word == "yes" {
			return true, nil
		}
		c.message("nothing was done")
		return false, &exit{code: exitFailed}
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// isKeyboard reports whether a person can type into r.
func isKeyboard(r any) bool {
	f, ok := r.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
