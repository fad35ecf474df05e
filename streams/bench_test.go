package streams_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"tidings/streams"
	"tidings/streams/event"
	"tidings/streams/streamstest"
)

// 512 callers at once, as many as the dispatcher has workers in strict durability.
func BenchmarkAppend(b *testing.B) {
	for name, opt := range durabilities() {
		b.Run(name, func(b *testing.B) {
			l := streamstest.New(b, opt)
			var n atomic.Int64
			b.SetParallelism(256)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					r := claim(ref(fmt.Sprint(n.Add(1))), event.State{})
					if _, err := l.Outcomes.Append(b.Context(), r, 0); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}

func BenchmarkPublish(b *testing.B) {
	for name, opt := range durabilities() {
		b.Run(name, func(b *testing.B) {
			l := streamstest.New(b, opt)
			data := make([]byte, 512)
			var n atomic.Int64
			b.SetParallelism(256)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					e := order(fmt.Sprint(n.Add(1)))
					e.Data = data
					if _, err := l.Events.Publish(b.Context(), streams.Incoming{Envelope: e}); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}

func BenchmarkFollow(b *testing.B) {
	l := streamstest.New(b)
	const n = 2000
	for i := range n {
		_, err := l.Outcomes.Append(b.Context(), claim(ref(fmt.Sprint(i)), event.State{}), 0)
		require.NoError(b, err)
	}
	for b.Loop() {
		read := 0
		err := l.Outcomes.Follow(b.Context(), 1, func(streams.Entry) error {
			if read++; read == n {
				return streams.ErrNotFound // anything: enough
			}
			return nil
		})
		require.Equal(b, streams.ErrNotFound, err)
	}
	b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "entries/s")
}
