package app

import (
	"testing"

	"github.com/stretchr/testify/require"

	"tidings/streams"
	"tidings/streams/event"
	"tidings/streams/streamstest"
)

func TestTheLogIsNotReadyWhileItRefusesAnEventForWantOfRoom(t *testing.T) {
	var l logPart
	l.log.Store(streamstest.New(t, func(o *streams.Options) { o.EventsMaxBytes = 2 << 20 }))
	publish := func(id string, size int) error {
		e := event.Envelope{Source: "shop", ID: id, Type: "order.placed", Data: make([]byte, size)}
		_, err := l.get().Events.Publish(t.Context(), streams.Incoming{Envelope: e})
		return err
	}
	require.NoError(t, publish("1", 3<<19))
	require.True(t, l.health(t.Context()).Ready)

	require.ErrorIs(t, publish("2", 1<<20), streams.ErrFull)
	health := l.health(t.Context())
	require.False(t, health.Ready)
	require.Regexp(t, `^EVENTS is full \(1 of 2 MiB, and an event of \d+ bytes does not fit\): .*events.max_bytes`, health.Reason)
	require.NoError(t, l.probe(t.Context()), "the bridge goes on taking those that fit")
}
