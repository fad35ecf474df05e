package bench

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"tidings/projector"
	"tidings/store"
)

// HeapPerID is how much of the heap is in use for each event that is remembered, by
// the embedded server and the ledger together, in bytes. What a process without any
// events uses is not counted, nor is garbage.
type HeapPerID struct {
	IDs int `json:"ids"`
	// Restarted is after a start, when nothing was read or written yet. Writing is
	// after records of other events were written and folded.
	Restarted float64 `json:"restarted"`
	Writing   float64 `json:"writing"`
}

// heaps are bytes in use.
type heaps struct {
	Restarted uint64 `json:"restarted"`
	Writing   uint64 `json:"writing"`
}

// writtenMore returns how many records are written while the memory is measured.
func (o RebuildOptions) writtenMore() int { return min(o.Records, 20_000) }

// memory measures the heap of a process that has the log and the ledger open.
func (p part) memory(ctx context.Context, log *place, done *atomic.Int64) (r partResult, err error) {
	ledger, err := store.Open(p.File, store.Options{})
	if err != nil {
		return partResult{}, err
	}
	defer func() { err = errors.Join(err, ledger.Close()) }()
	r.Heaps = &heaps{Restarted: heapInUse()}

	following, stop := context.WithCancel(ctx)
	defer stop()
	projection := projector.New(projector.Options{Outcomes: log.log.Outcomes, DeadLetters: log.log.DeadLetters, Store: ledger})
	var g errgroup.Group
	g.Go(func() error { return projection.Run(following) })
	err = log.fill(ctx, histories{seed: 2}.lines(p.More), done)
	if err == nil {
		err = projection.CaughtUp(ctx, uint64(p.Want.Records+p.More))
	}
	r.Heaps.Writing = heapInUse()
	stop()
	return r, errors.Join(err, g.Wait())
}

func heapInUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what only finalizers held
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// heapPerID compares the log and the ledger with empty ones.
func (b *rebuildBench) heapPerID(ctx context.Context) (*HeapPerID, error) {
	filled := part{Kind: partMemory, Log: b.logDir(), File: b.ledger, Want: b.want, More: b.writtenMore()}
	empty := filled
	empty.Log, empty.File, empty.Want = filepath.Join(b.dir, "empty"), filepath.Join(b.dir, "empty.db"), newContents()
	var of [2]heaps
	for i, p := range []part{filled, empty} {
		what := [2]string{"memory", "memory without events"}[i]
		r, err := b.run(ctx, p, what, p.More)
		if err != nil {
			return nil, err
		}
		of[i] = *r.Heaps
	}
	per := func(with, without uint64) float64 {
		return round((float64(with)-float64(without))/float64(b.want.events()), 1)
	}
	return &HeapPerID{
		IDs: b.want.events(), Restarted: per(of[0].Restarted, of[1].Restarted), Writing: per(of[0].Writing, of[1].Writing),
	}, nil
}
