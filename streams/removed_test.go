package streams_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"tidings/streams"
	"tidings/streams/streamstest"
)

// The server keeps no note on disk of what a limit removed, and after a kill it
// finds that again unless what took its place is there.
func TestALetterThatWasRemovedIsGoneAfterAKill(t *testing.T) {
	for name, options := range map[string][]streamstest.Option{"relaxed": nil, "strict": {streamstest.Strict}} {
		t.Run(name, func(t *testing.T) {
			s := streamstest.NewServer(t, options...)
			l := s.Log()
			_, _, err := l.DeadLetters.Put(t.Context(), letter("first", 0)) // so that the block is never empty
			require.NoError(t, err)

			at, _, err := l.DeadLetters.Put(t.Context(), letter("replaced", 0))
			require.NoError(t, err)
			for generation := range 2 {
				at, err = l.DeadLetters.Replace(t.Context(), letter("replaced", generation), at)
				require.NoError(t, err)
			}
			require.NoError(t, l.DeadLetters.Remove(t.Context(), at))

			for generation := range 3 {
				at, _, err = l.DeadLetters.Put(t.Context(), letter("dead again", generation))
				require.NoError(t, err)
			}
			require.NoError(t, l.DeadLetters.Remove(t.Context(), at))
			require.Equal(t, uint64(1), messages(t, l))

			s.KillRestart()
			l = s.Log()
			for _, id := range []string{"replaced", "dead again"} {
				_, at, err := l.DeadLetters.Get(t.Context(), "acme", ref(id).Key)
				require.ErrorIs(t, err, streams.ErrNotFound, "%s is there at %d", id, at)
			}
			require.Equal(t, uint64(1), messages(t, l))
		})
	}
}

func messages(t *testing.T, l *streams.Log) uint64 {
	t.Helper()
	info, err := l.DeadLetters.Info(t.Context())
	require.NoError(t, err)
	return info.Messages
}
