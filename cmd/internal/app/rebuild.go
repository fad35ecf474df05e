package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tidings/cmd/internal/config"
	"tidings/projector"
	"tidings/store"
	"tidings/streams"
	"tidings/streams/archive"
)

// RebuildOptions say what of an instance that does not run is to be made anew.
type RebuildOptions struct {
	Config config.Config
	Logger *slog.Logger // nil: discard
	// From is an export to fold in place of the log; nil: the log of the instance.
	From   *archive.File
	Verify bool // compare only
	Accept bool // put the new ledger in place although it differs
	// Progress is told how far it is. It may be nil.
	Progress func(projector.Progress)
}

// ErrOldExport means that an export ends before what the ledger knows.
var ErrOldExport = errors.New("the export ends before the ledger: export the log again")

// Misfit reports whether an error says that the log lacks what the ledger knows.
func Misfit(err error) bool {
	_, halt := errors.AsType[*projector.HaltError](err)
	return halt
}

// RebuildStopped makes the ledger of an instance that does not run anew, or compares
// it, as [projector.Rebuild] and [projector.Verify] do. A file that is damaged or of
// another schema is no ledger to compare with: with Accept it is moved aside, to the
// name that is returned, and another one made. Errors: those of the projector,
// [ErrInUse], [ErrNoLog], [ErrNoLedger] of a comparison, [ErrOldExport].
func RebuildStopped(ctx context.Context, o RebuildOptions) (found projector.Rebuilt, kept string, err error) {
	if dir := natsDir(o.Config); o.From == nil && dir != "" && !exists(dir) {
		return found, "", fmt.Errorf("%w in %s: name the data directory with --data", ErrNoLog, o.Config.Data)
	}
	path := filepath.Join(o.Config.Data, ledgerFile)
	if o.Verify && !exists(path) {
		return found, "", fmt.Errorf("%w: there is none at %s", ErrNoLedger, path)
	}
	s, err := openStopped(o.Config, o.Logger, "do it then; or leave out --offline, which asks it")
	if err != nil {
		return found, "", err
	}
	defer func() { err = errors.Join(err, s.dir.close()) }()
	ledger, kept, err := o.ledger(path)
	if err != nil {
		return found, "", err
	}
	defer func() { err = errors.Join(err, ledger.Close()) }()
	if o.From != nil {
		found, err = o.rebuild(ctx, ledger, o.From.Outcomes(), o.From.DeadLetters())
		if halt, ok := errors.AsType[*projector.HaltError](err); ok && halt.Reason == projector.ReasonLostTail {
			err = fmt.Errorf("%w (%s)", ErrOldExport, halt.Detail)
		}
		return found, kept, err
	}
	err = s.on(ctx, streamsOptions(o.Config, nil).Durability, func(nc *nats.Conn) error {
		log, err := streams.OpenReading(ctx, nc, s.logger)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return fmt.Errorf("%w in %s: %w", ErrNoLog, o.Config.Data, err)
		}
		if err != nil {
			return err
		}
		found, err = o.rebuild(ctx, ledger, log.Outcomes, log.DeadLetters)
		return err
	})
	return found, kept, err
}

// ledger opens the ledger, or a new one where that is no ledger any more.
func (o RebuildOptions) ledger(path string) (s *store.Store, kept string, err error) {
	s, err = store.Open(path, store.Options{})
	if !errors.Is(err, store.ErrDamaged) && !errors.Is(err, store.ErrSchema) || !o.Accept || o.Verify {
		return s, "", err
	}
	kept = path + ".before-rebuild-" + time.Now().UTC().Format("20060102T150405")
	if err := os.Rename(path, kept); err != nil {
		return nil, "", fmt.Errorf("move the ledger aside: %w", err)
	}
	s, err = store.Open(path, store.Options{})
	return s, kept, err
}

func (o RebuildOptions) rebuild(ctx context.Context, ledger *store.Store, outcomes, letters projector.Stream) (projector.Rebuilt, error) {
	do := projector.Rebuild
	if o.Verify {
		do = projector.Verify
	}
	return do(ctx, projector.RebuildOptions{
		Outcomes: outcomes, DeadLetters: letters, Store: ledger, Accept: o.Accept, Logger: o.Logger, Progress: o.Progress,
	})
}
