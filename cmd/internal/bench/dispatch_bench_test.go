//go:build unix

package bench

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/streams"
)

// BenchmarkDispatch is what the command measures from EVENTS to the ledger, one
// measurement at a time and with what the processors did in this process, provider
// included, for a look inside:
//
//	go test -run '^$' -bench 'Dispatch/relaxed' -benchtime 10000x -benchmem -cpuprofile cpu.out ./cmd/internal/bench
func BenchmarkDispatch(b *testing.B) {
	for _, mode := range []streams.Durability{streams.Relaxed, streams.Strict} {
		b.Run(mode.String(), func(b *testing.B) { benchmarkDispatch(b, mode) })
	}
}

func benchmarkDispatch(b *testing.B, mode streams.Durability) {
	b.StopTimer()
	w, err := openWhole(b.Context(), streams.Options{Durability: mode}, b.N)
	require.NoError(b, err)
	defer func() { require.NoError(b, w.close()) }()
	in := newStored(w.log)
	require.NoError(b, in.fill(b.Context(), b.N, func(func() int) func() { return func() {} }))

	before, began := cpuTime(b), time.Now()
	b.StartTimer()
	err = w.work(b.Context(), in.run, func(ctx context.Context) error { return w.settled(ctx, b.N) })
	b.StopTimer()
	b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
	b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "events/s")
	require.NoError(b, err)
	_, err = w.lives(b.N)
	require.NoError(b, err)
}
