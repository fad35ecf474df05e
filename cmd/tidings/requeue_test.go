package main

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/cmd/internal/api"
	"tidings/streams/event"
)

func TestWhoeverInterruptsAWaitIsToldThatItGoesOn(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		interrupt() // while it is looked at
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"event":{"generation":1,"phase":"waiting"}}`)
	}))
	defer server.Close()
	c := &cli{out: io.Discard, err: io.Discard}
	done := api.Requeued{Event: event.Ref{Key: "kfQG3b8Tn6muLHPVukv2pQ"}, Generation: 1}
	err := interrupted(ctx, c.opened(ctx, &api.Client{BaseURL: server.URL}, done, true))
	require.EqualError(t, err, "interrupted: the event is worked on without you\nsee: tidings events why kfQG3b8Tn6muLHPVukv2pQ")
}

func TestDurationsInTheLogHaveAUnit(t *testing.T) {
	var out strings.Builder
	logger, err := (&cli{err: &out}).logger("info")
	require.NoError(t, err)
	logger.Info("the log takes events again", "after", 29691*time.Millisecond, slog.Group("in", "wait", time.Second))
	require.Contains(t, out.String(), `"after":"29.691s"`)
	require.Contains(t, out.String(), `"wait":"1s"`)
}
