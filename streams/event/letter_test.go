package event_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"tidings/streams/event"
)

func TestALetterFindsItsPayloadsByTheirDigest(t *testing.T) {
	l := event.Letter{
		Data: []byte("own"), Edit: &event.LetterEdit{Data: []byte("edited")},
		Drafts: []event.LetterEdit{{Data: []byte("drafted")}, {Data: []byte{}}},
	}
	for _, data := range []string{"own", "edited", "drafted", ""} {
		got, ok := l.Payload(event.Digest([]byte(data)))
		require.True(t, ok, data)
		require.Equal(t, data, string(got))
	}
	_, ok := l.Payload(event.Digest([]byte("another")))
	require.False(t, ok)
	_, ok = event.Letter{}.Payload(event.Digest(nil))
	require.False(t, ok, "a letter without a payload has none that is empty")
}
