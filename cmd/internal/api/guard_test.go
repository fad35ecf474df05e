package api_test

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/bridge"
	"tidings/cmd/internal/api"
)

func TestToken(t *testing.T) {
	w := newWorld(t)
	t.Run("nothing but health, readiness and the description is answered without the token", func(t *testing.T) {
		for path, want := range map[string]int{
			"/healthz": 200, "/readyz": 200, "/v1/events": 401, "/v1/status": 401, "/v1/deadletters": 401,
			"/openapi.json": 200, "/docs": 200, "/docs/viewer.js": 200, "/docs/viewer.css": 200,
			"/nowhere": 401, "/healthz/": 401, "//healthz": 401, "/docs/": 401, "/docs/../v1/events": 401, "/openapi.json/": 401,
		} {
			for _, header := range []string{"", "Bearer", "Bearer ", "Bearer " + token + "x", "Basic " + token, token} {
				res := w.ask(http.MethodGet, path, "", "Authorization", header)
				require.Equal(t, want, res.StatusCode, "%s with %q", path, header)
			}
		}
		res := w.ask(http.MethodPost, "/v1/events", "{}", "Authorization", "")
		require.Equal(t, `Bearer realm="tidings"`, res.Header.Get("WWW-Authenticate"))
		require.Contains(t, problem(t, res, http.StatusUnauthorized), "urn:tidings:unauthorized")
	})
	t.Run("with the token there is an answer, whatever the case of Bearer", func(t *testing.T) {
		res := w.ask(http.MethodGet, "/v1/events", "", "Authorization", "bearer "+token)
		require.Equal(t, http.StatusOK, res.StatusCode)
	})
	t.Run("there is no server without a token", func(t *testing.T) {
		o := w.options
		o.Token = ""
		_, err := api.New(o)
		require.Error(t, err)
	})
}

func TestEnsureToken(t *testing.T) {
	t.Run("the first start makes a token for the owner alone, later ones keep it", func(t *testing.T) {
		dir := t.TempDir()
		first, err := api.EnsureToken(dir)
		require.NoError(t, err)
		require.Len(t, first, 43) // 256 bits
		again, err := api.EnsureToken(dir)
		require.NoError(t, err)
		require.Equal(t, first, again)
		info, err := os.Stat(filepath.Join(dir, api.TokenFile))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Len(t, entries, 1)
	})
	t.Run("every data directory has its own", func(t *testing.T) {
		a, err := api.EnsureToken(t.TempDir())
		require.NoError(t, err)
		b, err := api.EnsureToken(t.TempDir())
		require.NoError(t, err)
		require.NotEqual(t, a, b)
	})
	t.Run("a file that holds no token is refused, not used", func(t *testing.T) {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, api.TokenFile), []byte("\n"), 0o600))
		_, err := api.EnsureToken(dir)
		require.ErrorContains(t, err, "holds no token: delete it")
	})
}

func TestGuards(t *testing.T) {
	w := newWorld(t)
	t.Run("every answer has the headers that keep browsers careful", func(t *testing.T) {
		for _, path := range []string{"/healthz", "/v1/events", "/nowhere"} {
			res := w.ask(http.MethodGet, path, "")
			require.Equal(t, "nosniff", res.Header.Get("X-Content-Type-Options"))
			require.Equal(t, "no-store", res.Header.Get("Cache-Control"))
			require.Contains(t, res.Header.Get("Content-Security-Policy"), "default-src 'none'")
		}
	})
	t.Run("a page of another origin may not publish", func(t *testing.T) {
		res := w.ask(http.MethodPost, "/v1/events", "{}", "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site")
		require.Contains(t, problem(t, res, http.StatusForbidden), "urn:tidings:cross-origin")
	})
	t.Run("what is not there is said as a problem", func(t *testing.T) {
		require.Contains(t, problem(t, w.ask(http.MethodGet, "/v2/events", ""), http.StatusNotFound), "urn:tidings:no-endpoint")
	})
	t.Run("a panic is answered, and tells nothing", func(t *testing.T) {
		w.door = func(context.Context, bridge.Arrival) (bridge.Receipt, error) { panic("secret of the inside") }
		body := problem(t, w.ask(http.MethodPost, "/v1/events", "{}"), http.StatusInternalServerError)
		require.NotContains(t, body, "secret")
	})
	t.Run("the description is served, and names every endpoint", func(t *testing.T) {
		res := w.ask(http.MethodGet, "/openapi.json", "")
		spec := text(t, res)
		require.Equal(t, "application/openapi+json", res.Header.Get("Content-Type"))
		for _, path := range []string{
			"/healthz", "/readyz", "/v1/status", "/v1/events", "/v1/events/{id}", "/v1/events/{id}/history",
			"/v1/deadletters", "/v1/deadletters/{key}", "/v1/deadletters/{key}/raw",
		} {
			require.Contains(t, spec, `"`+path+`":`)
		}
		require.Contains(t, spec, `"publish-event"`)
		require.NotContains(t, spec, "$schema")
	})
	t.Run("headers without bound are refused", func(t *testing.T) {
		l, err := api.Listen(t.Context(), "127.0.0.1:0")
		require.NoError(t, err)
		s, err := api.New(w.options)
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx, l) }()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+l.Addr().String()+"/healthz", nil)
		require.NoError(t, err)
		req.Header.Set("X", strings.Repeat("x", 100<<10))
		res, err := w.server.Client().Do(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, res.StatusCode)
		stop()
		require.NoError(t, <-done)
	})
}

func TestRun(t *testing.T) {
	t.Run("it lets a request end that is under way when it is stopped", func(t *testing.T) {
		w := newWorld(t)
		in, out := make(chan struct{}), make(chan struct{})
		w.door = func(context.Context, bridge.Arrival) (bridge.Receipt, error) {
			close(in)
			<-out
			return bridge.Receipt{}, nil
		}
		l, err := api.Listen(t.Context(), "127.0.0.1:0")
		require.NoError(t, err)
		s, err := api.New(w.options)
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx, l) }()
		client := &api.Client{BaseURL: "http://" + l.Addr().String(), Token: token, HTTP: w.server.Client()}
		answered := make(chan error, 1)
		go func() {
			_, err := client.Publish(t.Context(), http.Header{}, nil)
			answered <- err
		}()
		<-in
		stop()
		close(out)
		require.NoError(t, <-answered)
		require.NoError(t, <-done)
	})
	t.Run("a request that does not end is cut off when its time is over", func(t *testing.T) {
		w := newWorld(t)
		in, cut := make(chan struct{}), make(chan struct{})
		w.door = func(ctx context.Context, _ bridge.Arrival) (bridge.Receipt, error) {
			close(in)
			<-ctx.Done()
			close(cut)
			return bridge.Receipt{}, ctx.Err()
		}
		w.options.Drain = time.Millisecond
		l, err := api.Listen(t.Context(), "127.0.0.1:0")
		require.NoError(t, err)
		s, err := api.New(w.options)
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx, l) }()
		client := &api.Client{BaseURL: "http://" + l.Addr().String(), Token: token, HTTP: w.server.Client()}
		answered := make(chan error, 1)
		go func() {
			_, err := client.Publish(t.Context(), http.Header{}, nil)
			answered <- err
		}()
		<-in
		stop()
		require.NoError(t, <-done)
		require.Error(t, <-answered)
		<-cut
	})
	t.Run("a listener that fails ends it with an error", func(t *testing.T) {
		w := newWorld(t)
		l, err := api.Listen(t.Context(), "127.0.0.1:0")
		require.NoError(t, err)
		require.NoError(t, l.Close())
		s, err := api.New(w.options)
		require.NoError(t, err)
		require.ErrorIs(t, s.Run(t.Context(), l), net.ErrClosed)
	})
	t.Run("an address in use is explained", func(t *testing.T) {
		l, err := api.Listen(t.Context(), "127.0.0.1:0")
		require.NoError(t, err)
		defer l.Close()
		_, err = api.Listen(t.Context(), l.Addr().String())
		require.ErrorContains(t, err, "is in use, by another tidings perhaps: stop it, or set api.listen")
	})
}
