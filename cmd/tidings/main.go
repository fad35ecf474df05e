// Tidings takes business events from RabbitMQ and turns each into its
// notifications once, with proof. This is its one binary: the service, and the
// commands that ask it.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// run executes one command line and returns the exit code. The first interrupt
// asks the command to end; the second ends the process at once.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)

	c := &cli{in: stdin, out: stdout, err: stderr, environ: os.Environ(), self: os.Args[0]}
	root := newRoot(c)
	root.SetArgs(keysLast(args))
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err != nil && err.Error() != "" {
		fmt.Fprintln(stderr, "tidings:", clean(err.Error(), '\n', '\t'))
	}
	return exitCode(err)
}
