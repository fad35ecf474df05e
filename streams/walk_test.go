package streams_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"tidings/streams"
	"tidings/streams/event"
	"tidings/streams/streamstest"
)

func TestEventsAreWalkedBehindTheDispatcher(t *testing.T) {
	s := streamstest.NewServer(t)
	l := s.Log()
	for i := range 5 {
		_, err := l.Events.Publish(t.Context(), streams.Incoming{Envelope: order(fmt.Sprint(i)), Nonce: "n"})
		require.NoError(t, err)
	}
	nc := s.Connect()
	require.NoError(t, nc.PublishMsg(&nats.Msg{Subject: "events.foreign", Data: []byte("who wrote this?")}))
	require.NoError(t, nc.Flush())

	t.Run("nothing is handled before there is a dispatcher", func(t *testing.T) {
		handled, err := l.Events.Handled(t.Context())
		require.NoError(t, err)
		require.Zero(t, handled)
	})
	t.Run("copies come in order, in pieces, without what came before", func(t *testing.T) {
		var ids []string
		for after := uint64(0); ; {
			copies, err := l.Events.Copies(t.Context(), after, 2)
			require.NoError(t, err)
			require.LessOrEqual(t, len(copies), 2)
			if len(copies) == 0 {
				break
			}
			for _, c := range copies {
				require.Equal(t, after+1, c.Sequence)
				require.NotZero(t, c.At)
				ids, after = append(ids, c.Ref.ID), c.Sequence
			}
		}
		require.Equal(t, []string{"0", "1", "2", "3", "4", ""}, ids, "what is foreign has no ref")
	})
	t.Run("a copy tells what a delivery of it tells", func(t *testing.T) {
		copies, err := l.Events.Copies(t.Context(), 0, 1)
		require.NoError(t, err)
		stored, err := l.Events.Get(t.Context(), 1)
		require.NoError(t, err)
		require.Equal(t, stored.Ref, copies[0].Ref)
		require.Equal(t, event.Identity{}.Key(order("0")), copies[0].Ref.Key)
	})
	t.Run("handled is what was acknowledged without a gap", func(t *testing.T) {
		seen := make(chan uint64, 6)
		stop := streamstest.Run(t, func(ctx context.Context) error {
			return l.Events.Consume(ctx, streams.ConsumeOptions{Workers: 1}, func(ctx context.Context, d *streams.Delivery) {
				if d.Sequence() != 4 {
					require.NoError(t, d.Ack(ctx))
				}
				seen <- d.Sequence()
			})
		})
		for range 6 {
			<-seen
		}
		stop()
		handled, err := l.Events.Handled(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 3, handled)
	})
}
