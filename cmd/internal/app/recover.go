package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"tidings/cmd/internal/config"
	"tidings/projector"
	"tidings/projector/recovery"
	"tidings/store"
	"tidings/streams"
)

// RecoverOptions say what to recover, and by whose word.
type RecoverOptions struct {
	Config   config.Config
	Logger   *slog.Logger // nil: discard
	Operator string
	Reason   string
	// Confirm is asked before anything is changed.
	Confirm func(context.Context, Findings) (bool, error)
	// Progress is told how far the comparison or the recovery is.
	Progress func(done, total int)
}

// Findings are what log and ledger do not have in common.
type Findings struct {
	recovery.Findings
	// Misfit is how the projector halts over it; empty: it does not.
	Misfit string `json:"misfit,omitempty"`
}

// Nothing reports whether log and ledger fit.
func (f Findings) Nothing() bool { return f.Misfit == "" && f.Findings.Nothing() }

// ErrNoLedger means that there is nothing to recover from.
var ErrNoLedger = errors.New("there is no ledger, so nothing beside the log is known")

// Recover gives the log what it lost and the ledger still knows, and moves the
// ledger aside so that the next start builds it anew. It returns the name of the
// file that it moved the ledger to; empty: nothing was done. It wants the data
// directory for itself: [ErrInUse].
func Recover(ctx context.Context, o RecoverOptions) (f Findings, kept string, err error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if err := o.Config.Validate(); err != nil {
		return f, "", err
	}
	dir, err := openDirectory(o.Config.Data)
	if errors.Is(err, ErrInUse) {
		return f, "", fmt.Errorf("%w: stop that one, recover, and start it again", ErrInUse)
	}
	if err != nil {
		return f, "", err
	}
	defer func() { err = errors.Join(err, dir.close()) }()
	path := dir.file(ledgerFile)
	if _, err := os.Stat(path); err != nil {
		return f, "", fmt.Errorf("%w: %w", ErrNoLedger, err)
	}
	ledger, err := store.Open(path, store.Options{})
	if err != nil {
		return f, "", err
	}
	done := false
	f, done, err = o.onLog(ctx, dir, ledger)
	if err = errors.Join(err, ledger.Close()); err != nil || !done {
		return f, "", err
	}
	kept = path + ".before-recover-" + time.Now().UTC().Format("20060102T150405")
	return f, kept, os.Rename(path, kept)
}

// onLog opens the log and recovers on it, if there is reason and consent.
func (o RecoverOptions) onLog(ctx context.Context, dir *directory, ledger *store.Store) (f Findings, done bool, err error) {
	var part logPart
	closeLog, err := part.open(ctx, o.Config, dir, o.Logger)
	if err != nil {
		return f, false, err
	}
	defer closeLog()
	log := part.get()
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	g, running := errgroup.WithContext(running)
	g.Go(func() error { return log.Run(running) })
	defer func() { stop(); err = errors.Join(err, g.Wait()) }()

	r := recovery.New(recovery.Options{
		Ledger: ledger, Outcomes: log.Outcomes, Events: log.Events, Letters: log.DeadLetters, Waker: log.Retries,
		Progress: o.Progress,
	})
	if f, err = examine(ctx, r, log, ledger); err != nil || f.Nothing() {
		return f, false, err
	}
	if goOn, err := o.Confirm(ctx, f); err != nil || !goOn {
		return f, false, err
	}
	return f, true, r.Apply(ctx, f.Findings, o.Operator, o.Reason)
}

func examine(ctx context.Context, r *recovery.Recovery, log *streams.Log, ledger *store.Store) (f Findings, err error) {
	p := projector.New(projector.Options{Outcomes: log.Outcomes, DeadLetters: log.DeadLetters, Store: ledger})
	err = p.Compare(ctx)
	if halt, ok := errors.AsType[*projector.HaltError](err); ok {
		f.Misfit, err = fmt.Sprintf("%s at sequence %d: %s", halt.Stream, halt.Sequence, halt.Detail), nil
	}
	if err != nil {
		return f, err
	}
	f.Findings, err = r.Examine(ctx)
	return f, err
}
