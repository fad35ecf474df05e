package event_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tidings/streams/event"
)

var page = filepath.Join("..", "..", "docs", "records.md")

// example is a golden file that the page shows.
var example = regexp.MustCompile("(?s)(<!-- from streams/event/(testdata/golden/[a-z_-]+\\.json);[^\n]*\n```json\n).*?```")

func TestPageShowsTheGoldenFile(t *testing.T) {
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	found := example.FindStringSubmatch(string(text))
	require.NotNil(t, found, "no example in %s", page)
	golden, err := os.ReadFile(filepath.FromSlash(found[2]))
	require.NoError(t, err)
	fresh := strings.Replace(string(text), found[0], found[1]+string(golden)+"```", 1)
	compareWithFile(t, page, fresh)
}

func TestPageNamesEverything(t *testing.T) {
	data, err := os.ReadFile(page)
	require.NoError(t, err)
	text := string(data)
	for _, f := range event.FactKinds() {
		require.Contains(t, section(t, text, "## Facts"), "\n| `"+string(f.FactKind())+"` |")
	}
	for _, kind := range constants(t)["Kind"] {
		require.Contains(t, section(t, text, "## Kinds"), "\n| `"+kind.value+"` |")
	}
	for _, typ := range []string{"MessageState", "Outcome"} {
		for _, c := range constants(t)[typ] {
			require.Contains(t, text, "`"+c.value+"`")
		}
	}
	for name := range schemas(t) {
		require.Contains(t, text, "("+name+".schema.json)")
	}
}

func section(t *testing.T, text, heading string) string {
	t.Helper()
	_, rest, found := strings.Cut(text, "\n"+heading+"\n")
	require.True(t, found, heading)
	body, _, _ := strings.Cut(rest, "\n## ")
	return body
}
