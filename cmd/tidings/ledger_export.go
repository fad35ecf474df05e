package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/gofrs/flock"
	"github.com/spf13/cobra"

	"tidings/cmd/internal/api"
	"tidings/cmd/internal/app"
	"tidings/streams"
	"tidings/streams/archive"
)

// partEnding is of a file that is not whole yet.
const partEnding = ".part"

func newLedgerExport(c *cli) *cobra.Command {
	var offline bool
	cmd := &cobra.Command{
		Use: "export FILE|-", Short: "Write all that the log remembers into a file", Args: exactly("a file, or - for stdout"),
		Long: `Writes every entry of OUTCOMES and DEADLETTERS that is there now into a file of
JSON Lines in zstd, as docs/archive.md describes: for a backup, for moving an
instance with tidings ledger import, or for reading it with other tools.
Tidings may go on meanwhile. It changes nothing.

The file grows as FILE.part and gets its name when it is whole. What was cut off
goes on where it was when the same command is run again.

It holds the payloads of dead letters, so only you may read it. It does not hold
events that are under way (EVENTS), nor the files of the data directory.`,
		Example: "  tidings ledger export tidings.jsonl.zst\n  tidings ledger export - | zstd -dc | head",
		RunE: c.runs(func(ctx context.Context, args []string) error {
			return c.ledgerExport(ctx, args[0], offline)
		}),
	}
	cmd.Flags().BoolVar(&offline, "offline", false, "read the data directory (--data) of a tidings that does not run")
	return cmd
}

func (c *cli) ledgerExport(ctx context.Context, name string, offline bool) error {
	write := c.exportOnline
	if offline {
		write = c.exportOffline
	}
	if name == "-" {
		if isTerminal(c.out) {
			return usage("an export is not for a terminal: name a file, or pipe it somewhere")
		}
		_, err := write(ctx, c.out, nil)
		return err
	}
	if _, err := os.Lstat(name); err == nil {
		return &exit{exitRefused, fmt.Errorf("%s is there already: choose another name, or remove it", name)}
	}
	end, err := c.exportFile(ctx, name, write)
	if err != nil {
		return err
	}
	return c.exported(name, end)
}

// exporter writes an export, or the rest of one, and returns its end.
type exporter func(ctx context.Context, w io.Writer, after *archive.Checkpoint) (archive.Checkpoint, error)

// exportFile writes an export into a file that has its name only when it is whole.
func (c *cli) exportFile(ctx context.Context, name string, write exporter) (end archive.Checkpoint, err error) {
	part := name + partEnding
	f, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE, 0o600) // payloads are nobody else's business
	if err != nil {
		return end, err
	}
	defer f.Close()
	lock := flock.New(part)
	defer lock.Close()
	if locked, err := lock.TryLock(); err != nil || !locked {
		return end, errors.Join(err, &exit{exitRefused, fmt.Errorf("another export writes %s: wait for it, or choose another name", part)})
	}
	after, whole, err := archive.Resume(f)
	switch {
	case err != nil:
		return end, fmt.Errorf("%w; if it is not wanted, remove it and begin anew", err)
	case whole:
		end = *after
	default:
		if after != nil {
			c.message("%s has %d entries: going on behind them", part, after.Entries())
		}
		if end, err = write(ctx, f, after); err != nil {
			return end, c.notWhole(f, err)
		}
	}
	return end, errors.Join(f.Sync(), f.Close(), os.Rename(part, name), syncDir(filepath.Dir(name)))
}

// notWhole says what to do about an export that was cut off, and removes one of which
// nothing came.
func (c *cli) notWhole(part *os.File, err error) error {
	if info, statErr := part.Stat(); statErr == nil && info.Size() == 0 {
		return errors.Join(err, os.Remove(part.Name()))
	}
	if errors.Is(err, archive.ErrOtherLog) || errors.Is(err, archive.ErrForgotten) || c.refusedToGoOn(err) {
		return fmt.Errorf("%w; remove %s", err, part.Name())
	}
	return fmt.Errorf("%w\n%s keeps what came: run the same command again, which goes on there", err, part.Name())
}

func (c *cli) refusedToGoOn(err error) bool {
	p, ok := errors.AsType[*api.ProblemError](err)
	return ok && (p.Name == "other-log" || p.Name == "forgotten" || p.Name == "invalid")
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// exportOnline asks a running tidings, and checks what comes.
func (c *cli) exportOnline(ctx context.Context, w io.Writer, after *archive.Checkpoint) (archive.Checkpoint, error) {
	client, err := c.client()
	if err != nil {
		return archive.Checkpoint{}, err
	}
	body, err := client.Export(ctx, after)
	if err != nil {
		return archive.Checkpoint{}, err
	}
	defer body.Close()
	from := &remembering{in: body}
	out := &remembering{out: w}
	end, err := archive.Receive(io.TeeReader(from, out), after, c.exportProgress(after))
	switch {
	case err == nil:
		return end, nil
	case ctx.Err() != nil:
		return end, context.Cause(ctx)
	case out.err != nil:
		return end, out.err
	case from.err != nil && !errors.Is(from.err, io.EOF):
		return end, fmt.Errorf("the export broke off: %w", from.err)
	}
	return end, fmt.Errorf("the export: %w", err)
}

// remembering remembers the error of what it reads or writes.
type remembering struct {
	in  io.Reader
	out io.Writer
	err error
}

func (r *remembering) Read(p []byte) (n int, err error) {
	n, r.err = r.in.Read(p)
	return n, r.err
}

func (r *remembering) Write(p []byte) (n int, err error) {
	n, r.err = r.out.Write(p)
	return n, r.err
}

func (c *cli) exportOffline(ctx context.Context, w io.Writer, after *archive.Checkpoint) (archive.Checkpoint, error) {
	conf, err := c.config()
	if err != nil {
		return archive.Checkpoint{}, err
	}
	logger, err := c.logger("warn")
	if err != nil {
		return archive.Checkpoint{}, err
	}
	say := c.exportProgress(after)
	return app.ExportStopped(ctx, conf, logger, w, archive.Options{
		Version: thisBuild().Version, After: after,
		Flush: func(p archive.Checkpoint) error { say(p); return nil },
	})
}

func (c *cli) exportProgress(after *archive.Checkpoint) func(archive.Checkpoint) {
	before := uint64(0)
	if after != nil {
		before = after.Done()
	}
	say := c.pace("exported")
	return func(p archive.Checkpoint) { say(p.Done()-min(before, p.Done()), p.Total()-min(before, p.Total())) }
}

// sayEvery is how often something long says how far it is where nobody watches.
const sayEvery = 10 * time.Second

// pace returns what says how far something long is, how fast, and when it is done: in
// place on a terminal, else in lines.
func (c *cli) pace(what string) func(done, total uint64) {
	var started, said time.Time
	var say func(done, total int)
	return func(done, total uint64) {
		now := time.Now()
		if started.IsZero() { // what was waited for before does not count
			started, said = now, now
			say = c.progress(started)
		}
		if isTerminal(c.err) {
			say(int(done), int(total))
			return
		}
		if now.Sub(said) < sayEvery {
			return
		}
		said = now
		rate := float64(done) / now.Sub(started).Seconds()
		left := time.Duration(float64(total-min(done, total)) / max(rate, 1) * float64(time.Second)).Round(time.Second)
		c.message("%s %d of %d, %.0f/s, %s left", what, done, total, rate, left)
	}
}

// exported says what is in a file now.
func (c *cli) exported(name string, end archive.Checkpoint) error {
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	counts := countsOf(end)
	if c.json {
		return c.printJSON(struct {
			File string `json:"file"`
			fileCounts
			Bytes  int64  `json:"bytes"`
			SHA256 string `json:"sha256"`
		}{name, counts, info.Size(), end.SHA256})
	}
	return c.fields("exported to", name, "entries of OUTCOMES", fmt.Sprint(counts.Outcomes),
		"dead letters", fmt.Sprint(counts.DeadLetters), "size", humanize.IBytes(uint64(info.Size())))
}

// fileCounts are what is in an export.
type fileCounts struct {
	Outcomes    uint64 `json:"outcomes"`
	DeadLetters uint64 `json:"dead_letters"`
	Objects     uint64 `json:"objects"`
}

func countsOf(end archive.Checkpoint) fileCounts {
	n := fileCounts{Objects: end.Objects}
	for _, p := range end.Streams {
		switch p.Stream {
		case streams.OutcomesStream:
			n.Outcomes = p.Entries
		case streams.DeadLettersStream:
			n.DeadLetters = p.Entries
		}
	}
	return n
}
