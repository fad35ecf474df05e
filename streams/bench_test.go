package streams_test

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"tidings/streams"
	"tidings/streams/event"
	"tidings/streams/streamstest"
)

// parallel calls do with 1, 2, 3, … by 512 callers at once, as many as the
// dispatcher has workers in strict durability.
func parallel(b *testing.B, do func(n int64) error) {
	var n atomic.Int64
	b.SetParallelism(256)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := do(n.Add(1)); err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "appends/s")
}

// Conflicts are with what another process has appended, one in a hundred.
func BenchmarkAppend(b *testing.B) {
	for durability, opt := range durabilities() {
		for name, every := range map[string]int64{"clean": 0, "1 % conflicts": 100} {
			b.Run(durability+"/"+name, func(b *testing.B) {
				s := streamstest.NewServer(b, opt)
				l, other := s.Log(), s.Log()
				const taken = 16
				for i := range taken {
					_, err := other.Outcomes.Append(b.Context(), claim(ref(fmt.Sprint("taken ", i)), event.State{}), 0)
					require.NoError(b, err)
				}
				parallel(b, func(n int64) error {
					id, conflicts := fmt.Sprint(n), every > 0 && n%every == 0
					if conflicts {
						id = fmt.Sprint("taken ", n/every%taken)
					}
					_, err := l.Outcomes.Append(b.Context(), claim(ref(id), event.State{}), 0)
					if conflict := (*streams.ConflictError)(nil); conflicts && errors.As(err, &conflict) {
						return nil
					}
					return err
				})
			})
		}
	}
}

// Duplicates are one in a hundred, each of an event that this process published a
// while before.
func BenchmarkPublish(b *testing.B) {
	for durability, opt := range durabilities() {
		for name, every := range map[string]int64{"clean": 0, "1 % duplicates": 100} {
			b.Run(durability+"/"+name, func(b *testing.B) {
				l := streamstest.New(b, opt)
				data := make([]byte, 512)
				var duplicates atomic.Int64
				parallel(b, func(n int64) error {
					if every > 0 && n%every == 0 {
						n = max(1, n/2-1) // none of those
					}
					e := order(fmt.Sprint(n))
					e.Data = data
					got, err := l.Events.Publish(b.Context(), streams.Incoming{Envelope: e})
					if got.Duplicate {
						duplicates.Add(1)
					}
					return err
				})
				if every > 0 && b.N > 1000 {
					require.InEpsilon(b, b.N/int(every), duplicates.Load(), 0.2)
				}
			})
		}
	}
}

// What a lone append costs, in turn with the plain publish of the same message
// to the same stream.
func BenchmarkLone(b *testing.B) {
	for durability, opt := range durabilities() {
		b.Run(durability, func(b *testing.B) {
			s := streamstest.NewServer(b, opt)
			l := s.Log()
			js, err := jetstream.New(s.Connect())
			require.NoError(b, err)
			var ours, plain []time.Duration
			for n := range b.N {
				e := order(fmt.Sprint(n))
				e.Data = make([]byte, 512)
				begun := time.Now()
				got, err := l.Events.Publish(b.Context(), streams.Incoming{Envelope: e})
				require.NoError(b, err)
				ours = append(ours, time.Since(begun))

				stored, err := l.Events.Entry(b.Context(), got.Sequence)
				require.NoError(b, err)
				m := &nats.Msg{Subject: stored.Subject, Header: stored.Header, Data: stored.Data}
				m.Header.Set(jetstream.MsgIDHeader, fmt.Sprint("plain", n))
				begun = time.Now()
				_, err = js.PublishMsg(b.Context(), m)
				require.NoError(b, err)
				plain = append(plain, time.Since(begun))
			}
			slices.Sort(ours)
			slices.Sort(plain)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(ours[b.N/2].Microseconds()), "µs")
			b.ReportMetric(float64(plain[b.N/2].Microseconds()), "plain-µs")
			b.ReportMetric(float64(ours[b.N/2])/float64(plain[b.N/2]), "ratio")
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
