package api_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"tidings/store/storetest"
	"tidings/streams/event"
)

func TestETags(t *testing.T) {
	w := newWorld(t)
	ref := storetest.Ref("a", 1)
	w.record(ref, claimed, planned)
	letter := event.Letter{
		Schema: event.Schema, Kind: event.LetterEvent, Tenant: ref.Tenant, Key: ref.Key, Cause: event.CauseUncertain,
		Stage: event.StageDispatcher, At: storetest.Start, Event: &ref, Data: []byte("{}"),
	}
	w.letter(letter)
	paths := []string{"/v1/events/" + ref.ID, "/v1/events", "/v1/deadletters/" + string(ref.Key), "/openapi.json"}
	tags := map[string]string{}
	t.Run("every answer in JSON has one, and is the same while that is", func(t *testing.T) {
		for _, path := range paths {
			res := w.ask(http.MethodGet, path, "")
			tags[path] = res.Header.Get("ETag")
			require.Regexp(t, `^"[^"]+"$`, tags[path], path)
			require.NotEmpty(t, text(t, res), path)
			for _, known := range []string{tags[path], `"other", W/` + tags[path], "*"} {
				res = w.ask(http.MethodGet, path, "", "If-None-Match", known)
				require.Equal(t, http.StatusNotModified, res.StatusCode, path)
				require.Equal(t, tags[path], res.Header.Get("ETag"))
				require.Empty(t, text(t, res))
			}
			require.Equal(t, http.StatusOK, w.ask(http.MethodGet, path, "", "If-None-Match", `"other"`).StatusCode)
		}
	})
	t.Run("it is another when something has changed", func(t *testing.T) {
		w.record(ref, delivered)
		letter.Generation = 1
		w.letter(letter)
		for _, path := range paths[:3] {
			res := w.ask(http.MethodGet, path, "", "If-None-Match", tags[path])
			require.Equal(t, http.StatusOK, res.StatusCode, path)
			require.NotEqual(t, tags[path], res.Header.Get("ETag"), path)
		}
	})
	t.Run("a refusal has none, and what is done is done", func(t *testing.T) {
		res := w.ask(http.MethodGet, "/v1/events/nothing", "", "If-None-Match", "*")
		problem(t, res, http.StatusNotFound)
		require.Empty(t, res.Header.Get("ETag"))
		require.NotEqual(t, http.StatusNotModified, w.ask(http.MethodPost, "/v1/events", "{}", "If-None-Match", "*").StatusCode)
	})
}

func TestWhatIsNotThere(t *testing.T) {
	w := newWorld(t)
	t.Run("another method than those of an endpoint is refused with their names", func(t *testing.T) {
		for path, allow := range map[string]string{
			"/healthz": "GET, HEAD", "/v1/events": "GET, HEAD, POST", "/v1/events/x": "GET, HEAD", "/v1/records": "GET, HEAD",
			"/v1/deadletters/x/requeue": "POST", "/openapi.json": "GET, HEAD",
		} {
			for _, method := range []string{http.MethodDelete, http.MethodPut, http.MethodPatch, http.MethodOptions} {
				res := w.ask(method, path, "")
				require.Contains(t, problem(t, res, http.StatusMethodNotAllowed), "urn:tidings:method", path)
				require.Equal(t, allow, res.Header.Get("Allow"), path)
			}
		}
	})
	t.Run("a path that is nobody's is a problem, and no redirect", func(t *testing.T) {
		for _, path := range []string{"/", "/v2/events", "//healthz", "/v1//events", "/v1/events/", "/v1/./events", "/v1/x/../events"} {
			require.Contains(t, problem(t, w.ask(http.MethodGet, path, ""), http.StatusNotFound), "urn:tidings:no-endpoint", path)
		}
	})
}
