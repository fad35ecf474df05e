package streams_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/streams"
	"tidings/streams/event"
	"tidings/streams/streamstest"
)

func appendRecords(t *testing.T, l *streams.Log, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		_, err := l.Outcomes.Append(t.Context(), claim(ref(fmt.Sprint(i)), event.State{}), 0)
		require.NoError(t, err)
	}
}

func follow(t *testing.T, l *streams.Log, from uint64) <-chan streams.Entry {
	t.Helper()
	out := make(chan streams.Entry, 10000)
	streamstest.Run(t, func(ctx context.Context) error {
		return l.Outcomes.Follow(ctx, from, func(e streams.Entry) error {
			out <- e
			return nil
		})
	})
	return out
}

func TestFollow(t *testing.T) {
	l := streamstest.New(t)
	appendRecords(t, l, 0, 1200) // more than is asked for at a time
	t.Run("every entry comes once, in order, then the new ones", func(t *testing.T) {
		entries := follow(t, l, 1)
		for want := uint64(1); want <= 1200; want++ {
			require.Equal(t, want, receive(t, entries).Sequence)
		}
		appendRecords(t, l, 1200, 1203)
		for want := uint64(1201); want <= 1203; want++ {
			require.Equal(t, want, receive(t, entries).Sequence)
		}
	})
	t.Run("it begins where it is told", func(t *testing.T) {
		require.EqualValues(t, 900, receive(t, follow(t, l, 900)).Sequence)
	})
	t.Run("an entry looks the same followed and read", func(t *testing.T) {
		followed := receive(t, follow(t, l, 5))
		read, err := l.Outcomes.Entry(t.Context(), 5)
		require.NoError(t, err)
		require.Equal(t, read, followed)
		r, err := event.DecodeRecord(read.Data)
		require.NoError(t, err)
		require.Equal(t, r.ID, read.Header.Get(streams.HeaderRecordID))
	})
	t.Run("the reader's error ends it", func(t *testing.T) {
		enough := errors.New("enough")
		n := 0
		err := l.Outcomes.Follow(t.Context(), 1, func(streams.Entry) error {
			if n++; n == 700 {
				return enough
			}
			return nil
		})
		require.Equal(t, enough, err)
		require.Equal(t, 700, n)
	})
	t.Run("so does its context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		require.ErrorIs(t, l.Outcomes.Follow(ctx, 1, func(streams.Entry) error { cancel(); return nil }), context.Canceled)
	})
}

func TestFollowIsContiguousOverRestarts(t *testing.T) {
	for name, restart := range map[string]func(*streamstest.Server){
		"stopped": (*streamstest.Server).Restart, "killed": (*streamstest.Server).KillRestart,
	} {
		t.Run(name, func(t *testing.T) {
			s := streamstest.NewServer(t)
			l := s.Log()
			entries := follow(t, l, 1)
			next, wrote := uint64(1), 0
			for range 3 {
				appendRecords(t, l, wrote, wrote+50)
				wrote += 50
				restart(s)
				appendRecords(t, l, wrote, wrote+50)
				wrote += 50
				for ; next <= uint64(wrote); next++ {
					require.Equal(t, next, receive(t, entries).Sequence)
				}
			}
		})
	}
}

func TestFollowStopsWhileTheServerIsDown(t *testing.T) {
	s := streamstest.NewServer(t)
	l := s.Log()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Outcomes.Follow(ctx, 1, func(streams.Entry) error { return nil }) }()
	s.Stop()
	cancel()
	select {
	case err := <-done:
		require.ErrorIs(t, err, context.Canceled)
	case <-time.After(10 * time.Second):
		t.Fatal("does not stop")
	}
}

func TestLettersAreFollowedOverWhatWasRemoved(t *testing.T) {
	l := streamstest.New(t)
	for i := range 5 {
		_, _, err := l.DeadLetters.Put(t.Context(), letter(fmt.Sprint(i), 0))
		require.NoError(t, err)
	}
	require.NoError(t, l.DeadLetters.Remove(t.Context(), 2))
	var got []uint64
	stop := errors.New("stop")
	err := l.DeadLetters.Follow(t.Context(), 1, func(e streams.Entry) error {
		if got = append(got, e.Sequence); len(got) == 4 {
			return stop
		}
		return nil
	})
	require.Equal(t, stop, err)
	require.Equal(t, []uint64{1, 3, 4, 5}, got)
}

func TestFollowBringsEntriesUntilItsDeadline(t *testing.T) {
	l := streamstest.New(t)
	appendRecords(t, l, 0, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	stop := errors.New("stop")
	err := l.Outcomes.Follow(ctx, 1, func(streams.Entry) error { return stop })
	require.Equal(t, stop, err, "the deadline is near, and not over")
}
