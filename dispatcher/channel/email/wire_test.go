package email

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"tidings/dispatcher/channel"
	"tidings/dispatcher/channel/channeltest/sink"
	"tidings/streams/event"
)

// stubborn is a connection on which nothing can be written after the server has
// asked for the body. No server can be timed to break it just there.
type stubborn struct {
	net.Conn
	asked atomic.Bool
}

func (s *stubborn) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	if bytes.Contains(p[:n], []byte("354 ")) {
		s.asked.Store(true)
	}
	return n, err
}

func (s *stubborn) Write(p []byte) (int, error) {
	if s.asked.Load() {
		return 0, errors.New("broken pipe")
	}
	return s.Conn.Write(p)
}

func TestABodyThatDidNotGoOutIsTransient(t *testing.T) {
	for name, text := range map[string]string{
		"when it fits into the client's buffer": "short",
		"when it does not":                      strings.Repeat("a long text\n", 1000),
	} {
		t.Run(name, func(t *testing.T) {
			server, err := sink.StartSMTP(sink.SMTPOptions{})
			require.NoError(t, err)
			defer server.Close()
			s, err := New(Config{Host: server.Host(), Port: server.Port(), From: "a@b.example", StartTLS: None})
			require.NoError(t, err)
			conn, err := net.Dial("tcp", server.Addr())
			require.NoError(t, err)
			defer conn.Close()
			d := &dialogue{Sender: s, wire: &wire{Conn: &stubborn{Conn: conn}}}

			err = d.deliver(letter{from: "<a@b.example>", to: "<c@d.example>", raw: []byte(text)})

			result, code, _ := channel.Classify(d.instruct(context.Background(), err))
			require.Equal(t, event.TryTransient, result, "%v", err)
			require.Equal(t, channel.CodeConnectionLost, code)
		})
	}
}
