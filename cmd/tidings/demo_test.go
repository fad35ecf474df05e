package main

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tidings/cmd/internal/demo"
)

func TestPrintReport(t *testing.T) {
	t.Run("is a table with heads where nobody looks at a terminal, too", func(t *testing.T) {
		var out bytes.Buffer
		require.NoError(t, (&cli{out: &out}).printReport(demo.Report{
			Events:       []demo.Event{{Shows: "order placed", Type: "order.placed", EventID: "o-1", Outcome: "processed", Tries: 2}},
			DeadLetters:  []demo.Letter{{Key: "k", Cause: "undecodable", Stage: "bridge", Detail: "no JSON"}},
			SMTPReceived: 1, OK: true,
		}))
		require.NotContains(t, out.String(), "\t")
		require.Equal(t, `SAMPLE        TYPE          ID   OUTCOME    MESSAGES  TRIES  DUPLICATES
order placed  order.placed  o-1  processed  none      2      0

DEAD LETTER  CAUSE        STAGE   DETAIL
k            undecodable  bridge  no JSON

mails received: 1, webhook requests received: 0; every row is as expected
`, out.String())
	})
}

// The lines are given to a shell, with a binary that shows what it was called with.
func TestHintCanBePastedIntoAShell(t *testing.T) {
	place := demo.Place{
		URL: "http://127.0.0.1:4711", Data: "/tmp/it's a demo/data", Queue: "tidings.demo.x",
		AMQPURL: "amqp://guest:guest@127.0.0.1:5672/%2F?heartbeat=5&x=$HOME",
	}
	self := t.TempDir() + "/my tidings"
	show := exec.CommandContext(t.Context(), "sh", "-c", `printf '#!/bin/sh\nfor a in "$TIDINGS_URL" "$TIDINGS_DATA" "$@"; do echo "$a"; done\necho\n' >"$0" && chmod +x "$0"`, self)
	require.NoError(t, show.Run())
	out, err := exec.CommandContext(t.Context(), "sh", "-c", hint(self, place)).Output()
	require.NoError(t, err)

	calls := strings.Split(strings.TrimSpace(string(out)), "\n\n")
	require.Len(t, calls, 5)
	for _, call := range calls {
		args := strings.Split(call, "\n")
		require.Equal(t, []string{place.URL, place.Data}, args[:2])
		root := newRoot(&cli{})
		cmd, rest, err := root.Find(args[2:])
		require.NoError(t, err)
		require.NoError(t, cmd.ParseFlags(rest), "%s", call)
		require.NoError(t, arguments(cmd, cmd.Flags()), "%s", call)
		if cmd.Name() == "publish" {
			require.Equal(t, place.AMQPURL, cmd.Flag("amqp-url").Value.String())
			require.Equal(t, place.Queue, cmd.Flag("queue").Value.String())
			require.True(t, json.Valid([]byte(cmd.Flag("body").Value.String())))
		}
	}
}
