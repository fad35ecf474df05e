package dispatcher_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"tidings/dispatcher"
	"tidings/dispatcher/channel"
	"tidings/streams"
	"tidings/streams/event"
)

func TestAConsumerThatIsReplacedByAStrangerEndsRun(t *testing.T) {
	r, _, js := newStranger(t)
	hook := r.o.Channels["hook"]
	inside := make(chan struct{})
	hook.Sender = channel.SenderFunc(func(ctx context.Context, _ channel.Message) (channel.Receipt, error) {
		close(inside)
		<-ctx.Done()
		return channel.Receipt{}, channel.Unknown(channel.CodeCanceled, nil)
	})
	hook.Policy.Timeout = 30 * time.Second
	r.o.Channels["hook"] = hook
	r.o.Consume.Drain = 50 * time.Millisecond
	d, err := dispatcher.New(r.o)
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- d.Run(r.within(30 * time.Second)) }()
	key := r.publish(r.order("1", "/ok"))
	<-inside
	ctx := r.within(20 * time.Second)
	require.NoError(t, js.DeleteConsumer(ctx, streams.EventsStream, "dispatcher"))
	_, err = js.CreateConsumer(ctx, streams.EventsStream, jetstream.ConsumerConfig{Durable: "dispatcher", AckPolicy: jetstream.AckAllPolicy})
	require.NoError(t, err)
	var drift *streams.DriftError
	require.ErrorAs(t, <-done, &drift)
	h := r.until("it waits", func(h history) bool { return h.state(key).Phase == event.PhaseWaiting })
	require.Equal(t, []string{"claimed", "planned tried:unknown waiting"}, h.facts(key))
}

func TestAStopDoesNotWaitForAStranger(t *testing.T) {
	r := newRig(t, newLog(t), nil)
	key := r.leftBehind(r.order("1", "/ok"), event.Owner{Instance: "elsewhere", Boot: "1"})
	d, err := dispatcher.New(r.o)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	require.Eventually(t, func() bool { return d.Status().InHand == 1 }, 10*time.Second, time.Millisecond)
	cancel()
	select {
	case err := <-done:
		require.NoError(t, err)
	case <-time.After(10 * time.Second):
		t.Fatal("it holds the event of a live owner while there is nothing to finish")
	}
	last, err := r.log.Outcomes.Last(r.within(5*time.Second), "acme", key)
	require.NoError(t, err)
	require.Equal(t, 1, last.Record.State.Revision)
}
