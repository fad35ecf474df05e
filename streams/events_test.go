package streams_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/streams"
	"tidings/streams/event"
	"tidings/streams/streamstest"
)

func order(id string) event.Envelope {
	return event.Envelope{
		Tenant: "acme", Source: "shop", ID: id, IDSource: event.IDMessageID, Type: "order.placed",
		OccurredAt:  time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC),
		ContentType: "application/json", Data: []byte(`{"n":1}`),
	}
}

func TestEvents(t *testing.T) {
	for name, opt := range durabilities() {
		t.Run(name, func(t *testing.T) {
			l := streamstest.New(t, opt)
			t.Run("a published event is stored as it was", func(t *testing.T) {
				in := streams.Incoming{Envelope: order("1"), Nonce: "n1", Headers: []byte(`{"a": 1}`)}
				got, err := l.Events.Publish(t.Context(), in)
				require.NoError(t, err)
				require.False(t, got.Duplicate)
				require.Equal(t, event.Identity{}.Key(in.Envelope), got.Key)

				stored, err := l.Events.Get(t.Context(), got.Sequence)
				require.NoError(t, err)
				require.Equal(t, in.Envelope, stored.Envelope)
				require.Equal(t, "n1", stored.Nonce)
				require.JSONEq(t, `{"a":1}`, string(stored.Headers))
				require.Equal(t, got.Key, stored.Ref.Key)
				require.Equal(t, got.Sequence, stored.Ref.Sequence)
				require.Equal(t, event.Digest(in.Envelope.Data), stored.Ref.Digest)
				require.WithinDuration(t, time.Now(), stored.Ref.ReceivedAt, time.Minute)
			})
			t.Run("the same id again is a duplicate of the first copy", func(t *testing.T) {
				first, err := l.Events.Publish(t.Context(), streams.Incoming{Envelope: order("2"), Nonce: "a"})
				require.NoError(t, err)
				again, err := l.Events.Publish(t.Context(), streams.Incoming{Envelope: order("2"), Nonce: "b", Again: true})
				require.NoError(t, err)
				require.Equal(t, streams.Accepted{Key: first.Key, Sequence: first.Sequence, Duplicate: true}, again)
				stored, err := l.Events.Get(t.Context(), again.Sequence)
				require.NoError(t, err)
				require.Equal(t, "a", stored.Nonce)
			})
			t.Run("an event of neither id nor time is keyed by content and sequence", func(t *testing.T) {
				in := streams.Incoming{Envelope: event.Envelope{Tenant: "acme", Type: "disk.full", Data: []byte("x")}}
				first, err := l.Events.Publish(t.Context(), in)
				require.NoError(t, err)
				hash := event.ContentHash("acme", "", "disk.full", []byte("x"))
				require.Equal(t, event.ContentKey(hash, first.Sequence), first.Key)
				again, err := l.Events.Publish(t.Context(), in)
				require.NoError(t, err)
				require.True(t, again.Duplicate)
				require.Equal(t, first.Key, again.Key)
				stored, err := l.Events.Get(t.Context(), first.Sequence)
				require.NoError(t, err)
				require.Equal(t, first.Key, stored.Ref.Key)
				require.Equal(t, event.IDContent, stored.Ref.IDSource)
			})
		})
	}
}

func durabilities() map[string]streamstest.Option {
	return map[string]streamstest.Option{
		"strict":  streamstest.Strict,
		"relaxed": func(*streams.Options) {},
	}
}

func TestEventsOfTheLargestPayloadAreFollowedAndConsumed(t *testing.T) {
	l := streamstest.New(t)
	const n = 5 // more than is taken at a time
	for i := range n {
		e := order(fmt.Sprint(i))
		e.Data = make([]byte, streams.MaxData)
		_, err := l.Events.Publish(t.Context(), streams.Incoming{Envelope: e})
		require.NoError(t, err)
	}
	enough := errors.New("enough")
	err := l.Events.Follow(t.Context(), 1, func(e streams.Entry) error {
		require.Len(t, e.Data, streams.MaxData)
		if e.Sequence == n {
			return enough
		}
		return nil
	})
	require.Equal(t, enough, err)

	ctx, stop := context.WithCancel(t.Context())
	var handled atomic.Int32
	require.NoError(t, l.Events.Consume(ctx, streams.ConsumeOptions{Workers: 8}, func(ctx context.Context, d *streams.Delivery) {
		if err := d.Ack(ctx); err != nil {
			t.Errorf("ack: %v", err)
		}
		if handled.Add(1) == n {
			stop()
		}
	}))
}

func TestTrimRemovesWhatIsBefore(t *testing.T) {
	l := streamstest.New(t)
	publish(t, l, "1", "2", "3")
	require.NoError(t, l.Events.Trim(t.Context(), 3))
	_, err := l.Events.Get(t.Context(), 2)
	require.ErrorIs(t, err, streams.ErrNotFound)
	_, err = l.Events.Get(t.Context(), 3)
	require.NoError(t, err)
	info, err := l.Events.Info(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 3, info.First)
}

func TestTrimBeforeTheFirstRemovesNothing(t *testing.T) {
	l := streamstest.New(t)
	publish(t, l, "1", "2", "3")
	for before := range uint64(2) {
		require.NoError(t, l.Events.Trim(t.Context(), before))
		info, err := l.Events.Info(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 3, info.Messages, "before %d", before)
	}
}
