package bench

import (
	"context"
	"errors"
	"os"
	"runtime/pprof"
	"sync/atomic"
	"time"

	"tidings/projector"
	"tidings/store"
	"tidings/streams"
)

// product makes a lost ledger anew, as the command does: it folds the whole log into a
// second file, and puts it in the place of the first, which has nothing.
func (p part) product(ctx context.Context, log *place, at *pace) (r partResult, err error) {
	ledger, err := store.Open(p.File, store.Options{})
	if err != nil {
		return partResult{}, err
	}
	defer func() { err = errors.Join(err, ledger.Close()) }()
	profiled, err := profile(p.CPUProfile)
	if err != nil {
		return partResult{}, err
	}
	began := time.Now()
	_, err = projector.Rebuild(ctx, projector.RebuildOptions{
		Outcomes: log.log.Outcomes, DeadLetters: log.log.DeadLetters, Store: ledger,
		Progress: func(p projector.Progress) { at.done.Store(max(at.done.Load(), int64(p.Done))) },
	})
	r.Rate = float64(p.Want.Records) / time.Since(began).Seconds()
	r.PeakRSS = peakRSS()
	at.done.Store(int64(p.Want.Records))
	if err = errors.Join(err, profiled()); err != nil {
		return partResult{}, err
	}
	at.checking.Store(true)
	if err := p.Want.check(ledger, &at.checked); err != nil {
		return partResult{}, err
	}
	r.Digest, err = ledger.Digest()
	return r, err
}

// fold follows the log until the ledger has so many records and letters.
func (p *place) fold(ctx context.Context, ledger *store.Store, records, letters uint64, done *atomic.Int64) error {
	following, stop := context.WithCancel(ctx)
	defer stop()
	projection := projector.New(projector.Options{
		Outcomes: counted{p.log.Outcomes, done}, DeadLetters: p.log.DeadLetters, Store: ledger,
	})
	ended := make(chan error, 1)
	go func() { ended <- projection.Run(following) }()
	err := projection.CaughtUp(ctx, records)
	if err == nil {
		err = projection.LettersCaughtUp(ctx, letters)
	}
	stop()
	return errors.Join(err, <-ended)
}

// counted counts the entries that are read of a stream.
type counted struct {
	projector.Stream
	done *atomic.Int64
}

// Follow implements projector.Stream.
func (c counted) Follow(ctx context.Context, from uint64, handle func(streams.Entry) error) error {
	return c.Stream.Follow(ctx, from, func(e streams.Entry) error {
		c.done.Store(max(c.done.Load(), int64(e.Sequence)))
		return handle(e)
	})
}

// profile begins a profile of the processors, unless path is empty.
func profile(path string) (end func() error, err error) {
	if path == "" {
		return func() error { return nil }, nil
	}
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return func() error { pprof.StopCPUProfile(); return file.Close() }, nil
}
