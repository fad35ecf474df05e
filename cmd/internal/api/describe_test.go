package api_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	validator "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"tidings/store/storetest"
	"tidings/streams/event"
)

// operation is as much of an operation's description as is looked at here.
type operation struct {
	OperationID string `json:"operationId"`
	Summary     string
	Tags        []string
	Security    *[]any
	Parameters  []struct {
		Ref string `json:"$ref"`
	}
	RequestBody *struct{}
	Responses   map[string]struct {
		Headers map[string]any
		Content map[string]any
	}
}

// description returns what /openapi.json says: as it is, and its operations by
// method and path.
func description(t *testing.T, w *world) (raw string, root map[string]any, operations map[string]operation) {
	t.Helper()
	raw = text(t, w.ask(http.MethodGet, "/openapi.json", ""))
	var spec struct {
		Paths map[string]map[string]operation
	}
	require.NoError(t, json.Unmarshal([]byte(raw), &root))
	require.NoError(t, json.Unmarshal([]byte(raw), &spec))
	operations = map[string]operation{}
	for path, methods := range spec.Paths {
		for method, o := range methods {
			operations[strings.ToUpper(method)+" "+path] = o
		}
	}
	return raw, root, operations
}

func TestTheDescription(t *testing.T) {
	w := newWorld(t)
	raw, root, operations := description(t, w)
	require.Equal(t, "3.1.0", root["openapi"])

	t.Run("says of every endpoint what the guards around it answer", func(t *testing.T) {
		for name, o := range operations {
			_, refused := o.Responses["401"]
			require.Equal(t, o.Security == nil, refused, name)
			require.Equal(t, !strings.HasPrefix(name, "GET"), has(o.Responses, "403"), name)
			if o.RequestBody != nil {
				require.Contains(t, o.Responses, "413", name)
			}
			if _, inJSON := o.Responses["200"].Content["application/json"]; inJSON && strings.HasPrefix(name, "GET") {
				require.Contains(t, o.Responses, "304", name)
				require.Contains(t, o.Responses["200"].Headers, "ETag", name)
				require.Equal(t, "#/components/parameters/IfNoneMatch", o.Parameters[len(o.Parameters)-1].Ref, name)
			} else {
				require.NotContains(t, o.Responses, "304", name)
			}
		}
	})
	t.Run("names every endpoint once, in a group that is explained", func(t *testing.T) {
		groups := map[string]bool{}
		for _, tag := range root["tags"].([]any) {
			groups[tag.(map[string]any)["name"].(string)] = true
		}
		seen := map[string]bool{}
		for name, o := range operations {
			require.NotEmpty(t, o.Summary, name)
			require.False(t, seen[o.OperationID], o.OperationID)
			seen[o.OperationID] = true
			require.Len(t, o.Tags, 1, name)
			require.True(t, groups[o.Tags[0]], "%s is in the group %q, which is not explained", name, o.Tags[0])
		}
	})
	t.Run("has what its references lead to", func(t *testing.T) {
		refs := regexp.MustCompile(`"\$ref":"#/([^"]+)"`).FindAllStringSubmatch(raw, -1)
		require.NotEmpty(t, refs)
		for _, ref := range refs {
			var at any = root
			for _, name := range strings.Split(ref[1], "/") {
				at = at.(map[string]any)[name]
				require.NotNil(t, at, ref[0])
			}
		}
	})
	t.Run("has no endpoint that is not there", func(t *testing.T) {
		for name := range operations {
			method, path, _ := strings.Cut(name, " ")
			path = regexp.MustCompile(`\{[a-z]+\}`).ReplaceAllString(path, "x")
			res := w.ask(http.MethodTrace, path, "")
			require.Contains(t, problem(t, res, http.StatusMethodNotAllowed), "urn:tidings:method", name)
			require.Contains(t, strings.Split(res.Header.Get("Allow"), ", "), method, name)
		}
	})
}

// Whatever is wrong with a request, the answer is a problem with a name.
func TestEveryRefusalIsAProblem(t *testing.T) {
	w := newWorld(t)
	_, _, operations := description(t, w)
	large := `{"reason":"` + strings.Repeat("x", 18<<20) + `"}`
	for name, o := range operations {
		t.Run(name, func(t *testing.T) {
			method, path, _ := strings.Cut(name, " ")
			path = regexp.MustCompile(`\{[a-z]+\}`).ReplaceAllString(path, "x")
			if o.Security == nil {
				problem(t, w.ask(method, path, "", "Authorization", ""), http.StatusUnauthorized)
			}
			if method != http.MethodGet {
				problem(t, w.ask(method, path, "{}", "Sec-Fetch-Site", "cross-site"), http.StatusForbidden)
			}
			if o.RequestBody != nil {
				problem(t, w.ask(method, path, large, "Content-Type", "application/json"), http.StatusRequestEntityTooLarge)
			}
			anything := method == http.MethodPost && (path == "/v1/events" || path == "/v1/preview")
			if o.RequestBody != nil && !anything {
				problem(t, w.ask(method, path, "", "Content-Type", "application/json"), http.StatusBadRequest)
				for _, body := range []string{"{", "[]", "7", `"x"`, `{"nothing":1}`, "\x00"} {
					res := w.ask(method, path, body, "Content-Type", "application/json")
					require.Contains(t, []int{http.StatusBadRequest, http.StatusUnprocessableEntity}, res.StatusCode, body)
					problem(t, res, res.StatusCode)
				}
				problem(t, w.ask(method, path, "{}", "Content-Type", "application/xml"), http.StatusUnsupportedMediaType)
			}
			res := w.ask(method, path+"?no_such_parameter=1", "{}", "Content-Type", "application/json")
			if !anything {
				require.Contains(t, []int{http.StatusBadRequest, http.StatusUnprocessableEntity}, res.StatusCode)
				require.Contains(t, problem(t, res, res.StatusCode), "no_such_parameter")
			}
		})
	}
}

func has[K comparable, V any](m map[K]V, key K) bool { _, ok := m[key]; return ok }

// What is answered has the form that the description gives it.
func TestAnswersAreAsDescribed(t *testing.T) {
	w := newWorld(t)
	_, root, _ := description(t, w)
	require.NotContains(t, dig(t, root, "components", "schemas", "LedgerRow"), "additionalProperties", "members are added in time")
	require.Equal(t, false, dig(t, root, "components", "schemas", "Change")["additionalProperties"], "but a request is checked")
	closeAll(root) // today it says what there is
	compiler := validator.NewCompiler()
	compiler.AssertFormat()
	require.NoError(t, compiler.AddResource("openapi.json", root))

	ref := storetest.Ref("a", 1)
	w.record(ref, claimed, planned, delivered, event.Settled{})
	dead := storetest.Ref("a", 2)
	w.letter(event.Letter{
		Schema: event.Schema, Kind: event.LetterEvent, Tenant: dead.Tenant, Key: dead.Key, Cause: event.CauseUncertain,
		Stage: event.StageDispatcher, At: storetest.Start, Event: &dead, Data: []byte("{}"),
	})
	for path, at := range map[string]string{
		"/v1/events":                          "/v1/events",
		"/v1/events?tenant=nobody":            "/v1/events",
		"/v1/events/" + ref.ID:                "/v1/events/{id}",
		"/v1/events/" + ref.ID + "/history":   "/v1/events/{id}/history",
		"/v1/events/nothing":                  "/v1/events/{id}",
		"/v1/events/" + ref.ID + "/why":       "/v1/events/{id}/why",
		"/v1/events/" + ref.ID + "/messages":  "/v1/events/{id}/messages",
		"/v1/counts":                          "/v1/counts",
		"/v1/counts?by=hour":                  "/v1/counts",
		"/v1/deadletters/causes":              "/v1/deadletters/causes",
		"/v1/deadletters":                     "/v1/deadletters",
		"/v1/deadletters/groups?by=cause":     "/v1/deadletters/groups",
		"/v1/deadletters/" + string(dead.Key): "/v1/deadletters/{key}",
		"/v1/deadletters/nothing":             "/v1/deadletters/{key}",
		"/v1/status":                          "/v1/status",
		"/healthz":                            "/healthz",
		"/readyz":                             "/readyz",
		"/v1/replays":                         "/v1/replays",
		"/v1/records?after=x":                 "/v1/records",
		"/v1/export":                          "/v1/export",
	} {
		t.Run(path, func(t *testing.T) {
			res := w.ask(http.MethodGet, path, "")
			status := res.Status[:3]
			responses := dig(t, root, "paths", at, "get", "responses")
			if !has(responses, status) {
				status = "default"
			}
			kind, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";")
			require.Contains(t, slices.Collect(maps.Keys(dig(t, responses, status, "content"))), kind)
			pointer := "openapi.json#/" + strings.Join([]string{
				"paths", strings.NewReplacer("~", "~0", "/", "~1").Replace(at), "get", "responses", status, "content",
				strings.ReplaceAll(kind, "/", "~1"), "schema",
			}, "/")
			schema, err := compiler.Compile(pointer)
			require.NoError(t, err)
			body, err := validator.UnmarshalJSON(res.Body)
			require.NoError(t, err)
			require.NoError(t, schema.Validate(body))
		})
	}
}

// closeAll makes every object in a schema one that has no other members than those
// that are named.
func closeAll(v any) {
	switch v := v.(type) {
	case map[string]any:
		if has(v, "properties") && v["type"] == "object" && !has(v, "additionalProperties") {
			v["additionalProperties"] = false
		}
		for _, part := range v {
			closeAll(part)
		}
	case []any:
		for _, part := range v {
			closeAll(part)
		}
	}
}

func dig(t *testing.T, m map[string]any, path ...string) map[string]any {
	t.Helper()
	for _, name := range path {
		next, ok := m[name].(map[string]any)
		require.True(t, ok, "there is no %s in %v", name, path)
		m = next
	}
	return m
}
