package webhook_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"tidings/dispatcher/channel"
	"tidings/dispatcher/channel/channeltest/sink"
	"tidings/dispatcher/channel/webhook"
	"tidings/streams/event"
)

func serve(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server
}

func TestAnswersAreInstructions(t *testing.T) {
	date := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(http.TimeFormat) }

	for name, c := range map[string]struct {
		status     int
		retryAfter string
		result     event.TryResult
		code       string
		atLeast    time.Duration
		atMost     time.Duration
	}{
		"200":                              {200, "", event.TryDelivered, "", 0, 0},
		"202":                              {202, "", event.TryDelivered, "", 0, 0},
		"204 with a Retry-After":           {204, "60", event.TryDelivered, "", 0, 0},
		"301 is not followed":              {301, "", event.TryPermanent, "http_301", 0, 0},
		"302 is not followed":              {302, "", event.TryPermanent, "http_302", 0, 0},
		"304":                              {304, "", event.TryPermanent, "http_304", 0, 0},
		"308 is not followed":              {308, "", event.TryPermanent, "http_308", 0, 0},
		"400":                              {400, "", event.TryPermanent, "http_400", 0, 0},
		"401":                              {401, "", event.TryPermanent, "http_401", 0, 0},
		"404":                              {404, "", event.TryPermanent, "http_404", 0, 0},
		"408":                              {408, "", event.TryTransient, "http_408", 0, 0},
		"410":                              {410, "", event.TryPermanent, "http_410", 0, 0},
		"425":                              {425, "", event.TryTransient, "http_425", 0, 0},
		"429 without a time":               {429, "", event.TryTransient, "http_429", 0, 0},
		"429 with seconds":                 {429, "120", event.TryRateLimited, "http_429", 2 * time.Minute, 2 * time.Minute},
		"429 with a date":                  {429, date(time.Hour), event.TryRateLimited, "http_429", 59 * time.Minute, time.Hour},
		"429 with a date in the past":      {429, date(-time.Hour), event.TryTransient, "http_429", 0, 0},
		"429 with zero":                    {429, "0", event.TryTransient, "http_429", 0, 0},
		"429 with more than a day":         {429, "999999", event.TryRateLimited, "http_429", channel.MaxAfter, channel.MaxAfter},
		"429 with more than a number":      {429, "99999999999999999999", event.TryRateLimited, "http_429", channel.MaxAfter, channel.MaxAfter},
		"429 with a negative number":       {429, "-5", event.TryTransient, "http_429", 0, 0},
		"429 with garbage":                 {429, "soon", event.TryTransient, "http_429", 0, 0},
		"500":                              {500, "", event.TryTransient, "http_500", 0, 0},
		"501":                              {501, "", event.TryTransient, "http_501", 0, 0},
		"503":                              {503, "", event.TryTransient, "http_503", 0, 0},
		"503 with seconds burns a try":     {503, "7", event.TryTransient, "http_503", 7 * time.Second, 7 * time.Second},
		"504":                              {504, "", event.TryTransient, "http_504", 0, 0},
		"599":                              {599, "", event.TryTransient, "http_599", 0, 0},
		"a status that nobody has defined": {700, "", event.TryUnknown, "http_700", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", "/elsewhere")
				if c.retryAfter != "" {
					w.Header().Set("Retry-After", c.retryAfter)
				}
				w.WriteHeader(c.status)
			})
			sender := newSender(t, webhook.Config{AllowPrivate: true})

			receipt, err := sender.Send(t.Context(), message(server.URL, "m-1"))

			result, code, after := channel.Classify(err)
			require.Equal(t, c.result, result)
			require.Equal(t, c.code, code)
			require.GreaterOrEqual(t, after, c.atLeast)
			require.LessOrEqual(t, after, c.atMost)
			require.Equal(t, server.Listener.Addr().String(), receipt.Provider)
		})
	}
}

func TestARedirectLeadsNowhere(t *testing.T) {
	var elsewhere atomic.Int32
	target := serve(t, func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) })
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, target.URL, http.StatusTemporaryRedirect)
	})

	_, err := newSender(t, webhook.Config{AllowPrivate: true}).Send(t.Context(), message(server.URL, "m-1"))

	require.EqualError(t, err, "http_307 (permanent): redirects are not followed: use the URL that it leads to")
	require.Zero(t, elsewhere.Load())
}

func TestRequestsAreSignedByEverySecret(t *testing.T) {
	old, fresh := secret, webhook.NewSecret()
	h, err := sink.StartHTTP(sink.HTTPOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.Close()) })
	sender := newSender(t, webhook.Config{AllowPrivate: true, Secrets: []string{old, fresh}})
	m := message(h.URL("/ok"), "m-1")
	m.Headers = map[string]string{"Authorization": "Bearer x"}
	m.ContentType = ""

	_, err = sender.Send(t.Context(), m)
	require.NoError(t, err)

	got := h.Requests()[0]
	for _, s := range []string{old, fresh} {
		verifier, err := standardwebhooks.NewWebhook(s)
		require.NoError(t, err)
		require.NoError(t, verifier.Verify(got.Body, got.Header))
	}
	other, err := standardwebhooks.NewWebhook(webhook.NewSecret())
	require.NoError(t, err)
	require.ErrorIs(t, other.Verify(got.Body, got.Header), standardwebhooks.ErrNoMatchingSignature)

	require.Equal(t, "m-1", got.ID)
	require.JSONEq(t, `{"order":"A-1"}`, string(got.Body))
	require.Equal(t, "application/json", got.Header.Get("Content-Type"), "the default")
	require.Equal(t, "Bearer x", got.Header.Get("Authorization"))
	require.Equal(t, webhook.DefaultUserAgent, got.Header.Get("User-Agent"))
}

func TestAddressesThatAreNoWebhook(t *testing.T) {
	sender := newSender(t, webhook.Config{AllowPrivate: true})

	for name, to := range map[string]string{
		"nothing":           "",
		"a mailbox":         "secret@example.com",
		"another scheme":    "ftp://127.0.0.1/secret",
		"a file":            "file:///etc/secret",
		"no host":           "http:///secret",
		"opaque":            "http:secret",
		"no scheme":         "127.0.0.1/secret",
		"a bad port":        "http://127.0.0.1:secret/",
		"a bad escape":      "http://127.0.0.1/%zzsecret",
		"a user":            "http://secret@127.0.0.1/",
		"a user, password":  "https://u:secret@127.0.0.1/",
		"a line break":      "http://127.0.0.1/secret\r\nHost: x",
		"blanks around it":  " http://127.0.0.1/secret",
		"a host with blank": "http://127.0.0.1 secret/",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := sender.Send(t.Context(), message(to, "m-1"))

			result, code, _ := channel.Classify(err)
			require.Equal(t, event.TryPermanent, result)
			require.Equal(t, channel.CodeInvalidAddress, code)
			require.NotContains(t, err.Error(), "secret")
		})
	}
}

func TestMessagesThatCannotBeSent(t *testing.T) {
	sender := newSender(t, webhook.Config{AllowPrivate: true})
	header := func(name string) func(*channel.Message) {
		return func(m *channel.Message) { m.Headers = map[string]string{name: "x"} }
	}

	for name, c := range map[string]struct {
		change func(*channel.Message)
		code   string
	}{
		"no body":                        {func(m *channel.Message) { m.Body = nil }, channel.CodeInvalidMessage},
		"no id":                          {func(m *channel.Message) { m.ID = "" }, channel.CodeInvalidHeader},
		"an id with a blank":             {func(m *channel.Message) { m.ID = "a b" }, channel.CodeInvalidHeader},
		"a content type with a break":    {func(m *channel.Message) { m.ContentType = "a\r\nb" }, channel.CodeInvalidHeader},
		"a header without a name":        {header(""), channel.CodeInvalidHeader},
		"a header with a colon":          {header("a:b"), channel.CodeInvalidHeader},
		"another signature":              {header("webhook-signature"), channel.CodeInvalidHeader},
		"another host":                   {header("HOST"), channel.CodeInvalidHeader},
		"another length":                 {header("content-length"), channel.CodeInvalidHeader},
		"an expectation before the body": {header("Expect"), channel.CodeInvalidHeader},
	} {
		t.Run(name, func(t *testing.T) {
			m := message("http://127.0.0.1:1/", "m-1")
			c.change(&m)

			_, err := sender.Send(t.Context(), m)

			result, code, _ := channel.Classify(err)
			require.Equal(t, event.TryPermanent, result, "%v", err)
			require.Equal(t, c.code, code)
		})
	}
}

func TestPrivateAddressesAreRefusedWhereTheConnectionIsMade(t *testing.T) {
	var calls atomic.Int32
	server := serve(t, func(http.ResponseWriter, *http.Request) { calls.Add(1) })
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	require.NoError(t, err)

	for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0"} {
		t.Run(host, func(t *testing.T) {
			sender := newSender(t, webhook.Config{AllowedCIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})

			_, err := sender.Send(t.Context(), message("http://"+host+":"+port+"/", "m-1"))

			result, code, _ := channel.Classify(err)
			require.Equal(t, event.TryPermanent, result, "%v", err)
			require.Equal(t, "private_address", code)
			require.Zero(t, calls.Load(), "nobody was called")
		})
	}
	t.Run("unless their network is allowed", func(t *testing.T) {
		sender := newSender(t, webhook.Config{AllowedCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})

		_, err := sender.Send(t.Context(), message(server.URL, "m-1"))

		require.NoError(t, err)
		require.EqualValues(t, 1, calls.Load())
	})
}

func TestTLS(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	ca := caFile(t, server)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	require.NoError(t, err)
	plain := serve(t, func(http.ResponseWriter, *http.Request) {})
	mute := httptest.NewUnstartedServer(nil)
	mute.Config.ConnState = func(c net.Conn, _ http.ConnState) { _ = c.Close() }
	mute.Start()
	t.Cleanup(mute.Close)

	for name, c := range map[string]struct {
		ca     string
		to     string
		result event.TryResult
		code   string
	}{
		"a certificate of a trusted authority":    {ca, server.URL, event.TryDelivered, ""},
		"a certificate that nobody vouches for":   {"", server.URL, event.TryTransient, channel.CodeTLSFailed},
		"a certificate for another host":          {ca, "https://localhost:" + port, event.TryTransient, channel.CodeTLSFailed},
		"a server that speaks no TLS":             {ca, strings.Replace(plain.URL, "http:", "https:", 1), event.TryTransient, channel.CodeTLSFailed},
		"a server that ends the handshake":        {ca, strings.Replace(mute.URL, "http:", "https:", 1), event.TryTransient, channel.CodeTLSFailed},
		"a server that wants TLS and gets no TLS": {ca, "http://" + server.Listener.Addr().String(), event.TryPermanent, "http_400"},
	} {
		t.Run(name, func(t *testing.T) {
			sender := newSender(t, webhook.Config{AllowPrivate: true, CAFile: c.ca})

			_, err := sender.Send(t.Context(), message(c.to, "m-1"))

			result, code, _ := channel.Classify(err)
			require.Equal(t, c.result, result, "%v", err)
			require.Equal(t, c.code, code)
		})
	}
}

func TestAKeptConnectionThatIsCutCarriesARequestOnce(t *testing.T) {
	var calls, connections atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if calls.Add(1) == 2 {
			cut(w)
		}
	}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	sender := newSender(t, webhook.Config{AllowPrivate: true})
	m := message(server.URL, "m-1")
	m.Headers = map[string]string{"Idempotency-Key": "m-1"} // makes net/http repeat what it can

	_, err := sender.Send(t.Context(), m)
	require.NoError(t, err)
	_, err = sender.Send(t.Context(), m)
	result, code, _ := channel.Classify(err)
	require.Equal(t, event.TryUnknown, result, "%v", err)
	require.Equal(t, channel.CodeConnectionLost, code)
	require.EqualValues(t, 2, calls.Load(), "each Send is one request")
	require.EqualValues(t, 1, connections.Load(), "on the connection of the first")

	_, err = sender.Send(t.Context(), m)
	require.NoError(t, err, "the next one makes a new connection")
}

func TestAnswersAreReadNoFurtherThanNeeded(t *testing.T) {
	t.Run("an answer without end is delivered, and its connection closed", func(t *testing.T) {
		closed := make(chan struct{})
		server := serve(t, func(w http.ResponseWriter, r *http.Request) {
			defer close(closed)
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 1<<10)); err != nil {
					return
				}
			}
		})

		receipt, err := newSender(t, webhook.Config{AllowPrivate: true}).Send(t.Context(), message(server.URL, "m-1"))

		require.NoError(t, err)
		require.Equal(t, "http_200", receipt.Code)
		<-closed
	})
	t.Run("an answer that stops after its status is delivered", func(t *testing.T) {
		server := serve(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Length", "10")
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		})
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()

		_, err := newSender(t, webhook.Config{AllowPrivate: true}).Send(ctx, message(server.URL, "m-1"))

		require.NoError(t, err)
		require.NoError(t, ctx.Err(), "the rest was not waited for")
	})
}

func TestAClosedSenderConnectsToNobody(t *testing.T) {
	server := serve(t, func(http.ResponseWriter, *http.Request) {})
	sender := newSender(t, webhook.Config{AllowPrivate: true})
	require.NoError(t, sender.Close())

	_, err := sender.Send(t.Context(), message(server.URL, "m-1"))

	result, code, _ := channel.Classify(err)
	require.Equal(t, event.TryTransient, result, "%v", err)
	require.Equal(t, channel.CodeCanceled, code)
}

func TestAnswersThatSayNothing(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		code   string
	}{
		"not HTTP":             {"secret words\r\n\r\n", "invalid_answer"},
		"half of an answer":    {"HTTP/1.1 20", "invalid_answer"},
		"another protocol":     {"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", "http_101"},
		"headers without end":  {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("secret ", 100_000), "invalid_answer"},
		"an impossible status": {"HTTP/1.1 abc secret\r\n\r\n", "invalid_answer"},
	} {
		t.Run(name, func(t *testing.T) {
			server := serve(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				conn, _, err := w.(http.Hijacker).Hijack()
				if err != nil {
					return
				}
				_, _ = io.WriteString(conn, c.answer)
				_ = conn.(*net.TCPConn).CloseWrite()
				_, _ = bufio.NewReader(conn).WriteTo(io.Discard)
				_ = conn.Close()
			})

			_, err := newSender(t, webhook.Config{AllowPrivate: true}).Send(t.Context(), message(server.URL, "m-1"))

			result, code, _ := channel.Classify(err)
			require.Equal(t, event.TryUnknown, result, "%v", err)
			require.Equal(t, c.code, code)
			require.NotContains(t, err.Error(), "secret")
		})
	}
}

func TestNewTellsEverythingThatIsWrong(t *testing.T) {
	_, err := webhook.New(webhook.Config{
		Secrets:      []string{secret, "whsec_secret"},
		AllowedCIDRs: make([]netip.Prefix, 1),
		Timeout:      -1,
		MaxResponse:  -1,
		CAFile:       filepath.Join(t.TempDir(), "none.pem"),
		UserAgent:    "a\r\nb",
	})

	for _, part := range []string{"secrets: number 2 ", "allowed CIDRs", "timeout", "max response", "CA file", "user agent"} {
		require.ErrorContains(t, err, part)
	}
	require.NotContains(t, err.Error(), "whsec_secret")

	_, err = webhook.New(webhook.Config{})
	require.ErrorContains(t, err, "secrets: at least one is needed")

	empty := filepath.Join(t.TempDir(), "empty.pem")
	require.NoError(t, os.WriteFile(empty, []byte("x"), 0o600))
	_, err = webhook.New(webhook.Config{Secrets: []string{webhook.NewSecret()}, CAFile: empty})
	require.ErrorContains(t, err, fmt.Sprintf("CA file %s holds no certificate", empty))
}
