package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A search that walks over much and finds little answers with pages that are empty
// and are not the last, which takes more events than a test can write.
func TestAPageWithoutEventsIsNotTheLast(t *testing.T) {
	pages := map[string]string{
		"":  `{"items":[],"next":"b"}`,
		"b": `{"items":[{"key":"k1","event_id":"order-1"}],"next":"c"}`,
		"c": `{"items":[],"next":"d"}`,
		"d": `{"items":[{"key":"k2","event_id":"order-2"}]}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, pages[r.URL.Query().Get("cursor")])
	}))
	defer server.Close()
	for _, flags := range []string{"", " --json"} {
		var out bytes.Buffer
		root := newRoot(&cli{out: &out, err: &out, environ: []string{"TIDINGS_URL=" + server.URL, "TIDINGS_TOKEN=" + token}})
		root.SetArgs(strings.Fields("events list --all" + flags))
		require.NoError(t, root.ExecuteContext(t.Context()))
		require.Regexp(t, `(?s)^.*order-1.*\n.*order-2.*\n$`, out.String())
		require.Equal(t, 2, strings.Count(out.String(), "\n"))
	}
}
