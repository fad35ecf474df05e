package email_test

import (
	"crypto/tls"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"tidings/dispatcher/channel"
	"tidings/dispatcher/channel/channeltest"
	"tidings/dispatcher/channel/channeltest/sink"
	"tidings/dispatcher/channel/email"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) {
	channeltest.Run(t, func(t *testing.T, b channeltest.Behaviour) channeltest.Provider {
		return startProvider(t, b, sink.StepData, sink.SMTPOptions{}, email.Config{StartTLS: email.None})
	})
}

func TestContractWithSTARTTLSAndLogin(t *testing.T) {
	channeltest.Run(t, func(t *testing.T, b channeltest.Behaviour) channeltest.Provider {
		config, ca := certificate(t)
		return startProvider(t, b, sink.StepRcpt,
			sink.SMTPOptions{TLS: config, Username: "secret-user", Password: "secret-password"},
			email.Config{CAFile: ca, Username: "secret-user", Password: "secret-password"})
	})
}

func TestContractWithImplicitTLS(t *testing.T) {
	channeltest.Run(t, func(t *testing.T, b channeltest.Behaviour) channeltest.Provider {
		config, ca := certificate(t)
		return startProvider(t, b, sink.StepMail, sink.SMTPOptions{TLS: config, Implicit: true},
			email.Config{CAFile: ca, ImplicitTLS: true})
	})
}

// provider is a mail server that behaves as the suite wants it to.
type provider struct {
	behaviour  channeltest.Behaviour
	early      sink.Step // where it stops or cuts before the message was handed over
	stop       chan struct{}
	held, left chan struct{}
	hold       sync.Once
	leave      sync.Once

	mu  sync.Mutex
	ids []string
}

var codes = map[channeltest.Behaviour]string{
	channeltest.Takes:         "smtp_250",
	channeltest.Refuses:       "smtp_550_5.1.1",
	channeltest.RefusesForNow: "smtp_451_4.7.1",
	channeltest.Unreachable:   channel.CodeDialFailed,
	channeltest.CutsBefore:    channel.CodeConnectionLost,
	channeltest.CutsAfter:     channel.CodeConnectionLost,
}

func startProvider(t *testing.T, b channeltest.Behaviour, early sink.Step, o sink.SMTPOptions, c email.Config) channeltest.Provider {
	p := &provider{
		behaviour: b, early: early, stop: make(chan struct{}),
		held: make(chan struct{}), left: make(chan struct{}),
	}
	o.ReadBuffer = 4 << 10 // so that a large mail is stuck
	o.Answer = p.answer
	o.Left = func(sink.Mail) { p.leave.Do(func() { close(p.left) }) }
	server := startSMTP(t, o)
	t.Cleanup(func() { close(p.stop) })
	if b == channeltest.Unreachable {
		require.NoError(t, server.Close())
	}
	return channeltest.Provider{
		Sender: newSender(t, server, c),
		Message: func(id string) channel.Message {
			m := message(id)
			if early == sink.StepData && (b == channeltest.StopsReading || b == channeltest.CutsBefore) {
				m.Text = strings.Repeat("secret text of seventy characters and more, so that each is a line\n", 120_000)
			}
			return m
		},
		Secrets: []string{"secret"},
		Code:    codes[b],
		Held:    p.held,
		Left:    p.left,
		IDs:     p.seen,
	}
}

func (p *provider) answer(step sink.Step, m sink.Mail) error {
	switch {
	case step == p.early && p.behaviour == channeltest.StopsReading:
		p.hold.Do(func() { close(p.held) })
		<-p.stop
		return sink.ErrCut
	case step == p.early && p.behaviour == channeltest.CutsBefore:
		return sink.ErrCut
	case step != sink.StepEnd:
		return nil
	}
	id, _, _ := strings.Cut(m.MessageID, "@")
	p.mu.Lock()
	p.ids = append(p.ids, id)
	p.mu.Unlock()
	switch p.behaviour {
	case channeltest.Refuses:
		return sink.Refuse(550, "5.1.1", "<secret-mailbox@example.com> is unknown")
	case channeltest.RefusesForNow:
		return sink.Refuse(451, "4.7.1", "<secret-mailbox@example.com> is greylisted")
	case channeltest.TakesInSilence:
		p.hold.Do(func() { close(p.held) })
		return sink.ErrHang
	case channeltest.CutsAfter:
		return sink.ErrCut
	}
	return nil
}

func (p *provider) seen() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ids
}

func startSMTP(t *testing.T, o sink.SMTPOptions) *sink.SMTP {
	t.Helper()
	s, err := sink.StartSMTP(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// newSender returns a sender to a sink.
func newSender(t *testing.T, s *sink.SMTP, c email.Config) *email.Sender {
	t.Helper()
	c.Host, c.Port = s.Host(), s.Port()
	if c.From == "" {
		c.From = "Shop <shop@shop.example>"
	}
	sender, err := email.New(c)
	require.NoError(t, err)
	return sender
}

func message(id string) channel.Message {
	return channel.Message{
		ID: id, To: "secret-mailbox@example.com",
		Subject: "secret subject", Text: "secret text", HTML: "<p>secret HTML</p>",
	}
}

// certificate returns a server's TLS for 127.0.0.1 and a file with its authority.
func certificate(t *testing.T) (*tls.Config, string) {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	server.StartTLS()
	defer server.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	block := &pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(block), 0o600))
	return &tls.Config{Certificates: server.TLS.Certificates, MinVersion: tls.VersionTLS12}, file
}
