package main

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tidings/bridge"
	"tidings/cmd/internal/api"
	"tidings/store/storetest"
	"tidings/streams"
	"tidings/streams/archive"
	"tidings/streams/event"
	"tidings/streams/streamstest"
)

// cut is an answer that breaks off after some bytes; without a limit it is whole.
type cut struct {
	http.ResponseWriter
	left int
}

func (c *cut) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (c *cut) Write(p []byte) (int, error) {
	if c.left -= len(p); c.left < 0 {
		_, _ = c.ResponseWriter.Write(p[:len(p)+c.left])
		panic(http.ErrAbortHandler)
	}
	return c.ResponseWriter.Write(p)
}

// exportServer serves the export of a log whose answers break off.
func exportServer(t *testing.T, log *streams.Log, limit func() int) *httptest.Server {
	t.Helper()
	s, err := api.New(api.Options{
		Ledger: storetest.Open(t), Letters: log.DeadLetters, Token: token,
		Door: bridge.NewDoor(bridge.DoorOptions{Events: log.Events, Letters: log.DeadLetters, Audit: log.Outcomes}),
		Archive: func() (archive.Source, bool) {
			return archive.Source{Outcomes: log.Outcomes, DeadLetters: log.DeadLetters, Objects: log.Oversize}, true
		},
	})
	require.NoError(t, err)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.Handler().ServeHTTP(&cut{w, limit()}, r)
	}))
	t.Cleanup(server.Close)
	return server
}

func TestAnExportWhoseConnectionBreaksGoesOn(t *testing.T) {
	log := streamstest.New(t)
	noise := make([]byte, 3300<<10) // which cannot be compressed, and fills a frame
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	for i := range 8 {
		_, _, err := log.DeadLetters.Put(t.Context(), event.Letter{
			Kind: event.LetterDelivery, Key: event.NewKey("letter", string(rune('a'+i))), Tenant: "acme", Cause: event.CauseUndecodable,
			At: storetest.Start, Data: noise,
		})
		require.NoError(t, err)
	}
	limit := 0
	server := exportServer(t, log, func() int { return limit })
	run := func(name string) (string, error) {
		var said strings.Builder
		root := newRoot(&cli{out: io.Discard, err: &said, environ: []string{"TIDINGS_TOKEN=" + token}})
		root.SetArgs([]string{"ledger", "export", name, "--url", server.URL})
		err := root.ExecuteContext(context.WithoutCancel(t.Context()))
		return said.String(), err
	}
	limit = 1 << 30
	whole := filepath.Join(t.TempDir(), "whole")
	_, err := run(whole)
	require.NoError(t, err)
	info, err := os.Stat(whole)
	require.NoError(t, err)

	limit = int(info.Size()) / 4
	name, broke := filepath.Join(t.TempDir(), "broken"), 0
	for {
		said, err := run(name)
		if broke > 0 {
			require.Contains(t, said, "going on behind them")
		}
		if err == nil {
			break
		}
		broke++
		require.Less(t, broke, 10)
		require.Equal(t, exitFailed, exitCode(err))
		require.ErrorContains(t, err, "broke off")
		require.ErrorContains(t, err, "run the same command again, which goes on there")
		require.NoFileExists(t, name)
		require.FileExists(t, name+partEnding)
	}
	require.Greater(t, broke, 1)
	require.NoFileExists(t, name+partEnding)
	first, err := archive.Open(whole)
	require.NoError(t, err)
	second, err := archive.Open(name)
	require.NoError(t, err)
	require.Equal(t, first.End().Streams, second.End().Streams)
}
