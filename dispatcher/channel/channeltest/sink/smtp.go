package sink

import (
	"bytes"
	"context"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"mime"
	"net"
	"net/mail"
	"slices"
	"strings"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

// Step is a moment of an SMTP dialogue at which the sink can be made to fail.
type Step string

// The steps, in their order.
const (
	StepMail Step = "MAIL" // the sender was named
	StepRcpt Step = "RCPT" // a recipient was named
	StepData Step = "DATA" // the body is about to be read
	StepEnd  Step = "END"  // the whole body was read, and nothing answered yet
)

// What an answer may be beside nil and the error of [Refuse].
var (
	// ErrCut closes the connection without a word.
	ErrCut = errors.New("cut the connection")
	// ErrHang says nothing until the client leaves or the sink is closed.
	ErrHang = errors.New("say nothing")
)

// Refuse returns an answer such as 550 5.1.1. The enhanced code may be empty.
func Refuse(code int, enhanced, text string) error {
	reply := &smtp.SMTPError{Code: code, EnhancedCode: smtp.NoEnhancedCode, Message: text}
	if enhanced != "" {
		_, _ = fmt.Sscanf(enhanced, "%d.%d.%d",
			&reply.EnhancedCode[0], &reply.EnhancedCode[1], &reply.EnhancedCode[2])
	}
	return reply
}

// Mail is one mail, as it was received.
type Mail struct {
	From      string
	To        []string
	Raw       []byte // headers and body; empty before StepEnd
	Header    mail.Header
	MessageID string // without the angle brackets
	Subject   string // decoded
	TLS       bool
	UTF8      bool   // SMTPUTF8 was asked for
	User      string // who logged in
	Received  time.Time
}

// SMTPOptions are the options of an SMTP sink. The zero value takes everything
// on a free port of loopback, without TLS and without login.
type SMTPOptions struct {
	Addr string
	// TLS is offered by STARTTLS, or spoken from the first byte if Implicit.
	TLS      *tls.Config
	Implicit bool
	// Username and Password are demanded by AUTH PLAIN, also without TLS.
	Username, Password string
	// Answer decides what is said at a step: nil to go on, the error of [Refuse],
	// [ErrCut] or [ErrHang]. It is called by several goroutines at once.
	Answer func(step Step, m Mail) error
	// Left is called when a client has left that was told nothing: [ErrHang].
	Left func(m Mail)
	// ReadBuffer is the size of a connection's receive buffer in bytes, the
	// system's if zero. With a small one a client is soon stuck that sends to a
	// sink that does not read.
	ReadBuffer int
	// Keep is how many mails are kept in full, DefaultKeep if zero, none if
	// negative. Counts go on beyond it.
	Keep int
}

// SMTP is an SMTP server that keeps what it is sent.
type SMTP struct {
	o      SMTPOptions
	l      net.Listener
	server *smtp.Server
	book   *book[Mail]
	done   chan struct{}
}

// StartSMTP starts a sink. It serves until Close.
func StartSMTP(o SMTPOptions) (*SMTP, error) {
	l, err := listen(o.Addr)
	if err != nil {
		return nil, err
	}
	s := &SMTP{o: o, l: l, book: newBook[Mail](o.Keep), done: make(chan struct{})}
	s.server = smtp.NewServer(smtp.BackendFunc(s.session))
	s.server.Domain = "sink.localhost"
	s.server.AllowInsecureAuth = true
	s.server.EnableSMTPUTF8 = true
	s.server.MaxMessageBytes = 32 << 20
	s.server.ReadTimeout = 5 * time.Minute
	s.server.WriteTimeout = time.Minute
	s.server.ErrorLog = log.New(io.Discard, "", 0)
	if o.TLS != nil && o.Implicit {
		l = tls.NewListener(l, o.TLS)
	} else {
		s.server.TLSConfig = o.TLS
	}
	go func() {
		defer close(s.done)
		_ = s.server.Serve(l)
	}()
	return s, nil
}

// Addr returns host:port.
func (s *SMTP) Addr() string { return s.l.Addr().String() }

// Host returns the address without the port.
func (s *SMTP) Host() string { return s.l.Addr().(*net.TCPAddr).IP.String() }

// Port returns the port.
func (s *SMTP) Port() int { return s.l.Addr().(*net.TCPAddr).Port }

// Mails returns the mails taken, in order, up to the number that is kept.
func (s *SMTP) Mails() []Mail { return s.book.items() }

// Count returns how many mails were taken.
func (s *SMTP) Count() int {
	_, took := s.book.counts()
	return took
}

// ByMessageID returns how often each Message-ID was taken.
func (s *SMTP) ByMessageID() map[string]int { return s.book.byID() }

// Wait returns once n mails were taken, or with an error when ctx is done.
func (s *SMTP) Wait(ctx context.Context, n int) error {
	if err := s.book.wait(ctx, n, func() int { return s.book.took }); err != nil {
		return fmt.Errorf("mails: %w", err)
	}
	return nil
}

// Close closes the sink and its connections.
func (s *SMTP) Close() error {
	err := s.server.Close()
	_ = s.l.Close() // the server may not have come to know it yet
	<-s.done
	if err != nil && !errors.Is(err, smtp.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("close the SMTP sink: %w", err)
	}
	return nil
}

func (s *SMTP) session(c *smtp.Conn) (smtp.Session, error) {
	_, encrypted := c.TLSConnectionState()
	if s.o.ReadBuffer > 0 {
		setReadBuffer(c.Conn(), s.o.ReadBuffer)
	}
	return &session{sink: s, conn: c, mail: Mail{TLS: encrypted}}, nil
}

func setReadBuffer(conn net.Conn, size int) {
	if encrypted, ok := conn.(*tls.Conn); ok {
		conn = encrypted.NetConn()
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetReadBuffer(size)
	}
}

// session is one connection. It is used by one goroutine.
type session struct {
	sink *SMTP
	conn *smtp.Conn
	mail Mail
}

var _ smtp.AuthSession = (*session)(nil)

func (s *session) AuthMechanisms() []string {
	if s.sink.o.Username == "" {
		return nil
	}
	return []string{sasl.Plain}
}

func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, username, password string) error {
		if !same(username, s.sink.o.Username) || !same(password, s.sink.o.Password) {
			return smtp.ErrAuthFailed
		}
		s.mail.User = username
		return nil
	}), nil
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

func (s *session) Mail(from string, o *smtp.MailOptions) error {
	if s.sink.o.Username != "" && s.mail.User == "" {
		return Refuse(530, "5.7.0", "authentication required")
	}
	s.mail.From, s.mail.UTF8 = from, o.UTF8
	return s.sink.answer(s.conn, StepMail, s.mail)
}

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	named := s.mail
	named.To = append(slices.Clone(named.To), to)
	if err := s.sink.answer(s.conn, StepRcpt, named); err != nil {
		return err
	}
	s.mail = named
	return nil
}

func (s *session) Data(r io.Reader) error {
	if err := s.sink.answer(s.conn, StepData, s.mail); err != nil {
		return err
	}
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	s.mail.read(raw)
	if err := s.sink.answer(s.conn, StepEnd, s.mail); err != nil {
		return err
	}
	s.sink.book.enter(s.mail.MessageID, true, s.mail)
	return nil
}

// answer asks what to say at a step, and does what is not said.
func (s *SMTP) answer(c *smtp.Conn, step Step, m Mail) error {
	if s.o.Answer == nil {
		return nil
	}
	err := s.o.Answer(step, m)
	switch {
	case errors.Is(err, ErrCut):
		_ = c.Conn().Close()
	case errors.Is(err, ErrHang):
		_, _ = io.Copy(io.Discard, c.Conn())
		_ = c.Conn().Close()
		if s.o.Left != nil {
			s.o.Left(m)
		}
	}
	return err
}

func (s *session) Reset() { s.mail = Mail{TLS: s.mail.TLS, User: s.mail.User} }

func (s *session) Logout() error { return nil }

// read fills in what the mail says about itself. A mail that cannot be parsed
// is kept all the same.
func (m *Mail) read(raw []byte) {
	m.Raw, m.Received = raw, time.Now()
	parsed, err := mail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		return
	}
	m.Header = parsed.Header
	m.MessageID = strings.Trim(parsed.Header.Get("Message-ID"), "<> ")
	m.Subject = parsed.Header.Get("Subject")
	if decoded, err := new(mime.WordDecoder).DecodeHeader(m.Subject); err == nil {
		m.Subject = decoded
	}
}
