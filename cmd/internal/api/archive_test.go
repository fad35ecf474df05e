package api_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"tidings/cmd/internal/api"
	"tidings/store/storetest"
	"tidings/streams/archive"
	"tidings/streams/event"
	"tidings/streams/streamstest"
)

// exportable serves the export of the world's log.
func (w *world) exportable() {
	w.options.Archive = func() (archive.Source, bool) {
		return archive.Source{Outcomes: w.stream.Outcomes, DeadLetters: w.stream.DeadLetters, Objects: w.stream.Oversize}, true
	}
	w.serve()
}

// exported returns what comes of an export, and how it ended.
func (w *world) exported(after *archive.Checkpoint) ([]byte, archive.Checkpoint, error) {
	w.t.Helper()
	body, err := w.client.Export(w.t.Context(), after)
	if err != nil {
		return nil, archive.Checkpoint{}, err
	}
	defer body.Close()
	var b bytes.Buffer
	end, err := archive.Receive(io.TeeReader(body, &b), after, nil)
	return b.Bytes(), end, err
}

func problemOf(t *testing.T, err error) *api.ProblemError {
	t.Helper()
	p, ok := errors.AsType[*api.ProblemError](err)
	require.True(t, ok, "%v", err)
	return p
}

func TestExport(t *testing.T) {
	w := newWorld(t)
	t.Run("there is none while the log is not open", func(t *testing.T) {
		_, _, err := w.exported(nil)
		require.Equal(t, http.StatusServiceUnavailable, problemOf(t, err).Status)
	})
	w.exportable()
	w.records(1, 20)
	w.letter(event.Letter{Kind: event.LetterDelivery, Key: event.NewKey("x"), Tenant: "acme", Cause: event.CauseUndecodable, At: storetest.Start, Data: []byte("what came")})
	whole, end, err := w.exported(nil)
	require.NoError(t, err)

	t.Run("has all that the log has", func(t *testing.T) {
		require.EqualValues(t, 21, end.Entries())
		require.NotEmpty(t, whole)
	})
	t.Run("wants the token", func(t *testing.T) {
		stranger := api.Client{BaseURL: w.server.URL, Token: "guessed", HTTP: w.server.Client()}
		_, err := stranger.Export(t.Context(), nil)
		require.Equal(t, http.StatusUnauthorized, problemOf(t, err).Status)
	})
	t.Run("goes on behind a checkpoint, up to where it was begun", func(t *testing.T) {
		w.records(100, 5)
		var first archive.Checkpoint
		_, err := archive.Receive(bytes.NewReader(whole[:len(whole)-3]), nil, func(c archive.Checkpoint) { first = c })
		require.Error(t, err)
		rest, again, err := w.exported(&first)
		require.NoError(t, err)
		require.Equal(t, end, again)
		require.True(t, bytes.HasSuffix(whole, rest))
	})
	t.Run("but not that of another log", func(t *testing.T) {
		var first archive.Checkpoint
		_, err := archive.Receive(bytes.NewReader(whole[:len(whole)-3]), nil, func(c archive.Checkpoint) { first = c })
		require.Error(t, err)
		before := w.stream
		defer func() { w.stream = before }()
		w.stream = streamstest.New(t)
		_, _, err = w.exported(&first)
		p := problemOf(t, err)
		require.Equal(t, http.StatusConflict, p.Status)
		require.Equal(t, "other-log", p.Name)
	})
	t.Run("refuses what cannot be meant", func(t *testing.T) {
		for _, query := range []string{"after=12", "after=", "tenant=acme"} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.server.URL+"/v1/export?"+query, nil)
			require.NoError(t, err)
			r.Header.Set("Authorization", "Bearer "+token)
			res, err := w.server.Client().Do(r)
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			require.Equal(t, http.StatusBadRequest, res.StatusCode, query)
		}
	})
	t.Run("one at a time", func(t *testing.T) {
		noise := make([]byte, 12<<20) // which cannot be compressed
		_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
		for i := range 4 { // more than can wait on the way
			w.letter(event.Letter{
				Kind: event.LetterDelivery, Key: event.NewKey("large", fmt.Sprint(i)), Tenant: "acme", Cause: event.CauseOversize,
				At: storetest.Start, Data: noise,
			})
		}
		body, err := w.client.Export(t.Context(), nil)
		require.NoError(t, err)
		_, err = w.client.Export(t.Context(), nil)
		require.Equal(t, http.StatusServiceUnavailable, problemOf(t, err).Status)
		require.NoError(t, body.Close())
	})
}
