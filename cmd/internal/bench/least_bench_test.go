//go:build unix

package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"tidings/bridge/bridgetest"
	"tidings/streams"
)

// BenchmarkLeast is the least that an event costs with two records beside it, so
// that what the product does can be held against it: consume, append a claim that
// expects to be the first, call the provider, append the result on top, acknowledge.
// Nothing is decoded, decided, signed or folded, and there is no ledger.
//
//	go test -run '^$' -bench Least -benchtime 20000x ./cmd/internal/bench
func BenchmarkLeast(b *testing.B) {
	b.Run("amqp", func(b *testing.B) { benchmarkLeast(b, true) })
	b.Run("jetstream", func(b *testing.B) { benchmarkLeast(b, false) })
}

// leastWorkers are as many as the product has in hand for one channel.
const leastWorkers = 256

func benchmarkLeast(b *testing.B, fromAMQP bool) {
	b.StopTimer()
	p, err := openPlace(b.Context(), streams.Relaxed)
	require.NoError(b, err)
	defer p.close()
	receiver, err := startReceiver(b.N)
	require.NoError(b, err)
	defer func() { require.NoError(b, receiver.close()) }()
	bring := leastIntake(b, p, fromAMQP)
	l, err := newLeast(b.Context(), p, receiver.url, b.N)
	require.NoError(b, err)

	ctx, cancel := context.WithCancel(b.Context())
	g, ctx := errgroup.WithContext(ctx)
	before, began := cpuTime(b), time.Now()
	b.StartTimer()
	g.Go(func() error { return bring(ctx) })
	g.Go(func() error { defer cancel(); return l.run(ctx) })
	err = g.Wait()
	b.StopTimer()
	b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
	b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "events/s")
	require.NoError(b, err)
	require.Equal(b, b.N, receiver.count())
}

// leastIntake fills a queue and returns the bare loop over it, or fills EVENTS.
func leastIntake(b *testing.B, p *place, fromAMQP bool) func(context.Context) error {
	silent := func(func() int) func() { return func() {} }
	if !fromAMQP {
		running, stop := context.WithCancel(b.Context())
		var g errgroup.Group
		g.Go(func() error { return p.log.Run(running) })
		in := newStored(p.log)
		require.NoError(b, in.fill(b.Context(), b.N, silent))
		stop()
		require.NoError(b, g.Wait())
		return in.run
	}
	url := bridgetest.Private(b).URL()
	q, err := newQueue(url)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, q.remove()) })
	require.NoError(b, q.fill(b.Context(), b.N, dispatchSize, silent))
	return func(ctx context.Context) error {
		return bare(ctx, url, q.name, dispatchWindow, p, newMeter(b.N))
	}
}

// least is the loop under measurement.
type least struct {
	js       jetstream.JetStream
	consumer jetstream.Consumer
	client   *http.Client
	url      string
	left     atomic.Int64
	finished chan struct{}
}

func newLeast(ctx context.Context, p *place, url string, count int) (*least, error) {
	js, err := jetstream.New(p.nc, jetstream.WithPublishAsyncMaxPending(4000))
	if err != nil {
		return nil, err
	}
	c, err := js.CreateConsumer(ctx, streams.EventsStream, jetstream.ConsumerConfig{Name: "least", AckPolicy: jetstream.AckExplicitPolicy})
	l := &least{
		js: js, consumer: c, url: url, finished: make(chan struct{}),
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: leastWorkers}},
	}
	l.left.Store(int64(count))
	return l, err
}

// run returns when all events are done.
func (l *least) run(ctx context.Context) error {
	defer l.client.CloseIdleConnections()
	jobs := make(chan jetstream.Msg, 2*leastWorkers)
	consuming, err := l.consumer.Consume(func(m jetstream.Msg) { jobs <- m }, jetstream.PullMaxMessages(2*leastWorkers))
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	for range leastWorkers {
		g.Go(func() error {
			for {
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-l.finished:
					return nil
				case m := <-jobs:
					if err := l.one(ctx, m); err != nil {
						return err
					}
				}
			}
		})
	}
	err = g.Wait()
	consuming.Stop()
	return err
}

// Sizes of the records of an event with one message.
var claim, result = bytes.Repeat([]byte("c"), 900), bytes.Repeat([]byte("r"), 1300)

func (l *least) one(ctx context.Context, m jetstream.Msg) error {
	meta, err := m.Metadata()
	if err != nil {
		return err
	}
	key := fmt.Sprintf("%022d", meta.Sequence.Stream)
	claimed, err := l.append(key, claim, 0)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.url, bytes.NewReader(m.Data()))
	if err != nil {
		return err
	}
	req.Header.Set(standardwebhooks.HeaderWebhookID, key)
	res, err := l.client.Do(req)
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	if _, err := l.append(key, result, claimed); err != nil {
		return err
	}
	if l.left.Add(-1) == 0 {
		close(l.finished)
	}
	return m.Ack()
}

// append appends a record that expects the one at after to be the last of its key.
func (l *least) append(key string, data []byte, after uint64) (uint64, error) {
	future, err := l.js.PublishMsgAsync(&nats.Msg{
		Subject: "outcomes.default." + key, Data: data,
		Header: nats.Header{jetstream.ExpectedLastSubjSeqHeader: {strconv.FormatUint(after, 10)}},
	})
	if err != nil {
		return 0, err
	}
	select {
	case ack := <-future.Ok():
		return ack.Sequence, nil
	case err := <-future.Err():
		return 0, err
	}
}
