package app_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"tidings/bridge/bridgetest"
	"tidings/cmd/internal/api"
	"tidings/cmd/internal/config"
)

// secret is a password whose every reserved character tempts somebody to read
// it as something else. Its two words must not show, alone or together.
const secret = "hunter2@/:%?#&sesame"

// pieces of it in any form in which it may be written.
func pieces() []string {
	return []string{"hunter2", "sesame", base64.StdEncoding.EncodeToString([]byte(secret))[4:20]}
}

// safe collects what several goroutines write.
type safe struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *safe) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *safe) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func requireNoSecret(t *testing.T, what, text string) {
	t.Helper()
	require.NotEmpty(t, text, what)
	for _, piece := range pieces() {
		_, after, found := strings.Cut(text, piece)
		require.False(t, found, "%s shows it before: %.80s", what, after)
	}
}

func TestNoPasswordShows(t *testing.T) {
	node := bridgetest.Private(t)
	good, denied := node.Vhost(t), node.Vhost(t)
	_, err := node.Ctl(t.Context(), "add_user", "ann", secret)
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = node.Ctl(context.Background(), "delete_user", "ann") })
	_, err = node.Ctl(t.Context(), "set_permissions", "--vhost", good.Name, "ann", ".*", ".*", ".*")
	require.NoError(t, err)
	ours, theirs := bridgetest.NewAuthority(t), bridgetest.NewAuthority(t)
	encrypted, err := node.ListenTLS(t.Context(), bridgetest.TLS{Certificate: ours.Issue("server", time.Hour, "localhost")})
	require.NoError(t, err)
	// with returns an address with ann's name and password in place of the guest's.
	with := func(address, password string) string {
		u, err := url.Parse(address)
		require.NoError(t, err)
		u.User = url.UserPassword("ann", password)
		return u.String()
	}

	w := newWorld(t, nil)
	w.add(fmt.Sprintf(`
amqp: {url: %q, queue: orders, topology: declare}
sources:
  - {name: wrong-password, url: %q, queue: others}
  - {name: no-vhost, url: %q, queue: orders}
  - {name: no-queue, url: %q, queue: none}
  - {name: nobody-there, url: %q, queue: orders}
  - {name: untrusted, url: %q, queue: orders, tls: {ca_file: %q}}
`, with(good.URL, secret), with(good.URL, secret+"1"), with(denied.URL, secret), with(good.URL, secret),
		with("amqp://127.0.0.1:1/", secret), with(encrypted, secret), theirs.File))
	logs := &safe{}
	w.logger = slog.New(slog.NewJSONHandler(logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	client, stop := w.start()

	w.put(good.URL, "orders", amqp.Publishing{MessageId: "1", Type: "order.placed", AppId: "shop", Body: w.order("/ok")})
	w.put(good.URL, "orders", amqp.Publishing{ContentType: "application/json", Body: []byte("{oops")})
	w.rows(client, 1)
	w.eventually("every source has said why it is not ready, or took what there was", func() bool {
		s, err := client.Status(t.Context())
		if err != nil || len(s.Sources) != 6 || s.Sources[0].Acked != 2 {
			return false
		}
		for _, s := range s.Sources[1:] {
			if s.Reason == "" || strings.HasPrefix(s.Reason, "connecting to") {
				return false
			}
		}
		return true
	})

	t.Run("in what the API answers", func(t *testing.T) {
		for _, path := range []string{"/v1/status", "/readyz", "/v1/events", "/v1/events/1/history", "/v1/deadletters", "/metrics", "/openapi.json"} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, client.BaseURL+path, nil)
			require.NoError(t, err)
			req.Header.Set("Authorization", "Bearer "+client.Token)
			res, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			var body bytes.Buffer
			_, err = body.ReadFrom(res.Body)
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			requireNoSecret(t, path, body.String())
		}
		letters, err := client.DeadLetters(t.Context(), api.LetterQuery{})
		require.NoError(t, err)
		require.Len(t, letters.Items, 1)
		letter, err := client.DeadLetter(t.Context(), letters.Items[0].Key)
		require.NoError(t, err)
		text, err := json.Marshal(letter)
		require.NoError(t, err)
		requireNoSecret(t, "a dead letter", string(text))
	})
	t.Run("in the configuration as it is printed", func(t *testing.T) {
		var out bytes.Buffer
		require.NoError(t, w.conf.Print(&out))
		fmt.Fprintf(&out, "%v %+v %#v", w.conf, w.conf, w.conf)
		requireNoSecret(t, "configuration", out.String())
		require.Contains(t, out.String(), "amqp://[redacted]@127.0.0.1")
	})
	t.Run("in the log, whatever happens to a source", func(t *testing.T) {
		require.NoError(t, good.CloseConnections(t.Context(), "for the test"))
		w.eventually("it connects again", func() bool {
			s, err := client.Status(t.Context())
			return err == nil && s.Sources[0].Reconnects > 0
		})
		stop()
		requireNoSecret(t, "log", logs.String())
		require.False(t, strings.Contains(logs.String(), client.Token), "the API's token")
		for _, said := range []string{
			"username or password not allowed", "refused for user", `queue \"none\" not found`,
			"connection refused", "signed by unknown authority", "for the test",
		} {
			require.True(t, strings.Contains(logs.String(), said), "the log says nothing of: %s", said)
		}
	})
}

func TestNoPasswordShowsInErrors(t *testing.T) {
	encoded := url.QueryEscape(secret)
	for name, address := range map[string]string{
		"not encoded":               "amqp://ann:" + secret + "@h/",
		"not encoded but the slash": "amqp://ann:" + strings.ReplaceAll(secret, "/", "%2F") + "@h/",
		"of another scheme":         "ampq://ann:" + encoded + "@h/",
		"with an impossible port":   "amqp://ann:" + encoded + "@h:99999999/",
		"with a port of words":      "amqp://ann:" + encoded + "@h:port/",
		"without a host":            "amqp://ann:" + encoded + "@/",
		"that is the password":      secret,
		"with a bad parameter":      "amqp://ann:" + encoded + "@h/?heartbeat=" + encoded,
		"with two authorities":      "amqps://ann:" + encoded + "@h/?cacertfile=a.pem",
		"with a blank":              "amqp://ann:" + encoded + "@h/a b",
		"with a broken escape":      "amqp://ann:" + encoded + "%zz@h/",
	} {
		t.Run("an address "+name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.add(fmt.Sprintf("amqp: {url: %q, tls: {ca_file: b.pem}}\nsources: [{name: a, url: %q, queue: q, tls: {ca_file: b.pem}}]", address, address))
			err := w.conf.Validate()
			require.ErrorAs(t, err, new(config.Problems))
			requireNoSecret(t, "error", err.Error())
		})
	}
}
