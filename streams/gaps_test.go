package streams_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/streams"
	"tidings/streams/event"
	"tidings/streams/streamstest"
)

func TestGapsOfOutcomes(t *testing.T) {
	s := streamstest.NewServer(t)
	l := s.Log()
	for i := range 6 {
		_, err := l.Outcomes.Append(t.Context(), claim(ref(string(rune('a'+i))), event.State{}), 0)
		require.NoError(t, err)
	}
	missing := func(t *testing.T) []streams.Gap {
		gaps, err := l.Outcomes.Missing(t.Context())
		require.NoError(t, err)
		return gaps
	}
	require.Empty(t, missing(t), "an undamaged stream has none")

	s.Stop()
	blocks, err := filepath.Glob(filepath.Join(s.Dir(), "jetstream", "*", "streams", "OUTCOMES", "msgs", "*.blk"))
	require.NoError(t, err)
	data, err := os.ReadFile(blocks[0])
	require.NoError(t, err)
	require.NoError(t, os.Truncate(blocks[0], int64(len(data)*3/4)))
	s.Start()
	require.Eventually(t, func() bool { _, err := l.Outcomes.Info(t.Context()); return err == nil }, 10*time.Second, 5*time.Millisecond)

	gaps := missing(t)
	require.Len(t, gaps, 1)
	require.EqualValues(t, 6, gaps[0].To, "the end is missing, although the server says that 6 is the last")
	require.Greater(t, gaps[0].From, uint64(3))

	gaps[0].Accepted = "ann: a power cut"
	require.NoError(t, l.Outcomes.AcceptGap(t.Context(), gaps[0]))
	require.Empty(t, missing(t), "what was accepted is not missing any more")
	s.Restart()
	l = s.Open()
	info, err := l.Outcomes.Info(t.Context())
	require.NoError(t, err)
	require.Equal(t, gaps, info.Gaps, "and stays so")
	require.Empty(t, missing(t), "also in a log that is opened anew: it is no drift")
}
