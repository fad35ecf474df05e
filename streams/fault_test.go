package streams_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"tidings/streams"
	"tidings/streams/event"
	"tidings/streams/streamstest"
)

// deafLine is a connection on which the server's answers can get lost: the
// client's word arrives, and it never learns of it.
type deafLine struct {
	server *streamstest.Server
	deaf   atomic.Bool
	mu     sync.Mutex
	conn   net.Conn
}

func (d *deafLine) InProcessConn() (net.Conn, error) {
	conn, err := d.server.InProcessConn()
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conn = conn
	return &deafConn{Conn: conn, deaf: &d.deaf}, nil
}

// repair drops the line, so that the client connects anew and hears again.
func (d *deafLine) repair() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.deaf.Store(false)
	_ = d.conn.Close()
}

type deafConn struct {
	net.Conn
	deaf *atomic.Bool
}

func (c *deafConn) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err != nil || !c.deaf.Load() {
			return n, err
		}
	}
}

func deafLog(t *testing.T, s *streamstest.Server) (*deafLine, *streams.Log) {
	t.Helper()
	line := &deafLine{server: s}
	nc, err := nats.Connect("", append(streams.ConnectOptions("deaf", slog.New(slog.DiscardHandler)),
		nats.InProcessServer(line),
		nats.CustomReconnectDelay(func(int) time.Duration { return 10 * time.Millisecond }))...)
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	l, err := streams.Open(t.Context(), nc, s.Options())
	require.NoError(t, err)
	streamstest.Run(t, l.Run)
	return line, l
}

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
				line, l := deafLog(t, s)
				line.deaf.Store(true)
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
				line.repair()
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
	line, l := deafLog(t, s)
	line.deaf.Store(true)
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
	line.repair()

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
			line, l := deafLog(t, s)
			line.deaf.Store(true)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() {
				_, err := l.Outcomes.Append(ctx, claim(ref("1"), event.State{}), 0)
				done <- err
			}()
			waitForLast(t, control, 1)
			cancel()
			require.ErrorIs(t, <-done, streams.ErrUnknown)
			line.repair()
		})
	}
}

func TestPublishWhoseAnswerWasLostIsTheDuplicateOfItself(t *testing.T) {
	s := streamstest.NewServer(t)
	control := s.Log()
	line, l := deafLog(t, s)
	line.deaf.Store(true)
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
	line.repair()
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

func TestLetterWhoseAnswerWasLostIsPutOnce(t *testing.T) {
	s := streamstest.NewServer(t)
	control := s.Log()
	line, l := deafLog(t, s)
	_, _, err := l.DeadLetters.Get(t.Context(), "acme", letter("1", 0).Key)
	require.ErrorIs(t, err, streams.ErrNotFound)
	type result struct {
		sequence uint64
		created  bool
		err      error
	}
	done := make(chan result, 1)
	go func() {
		var r result
		r.sequence, r.created, r.err = l.DeadLetters.Put(t.Context(), letter("1", 0))
		done <- r
	}()
	r := <-done
	require.NoError(t, r.err)
	require.True(t, r.created)
	line.deaf.Store(true)
	go func() {
		var r result
		r.sequence, r.created, r.err = l.DeadLetters.Put(t.Context(), letter("1", 0))
		done <- r
	}()
	line.repair()
	r = <-done
	require.NoError(t, r.err)
	require.False(t, r.created)
	info, err := control.DeadLetters.Info(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, info.Messages)
}
