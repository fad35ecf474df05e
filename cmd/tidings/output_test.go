package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTables(t *testing.T) {
	rows := [][]string{{"o-1", "", "ä"}, {"a\tb", "processed", "x"}}
	t.Run("for people there is a head, and columns are aligned", func(t *testing.T) {
		var out bytes.Buffer
		require.NoError(t, aligned(&out, []string{"ID", "OUTCOME", "X"}, rows))
		require.Equal(t, "ID      OUTCOME    X\no-1     -          ä\na\\x09b  processed  x\n", out.String())
	})
	t.Run("for programs a row has as many tabs as it has columns, less one", func(t *testing.T) {
		var out bytes.Buffer
		require.NoError(t, separated(&out, rows))
		for line := range strings.Lines(out.String()) {
			require.Equal(t, 2, strings.Count(line, "\t"))
		}
	})
	t.Run("a reader that has gone is an error", func(t *testing.T) {
		require.Error(t, separated(gone{}, rows))
		require.Error(t, aligned(gone{}, rows[0], rows))
	})
}

type gone struct{}

func (gone) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestClean(t *testing.T) {
	for name, tt := range map[string][2]string{
		"text of any language":  {"Grüße, 世界 ✓", "Grüße, 世界 ✓"},
		"a colour":              {"\x1b[31mred", `\x1b[31mred`},
		"a line break":          {"a\r\nb", `a\x0d\x0ab`},
		"a C1 control":          {"\u009b31m", `\x9b31m`},
		"a change of direction": {"a\u202eb", `a\u202eb`},
		"what is not UTF-8":     {"a\xffb", "a\ufffdb"},
	} {
		t.Run(name+" is shown, not obeyed", func(t *testing.T) {
			require.Equal(t, tt[1], clean(tt[0]))
		})
	}
	t.Run("what is to be kept is kept", func(t *testing.T) {
		require.Equal(t, "a\nb\\x09", clean("a\nb\t", '\n'))
	})
}

func TestURLOf(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1:8420": "http://127.0.0.1:8420", ":8420": "http://127.0.0.1:8420", "0.0.0.0:1": "http://127.0.0.1:1",
		"[::]:1": "http://127.0.0.1:1", "[::1]:1": "http://[::1]:1", "example.org:80": "http://example.org:80",
	} {
		t.Run("a process on "+address+" is found at "+want, func(t *testing.T) { require.Equal(t, want, urlOf(address)) })
	}
}

func TestLocal(t *testing.T) {
	t.Run("the token in the data directory is for this machine alone", func(t *testing.T) {
		for url, want := range map[string]bool{
			"http://127.0.0.1:8420": true, "http://localhost:1": true, "http://[::1]:1": true,
			"http://example.org": false, "http://10.0.0.1:8420": false, "http://127.0.0.1.example.org": false, "::": false,
		} {
			require.Equal(t, want, local(url), url)
		}
	})
}
