package api_test

import (
	"io/fs"
	"net/http"
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestThePageThatShowsTheDescription(t *testing.T) {
	w := newWorld(t)
	files := map[string]string{"/docs": "text/html", "/docs/viewer.js": "text/javascript", "/docs/viewer.css": "text/css"}
	t.Run("is served to anybody, under a policy that lets it ask this server and no other", func(t *testing.T) {
		for path, kind := range files {
			res := w.ask(http.MethodGet, path, "", "Authorization", "")
			require.Equal(t, http.StatusOK, res.StatusCode, path)
			require.Contains(t, res.Header.Get("Content-Type"), kind)
			policy := res.Header.Get("Content-Security-Policy")
			for _, part := range []string{
				"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "base-uri 'none'",
				"form-action 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'",
			} {
				require.Contains(t, policy, part)
			}
			require.NotContains(t, policy, "unsafe")
		}
	})
	t.Run("needs nothing but what is served with it", func(t *testing.T) {
		needed := regexp.MustCompile(`(?:src|href|from|import|url)\s*[=(]?\s*["'(]([^"')]+)`)
		for path := range files {
			content := text(t, w.ask(http.MethodGet, path, ""))
			require.NotRegexp(t, `https?://`, content, path)
			for _, m := range needed.FindAllStringSubmatch(content, -1) {
				if m[1][0] == '/' {
					res := w.ask(http.MethodGet, m[1], "", "Authorization", "")
					require.Equal(t, http.StatusOK, res.StatusCode, "%s needs %s", path, m[1])
				}
			}
		}
	})
	t.Run("has no script or style of its own in the markup, and makes no markup of texts", func(t *testing.T) {
		page := text(t, w.ask(http.MethodGet, "/docs", ""))
		require.NotRegexp(t, `<script(?:\s+[a-z]+(?:="[^"]*")?)*>[^<]`, page)
		require.NotRegexp(t, `<style|\sstyle=|\son[a-z]+=`, page)
		script := text(t, w.ask(http.MethodGet, "/docs/viewer.js", ""))
		require.NotRegexp(t, `innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|Function\(|Storage|document\.cookie`, script)
	})
	t.Run("has no other files", func(t *testing.T) {
		found, err := fs.Glob(os.DirFS("viewer"), "*")
		require.NoError(t, err)
		require.Len(t, found, len(files))
		for _, path := range []string{"/docs/index.html", "/docs/viewer.go", "/docs/viewer.js/", "/docs/viewer."} {
			problem(t, w.ask(http.MethodGet, path, ""), http.StatusNotFound)
		}
	})
}
