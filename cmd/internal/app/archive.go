package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tidings/cmd/internal/config"
	"tidings/streams"
	"tidings/streams/archive"
)

// ErrNoLog means that a data directory holds no log.
var ErrNoLog = errors.New("there is no log")

// stopped is the log of an instance that does not run, on a connection of its own.
type stopped struct {
	config config.Config
	logger *slog.Logger
	dir    *directory
}

// openStopped locks the data directory of an instance that does not run.
func openStopped(c config.Config, logger *slog.Logger, why string) (*stopped, error) {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	dir, err := openDirectory(c.Data)
	if errors.Is(err, ErrInUse) {
		return nil, fmt.Errorf("%w: stop that one first, and %s", ErrInUse, why)
	}
	if err != nil {
		return nil, err
	}
	return &stopped{config: c, logger: logger, dir: dir}, nil
}

// on calls use with a connection to the server, which runs for so long if it is ours.
func (s *stopped) on(ctx context.Context, d streams.Durability, use func(*nats.Conn) error) error {
	var part logPart
	dial, stop, err := part.reach(ctx, s.config, s.dir, d, s.logger)
	if err != nil {
		return err
	}
	defer stop()
	nc, err := dial("tidings archive")
	if err != nil {
		return err
	}
	defer nc.Close()
	return use(nc)
}

// natsDir returns the directory of the server that is ours, empty if none is.
func natsDir(c config.Config) string {
	if c.NATS.URL != "" {
		return ""
	}
	return filepath.Join(c.Data, "nats")
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// ExportStopped writes an export of the log of an instance that does not run, as
// [archive.Export] does. It returns [ErrNoLog] or [ErrInUse] where there is none.
func ExportStopped(ctx context.Context, c config.Config, logger *slog.Logger, w io.Writer, o archive.Options) (end archive.Checkpoint, err error) {
	if nats := natsDir(c); nats != "" && !exists(nats) {
		return end, fmt.Errorf("%w in %s: name the data directory with --data", ErrNoLog, c.Data)
	}
	s, err := openStopped(c, logger, "export then; or leave out --offline, which asks it")
	if err != nil {
		return end, err
	}
	defer func() { err = errors.Join(err, s.dir.close()) }()
	err = s.on(ctx, streamsOptions(c, nil).Durability, func(nc *nats.Conn) error {
		log, err := streams.OpenReading(ctx, nc, s.logger)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return fmt.Errorf("%w in %s: %w", ErrNoLog, c.Data, err)
		}
		if err != nil {
			return err
		}
		end, err = archive.Export(ctx, w, archive.Source{Outcomes: log.Outcomes, DeadLetters: log.DeadLetters, Objects: log.Oversize}, o)
		return err
	})
	return end, err
}

// ImportOptions say what to import, and where to.
type ImportOptions struct {
	Config config.Config
	Logger *slog.Logger // nil: discard
	File   *archive.File
	// Confirm is asked before anything is changed.
	Confirm func(context.Context, ImportPlan) (bool, error)
	// Progress is told how far the import is. It may be nil.
	Progress func(done, total uint64)
}

// ImportPlan is what an import finds where it is to go.
type ImportPlan struct {
	// There is how many entries are there, of an import of the same file that was cut off.
	There uint64 `json:"there"`
	// Ledger says that there is a ledger, which was folded from another log.
	Ledger bool `json:"ledger"`
	// Key says that there is the key by which recipients are recognised.
	Key bool `json:"recipients_key"`
}

// Import brings an export into the log of an instance that does not run and never
// held anything, or goes on with that where it was cut off. done is false where
// consent was not given. It returns [ErrInUse], streams.ErrNotEmpty or
// streams.ErrImporting where it is refused.
func Import(ctx context.Context, o ImportOptions) (plan ImportPlan, done bool, err error) {
	if err := o.Config.Validate(); err != nil {
		return plan, false, err
	}
	plan.Ledger = exists(filepath.Join(o.Config.Data, ledgerFile))
	plan.Key = exists(filepath.Join(o.Config.Data, recipientsKey))
	if nats := natsDir(o.Config); nats == "" || exists(nats) {
		if plan.There, err = o.look(ctx); err != nil {
			return plan, false, err
		}
	}
	if goOn, err := o.Confirm(ctx, plan); err != nil || !goOn {
		return plan, false, err
	}
	s, err := o.open()
	if err != nil {
		return plan, false, err
	}
	defer func() { err = errors.Join(err, s.dir.close()) }()
	if err := o.bring(ctx, s); err != nil {
		return plan, false, err
	}
	return plan, true, o.finish(ctx, s)
}

func (o ImportOptions) open() (*stopped, error) {
	return openStopped(o.Config, o.Logger, "import then")
}

func (o ImportOptions) look(ctx context.Context) (there uint64, err error) {
	s, err := o.open()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.dir.close()) }()
	err = s.on(ctx, streams.Relaxed, func(nc *nats.Conn) error {
		there, err = streams.CheckImport(ctx, nc, o.File.ImportOptions(streamsOptions(o.Config, s.logger)))
		return err
	})
	return there, err
}

// bring appends what is not there. Our own server need not sync each entry, since
// what a power cut takes is brought again.
func (o ImportOptions) bring(ctx context.Context, s *stopped) error {
	err := s.on(ctx, streams.Relaxed, func(nc *nats.Conn) error {
		to, err := streams.OpenImporter(ctx, nc, o.File.ImportOptions(streamsOptions(o.Config, s.logger)))
		if err != nil {
			return err
		}
		return o.File.Import(ctx, to, o.Progress)
	})
	if err == nil {
		err = syncAll(natsDir(o.Config))
	}
	return err
}

// finish makes a log of it, now that all of it is on disk.
func (o ImportOptions) finish(ctx context.Context, s *stopped) error {
	return s.on(ctx, streams.Strict, func(nc *nats.Conn) error {
		to, err := streams.OpenImporter(ctx, nc, o.File.ImportOptions(streamsOptions(o.Config, s.logger)))
		if err != nil {
			return err
		}
		return to.Finish(ctx)
	})
}

// syncAll has everything below a directory on disk when it returns.
func syncAll(dir string) error {
	if dir == "" {
		return nil
	}
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	})
}
