package webhook_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"tidings/dispatcher/channel"
	"tidings/dispatcher/channel/channeltest"
	"tidings/dispatcher/channel/webhook"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) {
	channeltest.Run(t, func(t *testing.T, b channeltest.Behaviour) channeltest.Provider {
		return startProvider(t, b, (*httptest.Server).Start)
	})
}

func TestContractOverTLS(t *testing.T) {
	channeltest.Run(t, func(t *testing.T, b channeltest.Behaviour) channeltest.Provider {
		return startProvider(t, b, (*httptest.Server).StartTLS)
	})
}

// provider is a receiver that behaves as the suite wants it to.
type provider struct {
	behaviour channeltest.Behaviour
	stop      <-chan struct{}
	held      chan struct{}
	left      chan struct{}
	once      sync.Once

	mu  sync.Mutex
	ids []string
}

var codes = map[channeltest.Behaviour]string{
	channeltest.Takes:         "http_204",
	channeltest.Refuses:       "http_410",
	channeltest.RefusesForNow: "http_503",
	channeltest.Unreachable:   channel.CodeDialFailed,
	channeltest.CutsBefore:    channel.CodeConnectionLost,
	channeltest.CutsAfter:     channel.CodeConnectionLost,
}

func startProvider(t *testing.T, b channeltest.Behaviour, start func(*httptest.Server)) channeltest.Provider {
	stop := make(chan struct{})
	p := &provider{behaviour: b, stop: stop, held: make(chan struct{}), left: make(chan struct{})}
	server := httptest.NewUnstartedServer(p)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if encrypted, ok := c.(*tls.Conn); ok {
			c = encrypted.NetConn()
		}
		_ = c.(*net.TCPConn).SetReadBuffer(4 << 10) // so that a large body is stuck
		return ctx
	}
	start(server)
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(stop) })
	if b == channeltest.Unreachable {
		server.Listener.Close()
	}
	sender := newSender(t, webhook.Config{AllowPrivate: true, CAFile: caFile(t, server)})
	return channeltest.Provider{
		Sender: sender,
		Message: func(id string) channel.Message {
			m := message(server.URL+"/secret-path?token=secret-token", id)
			if b == channeltest.StopsReading || b == channeltest.CutsBefore {
				m.Body = bytes.Repeat([]byte("secret-body "), 3<<20)
			}
			m.Headers = map[string]string{"Authorization": "Bearer secret-bearer", "Idempotency-Key": id}
			return m
		},
		Secrets: []string{"secret", secret},
		Code:    codes[b],
		Held:    p.held,
		Left:    p.left,
		IDs:     p.seen,
	}
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch p.behaviour {
	case channeltest.StopsReading:
		p.once.Do(func() { close(p.held) })
		<-p.stop
		return
	case channeltest.CutsBefore:
		cut(w)
		return
	}
	_, _ = io.Copy(io.Discard, r.Body)
	p.see(r.Header.Get("webhook-id"))
	switch p.behaviour {
	case channeltest.Takes:
		w.WriteHeader(http.StatusNoContent)
	case channeltest.Refuses:
		http.Error(w, "secret words of the provider", http.StatusGone)
	case channeltest.RefusesForNow:
		http.Error(w, "secret words of the provider", http.StatusServiceUnavailable)
	case channeltest.TakesInSilence:
		p.once.Do(func() { close(p.held) })
		<-r.Context().Done()
		p.leave()
		// Returning would answer 200, and over TLS a caller that takes its leave
		// politely may still read that: then the message was delivered.
		panic(http.ErrAbortHandler)
	case channeltest.CutsAfter:
		cut(w)
	}
}

func cut(w http.ResponseWriter) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		_ = conn.Close()
	}
}

func (p *provider) see(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ids = append(p.ids, id)
}

func (p *provider) seen() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ids
}

func (p *provider) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.left:
	default:
		close(p.left)
	}
}

// caFile returns a file with the authority of a server; "" if it has none.
func caFile(t *testing.T, server *httptest.Server) string {
	t.Helper()
	if server.Certificate() == nil {
		return ""
	}
	file := filepath.Join(t.TempDir(), "ca.pem")
	block := &pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(block), 0o600))
	return file
}

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwAAAA"

func newSender(t *testing.T, c webhook.Config) *webhook.Sender {
	t.Helper()
	if c.Secrets == nil {
		c.Secrets = []string{secret}
	}
	s, err := webhook.New(c)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func message(to, id string) channel.Message {
	return channel.Message{ID: id, To: to, Body: []byte(`{"order":"A-1"}`), ContentType: "application/json"}
}
