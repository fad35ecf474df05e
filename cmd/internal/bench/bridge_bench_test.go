//go:build unix

package bench

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/bridge/bridgetest"
	"tidings/streams"
)

// BenchmarkBridge is what the command measures, one measurement at a time and
// with what the processors did in this process, for a look inside:
//
//	go test -run '^$' -bench 'Bridge/relaxed/product' -benchtime 30000x -benchmem -cpuprofile cpu.out ./cmd/internal/bench
func BenchmarkBridge(b *testing.B) {
	for _, mode := range []streams.Durability{streams.Relaxed, streams.Strict} {
		b.Run(mode.String()+"/product", func(b *testing.B) { benchmarkLoop(b, mode, product) })
		b.Run(mode.String()+"/bare", func(b *testing.B) { benchmarkLoop(b, mode, bare) })
	}
}

type loop = func(context.Context, string, string, int, *place, *meter) error

func benchmarkLoop(b *testing.B, mode streams.Durability, run loop) {
	b.StopTimer()
	url := bridgetest.Private(b).URL()
	silent := func(func() int) func() { return func() {} }
	q, err := newQueue(url)
	require.NoError(b, err)
	defer func() { require.NoError(b, q.remove()) }()
	require.NoError(b, q.fill(b.Context(), b.N, 512, silent))
	p, err := openPlace(b.Context(), mode)
	require.NoError(b, err)
	defer p.close()
	m := newMeter(b.N)

	before := cpuTime(b)
	b.StartTimer()
	err = until(b.Context(), m, silent, func(ctx context.Context) error { return run(ctx, url, q.name, 256, p, m) })
	b.StopTimer()
	b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
	b.ReportMetric(m.result().rate, "msg/s")
	require.NoError(b, err)
	require.NoError(b, p.holds(b.Context(), b.N))
}

// cpuTime is what this process has used of the processors so far.
func cpuTime(tb testing.TB) time.Duration {
	var u syscall.Rusage
	require.NoError(tb, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
