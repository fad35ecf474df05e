package main

import (
	"strings"

	"github.com/spf13/cobra"
)

const about = `Tidings takes business events from RabbitMQ and turns each into its
notifications once, with proof.

Data goes to stdout and messages to stderr. Exit codes: 0 done, 1 failed,
2 wrong usage, 3 not found, 4 refused or in conflict.

The commands ask a running tidings over HTTP. It is found by --url, TIDINGS_URL
or the configuration, else at http://127.0.0.1:8420. The token is that of
--token, --token-file, TIDINGS_TOKEN or the configuration, else the one that
the process keeps in its data directory.`

// newRoot returns the whole command line.
func newRoot(c *cli) *cobra.Command {
	root := &cobra.Command{
		Use: "tidings", Short: "Events from RabbitMQ to notifications, once, with proof", Long: about,
		SilenceErrors: true, SilenceUsage: true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: false},
		Version:           thisBuild().String(),
	}
	root.SetVersionTemplate("{{.Version}}\n")
	flags := root.PersistentFlags()
	flags.StringVar(&c.url, "url", "", "URL of a running tidings (TIDINGS_URL)")
	flags.StringVar(&c.token, "token", "", "its token (TIDINGS_TOKEN); others on this machine may see it here")
	flags.StringVar(&c.tokenFile, "token-file", "", "file with its token (TIDINGS_TOKEN_FILE)")
	flags.StringVar(&c.configPath, "config", "", "configuration file (TIDINGS_CONFIG)")
	flags.StringVar(&c.data, "data", "", "data directory (TIDINGS_DATA)")
	flags.StringVar(&c.operator, "operator", "", "who does this, for the history (TIDINGS_OPERATOR); you at this host, if not set")
	flags.BoolVar(&c.json, "json", false, "print JSON; of serve: write the log as JSON on a terminal too")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage("%s\nsee: %s --help", err, cmd.CommandPath())
	})
	root.AddCommand(commands(c)...)
	return root
}

// commands returns the commands in the order in which help lists them.
func commands(c *cli) []*cobra.Command {
	return []*cobra.Command{
		newServe(c),
		newConfig(c),
		newDemo(c),
		newPublish(c),
		newEvents(c),
		newDeadLetters(c),
		newMessages(c),
		newTemplates(c),
		newReplays(c),
		newLedger(c),
		newStatus(c),
		newRecover(c),
		newBench(c),
		newHealthcheck(c),
		newVersion(c),
	}
}

// group returns a command that only holds others.
func group(use, short string, subs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short,
		RunE: func(cmd *cobra.Command, args []string) error {
			var names []string
			for _, s := range cmd.Commands() {
				names = append(names, s.Name())
			}
			if len(args) > 0 {
				return usage("%s has no command %q: it has %s", cmd.CommandPath(), args[0], strings.Join(names, ", "))
			}
			return usage("%s needs one of the commands %s", cmd.CommandPath(), strings.Join(names, ", "))
		},
	}
	cmd.AddCommand(subs...)
	return cmd
}

// atMostOne wants an argument or none.
func atMostOne(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return usage("%s takes %s or nothing", cmd.CommandPath(), name)
		}
		return nil
	}
}

// exactly wants n arguments, named for the message.
func exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == len(names):
			return nil
		case len(names) == 0:
			return usage("%s takes no arguments, and %q is one", cmd.CommandPath(), args[0])
		}
		return usage("%s takes %s, and nothing else", cmd.CommandPath(), strings.Join(names, " and "))
	}
}
