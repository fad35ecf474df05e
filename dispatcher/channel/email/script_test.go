package email_test

import (
	"io"
	"net"
	"net/textproto"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// script is a mail server that gives the answers in it, by verb; GREETING is
// before the first verb and END after the body. What it does not name gets a
// yes. The answer cut closes the connection, and hang says nothing until the
// client leaves.
type script map[string]string

const (
	cut  = "cut"
	hang = "hang"
)

var yes = script{
	"GREETING": "220 script", "EHLO": "250 script", "HELO": "250 script", "STARTTLS": "220 go ahead",
	"AUTH": "235 welcome", "MAIL": "250 ok", "RCPT": "250 ok", "DATA": "354 go ahead", "END": "250 ok", "QUIT": "221 bye",
}

// serve starts the server and returns its port.
func (s script) serve(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				defer conn.Close()
				s.talk(textproto.NewConn(conn))
			})
		}
	})
	t.Cleanup(conns.Wait)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l.Addr().(*net.TCPAddr).Port
}

func (s script) talk(conn *textproto.Conn) {
	if !s.say(conn, "GREETING") {
		return
	}
	for {
		line, err := conn.ReadLine()
		if err != nil {
			return
		}
		verb, _, _ := strings.Cut(strings.ToUpper(line), " ")
		if !s.say(conn, verb) {
			return
		}
		if verb == "DATA" && strings.HasPrefix(s.answer(verb), "354") {
			if _, err := conn.ReadDotBytes(); err != nil || !s.say(conn, "END") {
				return
			}
		}
	}
}

func (s script) answer(verb string) string {
	if answer, ok := s[verb]; ok {
		return answer
	}
	if answer, ok := yes[verb]; ok {
		return answer
	}
	return "500 what?"
}

// say reports whether the dialogue goes on.
func (s script) say(conn *textproto.Conn, verb string) bool {
	switch answer := s.answer(verb); answer {
	case cut:
		return false
	case hang:
		_, _ = io.Copy(io.Discard, conn.R)
		return false
	default:
		return conn.PrintfLine("%s", answer) == nil
	}
}
