package streams_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/streams"
	"tidings/streams/event"
	"tidings/streams/streamstest"
)

func letter(id string, generation int) event.Letter {
	r := ref(id)
	return event.Letter{
		Schema: event.Schema, Kind: event.LetterEvent, Key: r.Key, Tenant: r.Tenant, Cause: event.CauseCrashes,
		Stage: event.StageDispatcher, Generation: generation, At: time.Now().UTC(), Event: &r, Data: []byte(`{"n":1}`),
	}
}

func TestDeadLetters(t *testing.T) {
	l := streamstest.New(t)
	t.Run("a letter is read back as it was, with headers to list it by", func(t *testing.T) {
		want := letter("1", 0)
		seq, created, err := l.DeadLetters.Put(t.Context(), want)
		require.NoError(t, err)
		require.True(t, created)
		got, at, err := l.DeadLetters.Get(t.Context(), "acme", want.Key)
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Equal(t, seq, at)
		e, err := l.DeadLetters.Entry(t.Context(), seq)
		require.NoError(t, err)
		for header, value := range map[string]string{
			streams.HeaderCause: "crashes", streams.HeaderStage: "dispatcher", streams.HeaderKey: string(want.Key),
			streams.HeaderType: "order.placed", streams.HeaderGeneration: "0", streams.HeaderKind: "event",
		} {
			require.Equal(t, value, e.Header.Get(header), header)
		}
	})
	t.Run("the same or an earlier generation again changes nothing", func(t *testing.T) {
		seq, created, err := l.DeadLetters.Put(t.Context(), letter("2", 1))
		require.NoError(t, err)
		require.True(t, created)
		for _, generation := range []int{1, 0} {
			again, created, err := l.DeadLetters.Put(t.Context(), letter("2", generation))
			require.NoError(t, err)
			require.False(t, created)
			require.Equal(t, seq, again)
		}
	})
	t.Run("a later generation takes the place of the letter before", func(t *testing.T) {
		first, _, err := l.DeadLetters.Put(t.Context(), letter("3", 0))
		require.NoError(t, err)
		seq, created, err := l.DeadLetters.Put(t.Context(), letter("3", 1))
		require.NoError(t, err)
		require.True(t, created)
		got, at, err := l.DeadLetters.Get(t.Context(), "acme", ref("3").Key)
		require.NoError(t, err)
		require.Equal(t, 1, got.Generation)
		require.Equal(t, seq, at)
		_, err = l.DeadLetters.Entry(t.Context(), first)
		require.ErrorIs(t, err, streams.ErrNotFound)
	})
	t.Run("of eight that put the same letter at once, one creates it", func(t *testing.T) {
		var created atomic.Int32
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				_, is, err := l.DeadLetters.Put(t.Context(), letter("4", 0))
				if err != nil {
					t.Error(err)
				}
				if is {
					created.Add(1)
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, 1, created.Load())
	})
	t.Run("a removed letter is gone, and may be put again", func(t *testing.T) {
		seq, _, err := l.DeadLetters.Put(t.Context(), letter("5", 0))
		require.NoError(t, err)
		require.NoError(t, l.DeadLetters.Remove(t.Context(), seq))
		_, _, err = l.DeadLetters.Get(t.Context(), "acme", ref("5").Key)
		require.ErrorIs(t, err, streams.ErrNotFound)
		require.ErrorIs(t, l.DeadLetters.Remove(t.Context(), seq), streams.ErrNotFound)
		_, created, err := l.DeadLetters.Put(t.Context(), letter("5", 0))
		require.NoError(t, err)
		require.True(t, created)
	})
	t.Run("of eight that replace the same letter at once, one does, and the others are told", func(t *testing.T) {
		at, _, err := l.DeadLetters.Put(t.Context(), letter("6", 0))
		require.NoError(t, err)
		var replaced, told atomic.Int32
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				switch _, err := l.DeadLetters.Replace(t.Context(), letter("6", 0), at); {
				case err == nil:
					replaced.Add(1)
				case errors.Is(err, streams.ErrChanged):
					told.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, 1, replaced.Load())
		require.EqualValues(t, 7, told.Load())
		_, err = l.DeadLetters.Entry(t.Context(), at)
		require.ErrorIs(t, err, streams.ErrNotFound, "there is one letter of an event")
	})
	t.Run("a letter that is gone is not replaced", func(t *testing.T) {
		at, _, err := l.DeadLetters.Put(t.Context(), letter("7", 0))
		require.NoError(t, err)
		require.NoError(t, l.DeadLetters.Remove(t.Context(), at))
		_, err = l.DeadLetters.Replace(t.Context(), letter("7", 0), at)
		require.ErrorIs(t, err, streams.ErrChanged)
	})
	t.Run("an event of the largest payload fits into a letter", func(t *testing.T) {
		e := order("large")
		e.Data = bytes.Repeat([]byte{0xff}, streams.MaxData)
		require.Equal(t, streams.MaxData, l.Events.MaxData())
		got, err := l.Events.Publish(t.Context(), streams.Incoming{Envelope: e})
		require.NoError(t, err)
		stored, err := l.Events.Get(t.Context(), got.Sequence)
		require.NoError(t, err)
		large := letter("large", 0)
		large.Data = stored.Envelope.Data
		_, created, err := l.DeadLetters.Put(t.Context(), large)
		require.NoError(t, err)
		require.True(t, created)
		back, _, err := l.DeadLetters.Get(t.Context(), "acme", large.Key)
		require.NoError(t, err)
		require.True(t, bytes.Equal(e.Data, back.Data))
	})
	t.Run("a payload beyond that is refused", func(t *testing.T) {
		e := order("too large")
		e.Data = make([]byte, streams.MaxData+1)
		_, err := l.Events.Publish(t.Context(), streams.Incoming{Envelope: e})
		var tooLarge *streams.TooLargeError
		require.ErrorAs(t, err, &tooLarge)
		require.Equal(t, "payload", tooLarge.What)
	})
	t.Run("headers beyond 48 KiB are refused", func(t *testing.T) {
		e := order("headers")
		e.Subject = string(bytes.Repeat([]byte{'x'}, streams.MaxHeaders))
		_, err := l.Events.Publish(t.Context(), streams.Incoming{Envelope: e})
		var tooLarge *streams.TooLargeError
		require.ErrorAs(t, err, &tooLarge)
		require.Equal(t, "headers", tooLarge.What)
	})
}

// Nothing is evicted to make room: who writes a letter waits, and says so.
func TestLettersAreRefusedWhenThereIsNoRoomAndNoneIsForgotten(t *testing.T) {
	l := streamstest.New(t, func(o *streams.Options) { o.DeadLettersMaxBytes = 64 << 10 })
	large := func(id string, generation int) event.Letter {
		l := letter(id, generation)
		l.Data = make([]byte, 8<<10)
		return l
	}
	stored := 0
	for ; ; stored++ {
		_, _, err := l.DeadLetters.Put(t.Context(), large(fmt.Sprint(stored), 0))
		if errors.Is(err, streams.ErrFull) {
			break
		}
		require.NoError(t, err)
	}
	require.Greater(t, stored, 2)
	for i := range stored {
		_, _, err := l.DeadLetters.Get(t.Context(), "acme", ref(fmt.Sprint(i)).Key)
		require.NoError(t, err)
	}
	_, at, err := l.DeadLetters.Get(t.Context(), "acme", ref("0").Key)
	require.NoError(t, err)
	require.NoError(t, l.DeadLetters.Remove(t.Context(), at))
	_, created, err := l.DeadLetters.Put(t.Context(), large("another", 0))
	require.NoError(t, err, "an operator who deals with one makes room")
	require.True(t, created)
}

func TestALetterIsSaidOnceInTheLog(t *testing.T) {
	var said bytes.Buffer
	l := streamstest.New(t, func(o *streams.Options) { o.Logger = slog.New(slog.NewJSONHandler(&said, nil)) })
	letter := letter("1", 0)
	letter.Detail = "why\nthe stack of a panic"
	for range 2 {
		_, _, err := l.DeadLetters.Put(t.Context(), letter)
		require.NoError(t, err)
	}
	require.Equal(t, 1, strings.Count(said.String(), `"msg":"dead letter"`))
	require.Contains(t, said.String(), `"level":"WARN"`)
	require.Contains(t, said.String(), `"key":"`+string(letter.Key)+`"`)
	require.Contains(t, said.String(), `"cause":"`+string(letter.Cause)+`"`)
	require.Contains(t, said.String(), `"detail":"why"`)
}

func TestAFullStreamSaysWhichOneItIsAndWhereRoomComesFrom(t *testing.T) {
	l := streamstest.New(t, func(o *streams.Options) { o.OutcomesMaxBytes, o.DeadLettersMaxBytes = 64<<10, 64<<10 })
	var err error
	for i := 0; err == nil; i++ {
		_, err = l.Outcomes.AppendOperation(t.Context(), event.Operation{
			ID: event.NewNonce(), Kind: event.KindOperation, Tenant: "acme", Operator: "ann", Reason: strings.Repeat("x", 2000),
			Letter: event.OperationLetter{Key: ref(fmt.Sprint(i)).Key},
		})
	}
	require.ErrorIs(t, err, streams.ErrFull)
	require.ErrorContains(t, err, "OUTCOMES is full: room comes as histories become older than the horizon, or raise outcomes.max_bytes")

	for i := range 100 {
		big := letter(fmt.Sprint(i), 0)
		big.Data = []byte(strings.Repeat("x", 500))
		if _, _, err = l.DeadLetters.Put(t.Context(), big); err != nil {
			break
		}
	}
	require.ErrorIs(t, err, streams.ErrFull)
	require.ErrorContains(t, err, "DEADLETTERS is full but for what is left for letters that are there: requeue or discard dead letters, or raise dead_letters.max_bytes")
}
