package streams_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/streams"
	"tidings/streams/event"
	"tidings/streams/streamstest"
)

func TestManyDuplicatesOfOneEvent(t *testing.T) {
	flood := func(t *testing.T, l *streams.Log, n int) {
		t.Helper()
		for i := range n {
			d := event.NewDuplicate(ref("1"), event.StageBridge, streams.EventsStream, 1, fmt.Sprint(i), "amqp queue orders", time.Now())
			require.NoError(t, l.Outcomes.AppendDuplicate(t.Context(), d))
		}
	}
	run := func(l *streams.Log) (stop func() error) {
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- l.Run(ctx) }()
		return func() error { cancel(); return <-ended }
	}
	for name, opt := range durabilities() {
		t.Run("share an entry that is stored before the log closes, "+name, func(t *testing.T) {
			s := streamstest.NewServer(t, opt)
			l := s.Open()
			stop := run(l)
			flood(t, l, 1000)
			require.NoError(t, stop())
			info, err := l.Outcomes.Info(t.Context())
			require.NoError(t, err)
			require.EqualValues(t, 11, info.Messages)
			last, err := l.Outcomes.Entry(t.Context(), 11)
			require.NoError(t, err)
			var shared event.Duplicate
			require.NoError(t, json.Unmarshal(last.Data, &shared))
			require.Equal(t, 990, shared.Count)
			require.False(t, shared.Since.After(shared.At))
		})
	}
	t.Run("are said in the log if they cannot be noted any more", func(t *testing.T) {
		var said bytes.Buffer
		s := streamstest.NewServer(t, func(o *streams.Options) {
			o.Logger = slog.New(slog.NewJSONHandler(&said, nil))
			o.OutcomesMaxBytes = 64 << 10
		})
		l := s.Open()
		stop := run(l)
		flood(t, l, 20)
		var full error
		for i := 0; full == nil; i++ {
			other := ref(fmt.Sprint("other", i))
			full = l.Outcomes.AppendDuplicate(t.Context(), event.NewDuplicate(other, event.StageHTTP, streams.EventsStream, 1, "", "", time.Now()))
		}
		require.ErrorIs(t, full, streams.ErrFull)
		require.NoError(t, stop())
		require.Contains(t, said.String(), `"events":1,"duplicates":10`)
	})
}
