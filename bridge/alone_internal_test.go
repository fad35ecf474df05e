//go:build unix

package bridge

import (
	"context"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"tidings/streams"
)

// BenchmarkAlone is what the bridge itself costs for each message, Watermill's
// Router included: the broker and the log are there and do nothing.
//
//	go test -run '^$' -bench Alone -benchmem -cpu 1 ./bridge
func BenchmarkAlone(b *testing.B) {
	b.Run("plain", func(b *testing.B) {
		benchmarkAlone(b, amqp.Delivery{
			ContentType: "application/json", DeliveryMode: amqp.Persistent, Type: "order.placed", AppId: "shop",
			RoutingKey: "orders", ConsumerTag: "tidings", Body: []byte(`{"pad":"` + strings.Repeat("x", 502) + `"}`),
		})
	})
	b.Run("headers", func(b *testing.B) {
		benchmarkAlone(b, amqp.Delivery{
			RoutingKey: "orders", Body: []byte("no JSON"),
			Headers: amqp.Table{"event-type": "order.placed", "tenant-id": "shop", "retries": int32(1)},
		})
	})
}

func benchmarkAlone(b *testing.B, like amqp.Delivery) {
	f := &feed{b: b, like: like, room: make(chan struct{}, DefaultWindow)}
	bridge, err := New(Config{URL: "amqp://127.0.0.1/", Queue: "orders"}, NewDoor(DoorOptions{Events: noLog{}}),
		Options{Held: func(time.Duration) { f.room <- struct{}{} }})
	require.NoError(b, err)
	f.sub = bridge.subscriber()
	router, err := message.NewRouter(message.RouterConfig{}, bridge.wlog)
	require.NoError(b, err)
	router.AddConsumerHandler("bridge", "orders", f, bridge.handle)
	b.ReportAllocs()
	require.NoError(b, router.Run(b.Context()))
	require.Equal(b, uint64(b.N), bridge.Status().Acked)
}

// feed hands on b.N deliveries, a window of them at a time, as the windowed
// intake does.
type feed struct {
	b    *testing.B
	like amqp.Delivery
	sub  *subscriber
	room chan struct{} // for one more
}

func (f *feed) Subscribe(ctx context.Context, _ string) (<-chan *message.Message, error) {
	out := make(chan *message.Message)
	ss := &session{sub: f.sub, out: out, window: DefaultWindow, ended: make(chan struct{}), ctx: ctx}
	w := newWindowed(ss).(*windowed)
	for range DefaultWindow {
		f.room <- struct{}{}
	}
	go func() {
		defer close(out)
		f.b.ResetTimer()
		before := cpuTime(f.b)
		for i := range f.b.N {
			<-f.room
			d := f.like
			d.Acknowledger, d.DeliveryTag, d.MessageId = f, uint64(i+1), strconv.Itoa(i)
			w.take(ctx, d)
		}
		ss.inHand.Wait()
		f.b.StopTimer()
		f.b.ReportMetric(float64((cpuTime(f.b)-before).Nanoseconds())/float64(f.b.N), "cpu-ns/op")
	}()
	return out, nil
}

func (f *feed) Close() error                  { return nil }
func (f *feed) Ack(uint64, bool) error        { return nil }
func (f *feed) Nack(uint64, bool, bool) error { return nil }
func (f *feed) Reject(uint64, bool) error     { return nil }

// cpuTime is what this process has used of the processors so far.
func cpuTime(tb testing.TB) time.Duration {
	var u syscall.Rusage
	require.NoError(tb, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// noLog takes every event at once.
type noLog struct{}

func (noLog) Publish(context.Context, streams.Incoming) (streams.Accepted, error) {
	return streams.Accepted{}, nil
}

func (noLog) Fits(streams.Incoming) error { return nil }

func (noLog) Get(context.Context, uint64) (streams.StoredEvent, error) {
	return streams.StoredEvent{}, streams.ErrNotFound
}
