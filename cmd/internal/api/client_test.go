package api_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"tidings/cmd/internal/api"
)

func TestClientErrors(t *testing.T) {
	ask := func(t *testing.T, url string) error {
		t.Helper()
		transport := &http.Transport{DisableKeepAlives: true}
		c := &api.Client{BaseURL: url, Token: token, HTTP: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}}
		_, err := c.Status(t.Context())
		require.Error(t, err)
		require.NotContains(t, err.Error(), token)
		return err
	}
	t.Run("nobody there: it says how to start one", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		require.NoError(t, l.Close())
		url := "http://" + l.Addr().String()
		err = ask(t, url)
		require.ErrorContains(t, err, "no tidings at "+url+": start it with `tidings serve`, or set --url or TIDINGS_URL (dial tcp ")
	})
	t.Run("somebody else there: it says so", func(t *testing.T) {
		for name, h := range map[string]http.HandlerFunc{
			"not found":  http.NotFound,
			"a page":     func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
			"a redirect": http.RedirectHandler("https://elsewhere.example/", http.StatusFound).ServeHTTP,
			"hangs up":   func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		} {
			t.Run(name, func(t *testing.T) {
				s := httptest.NewServer(h)
				defer s.Close()
				err := ask(t, s.URL)
				var u *api.UnreachableError
				require.ErrorAs(t, err, &u)
			})
		}
	})
	t.Run("not a URL: it says what one looks like", func(t *testing.T) {
		require.ErrorContains(t, ask(t, "::"), "set --url or TIDINGS_URL to something like http://127.0.0.1:8420")
	})
	t.Run("a password in the URL is not shown", func(t *testing.T) {
		for _, url := range []string{"http://ann:hunter2@127.0.0.1:1", "http://ann:hunter2%@127.0.0.1:1", "http://ann:hunter2@127.0.0.1:x"} {
			require.NotContains(t, ask(t, url).Error(), "hunter2")
		}
	})
	t.Run("another token: it says where the token is", func(t *testing.T) {
		w := newWorld(t)
		w.client.Token = "hunter2"
		_, err := w.client.Status(t.Context())
		require.ErrorContains(t, err, "set --token, --token-file or TIDINGS_TOKEN")
		require.NotContains(t, err.Error(), "hunter2")
	})
	t.Run("the end of the context is its own error", func(t *testing.T) {
		w := newWorld(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := w.client.Status(ctx)
		require.ErrorIs(t, err, context.Canceled)
	})
}
