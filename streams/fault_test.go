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

func waitForLast(t *testing.T, l *streams.Log, last uint64) {
	t.Helper()
	require.Eventually(t, func() bool {
		info, err := l.Outcomes.Info(t.Context())
		return err == nil && info.Last >= last
	}, 10*time.Second, 5*time.Millisecond)
}

func TestAppendsWhoseAnswersWereLostRecogniseThemselves(t *testing.T) {
	for name, opt := range durabilities() {
		for _, n := range []int{1, 40} { // alone, and as a batch in strict durability
			t.Run(fmt.Sprintf("%s, %d at once", name, n), func(t *testing.T) {
				s := streamstest.NewServer(t, opt)
				control := s.Log()
				line, l := s.DeafLog()
				line.Deafen()
				errs := make(chan error, n)
				for i := range n {
					go func() {
						p, err := l.Outcomes.Append(t.Context(), claim(ref(fmt.Sprint(i)), event.State{}), 0)
						if err == nil && p.Sequence == 0 {
							err = fmt.Errorf("no sequence")
						}
						errs <- err
					}()
				}
				waitForLast(t, control, 1)
				line.Repair()
				for range n {
					require.NoError(t, <-errs)
				}
				info, err := control.Outcomes.Info(t.Context())
				require.NoError(t, err)
				require.EqualValues(t, n, info.Messages, "each is stored once")
			})
		}
	}
}

func TestAppendThatLandedBelowAnotherSaysSo(t *testing.T) {
	s := streamstest.NewServer(t)
	control := s.Log()
	line, l := s.DeafLog()
	line.Deafen()
	ours := claim(ref("1"), event.State{})
	done := make(chan error, 1)
	go func() {
		_, err := l.Outcomes.Append(t.Context(), ours, 0)
		done <- err
	}()
	waitForLast(t, control, 1)
	theirs := settle(ref("1"), ours.State)
	_, err := control.Outcomes.Append(t.Context(), theirs, 1)
	require.NoError(t, err)
	line.Repair()

	var conflict *streams.ConflictError
	require.ErrorAs(t, <-done, &conflict)
	require.Equal(t, theirs, conflict.Last.Record)
	require.EqualValues(t, 1, conflict.Landed)
}

func TestAppendThatEndsWithoutAnAnswerIsUnknown(t *testing.T) {
	for name, opt := range durabilities() {
		t.Run(name, func(t *testing.T) {
			s := streamstest.NewServer(t, opt)
			control := s.Log()
			line, l := s.DeafLog()
			line.Deafen()
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() {
				_, err := l.Outcomes.Append(ctx, claim(ref("1"), event.State{}), 0)
				done <- err
			}()
			waitForLast(t, control, 1)
			cancel()
			require.ErrorIs(t, <-done, streams.ErrUnknown)
			line.Repair()
		})
	}
}

func TestPublishWhoseAnswerWasLostIsTheDuplicateOfItself(t *testing.T) {
	s := streamstest.NewServer(t)
	control := s.Log()
	line, l := s.DeafLog()
	line.Deafen()
	in := streams.Incoming{Envelope: order("1"), Nonce: "mine"}
	done := make(chan error, 1)
	go func() {
		_, err := l.Events.Publish(t.Context(), in)
		done <- err
	}()
	require.Eventually(t, func() bool {
		info, err := control.Events.Info(t.Context())
		return err == nil && info.Last == 1
	}, 10*time.Second, 5*time.Millisecond)
	line.Repair()
	require.ErrorIs(t, <-done, streams.ErrUnknown)

	require.Eventually(t, func() bool {
		got, err := l.Events.Publish(t.Context(), in)
		if err != nil {
			return false // still reconnecting
		}
		require.True(t, got.Duplicate)
		first, err := l.Events.Get(t.Context(), got.Sequence)
		require.NoError(t, err)
		require.Equal(t, in.Nonce, first.Nonce, "the nonce tells that it is our own repeat")
		return true
	}, 10*time.Second, 10*time.Millisecond)
}

func TestLetterWhoseAnswerWasLostIsPutOnceAndKnownAsOurs(t *testing.T) {
	for name, write := range map[string]func(*streams.Log) error{
		"a new one": func(l *streams.Log) error {
			_, created, err := l.DeadLetters.Put(t.Context(), letter("1", 0))
			if err == nil && !created {
				err = errors.New("taken for another's")
			}
			return err
		},
		"one that replaces another": func(l *streams.Log) error {
			_, err := l.DeadLetters.Replace(t.Context(), letter("1", 0), 1)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := streamstest.NewServer(t)
			control := s.Log()
			before := uint64(0)
			if name != "a new one" {
				before = 1
				_, _, err := control.DeadLetters.Put(t.Context(), letter("1", 0))
				require.NoError(t, err)
			}
			line, l := s.DeafLog()
			line.DeafFrom("HPUB dead.")
			done := make(chan error, 1)
			go func() { done <- write(l) }()
			require.Eventually(t, func() bool {
				info, err := control.DeadLetters.Info(t.Context())
				return err == nil && info.Last == before+1
			}, 10*time.Second, 5*time.Millisecond)
			line.Repair()
			require.NoError(t, <-done)
			info, err := control.DeadLetters.Info(t.Context())
			require.NoError(t, err)
			require.EqualValues(t, 1, info.Messages)
			require.Equal(t, before+1, info.Last)
		})
	}
}
