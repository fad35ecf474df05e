package projector

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"tidings/streams"
)

func TestQueue(t *testing.T) {
	large := item{Entry: streams.Entry{Data: make([]byte, queueBytes-1)}}
	stopped, stop := context.WithCancel(t.Context())
	stop()

	t.Run("has room for a batch, also when it is time to stop", func(t *testing.T) {
		q := newQueue(Options{BatchMax: 2})
		require.NoError(t, q.put(stopped, item{}))
		require.NoError(t, q.put(stopped, item{}))
		require.ErrorIs(t, q.put(stopped, item{}), context.Canceled)
	})
	t.Run("is bounded in bytes, until what was there is taken", func(t *testing.T) {
		q := newQueue(Options{BatchMax: 4})
		require.NoError(t, q.put(stopped, large))
		require.ErrorIs(t, q.put(stopped, large), context.Canceled)
		q.took(<-q.items)
		require.NoError(t, q.put(stopped, large))
	})
	t.Run("takes one that is larger than all that it has room for, alone", func(t *testing.T) {
		q := newQueue(Options{BatchMax: 2})
		huge := item{Entry: streams.Entry{Data: make([]byte, queueBytes+1)}}
		require.NoError(t, q.put(stopped, huge))
		require.ErrorIs(t, q.put(stopped, item{Entry: streams.Entry{Data: []byte("x")}}), context.Canceled)
		q.took(<-q.items)
		require.NoError(t, q.put(stopped, item{Entry: streams.Entry{Data: []byte("x")}}))
	})
}
