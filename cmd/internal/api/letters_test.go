package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"tidings/cmd/internal/api"
	"tidings/store"
	"tidings/store/storetest"
	"tidings/streams"
	"tidings/streams/event"
	"tidings/streams/streamstest"
)

func TestDeadLetters(t *testing.T) {
	w := newWorld(t)
	raw := []byte("<script>\x00\xff not an event")
	l := event.Letter{
		Schema: event.Schema, Kind: event.LetterDelivery, Tenant: "a", Key: event.NewKey("letter"),
		Cause: event.CauseUndecodable, Stage: event.StageBridge, Detail: "neither", At: storetest.Start, Data: raw,
		Delivery: &event.Delivery{Queue: "orders", Headers: json.RawMessage(`{"x":{"l":1}}`)},
	}
	sequence := w.letter(l)
	t.Run("the list names them without payload", func(t *testing.T) {
		page, err := w.client.DeadLetters(t.Context(), store.LetterQuery{Cause: event.CauseUndecodable, Kind: event.LetterDelivery})
		require.NoError(t, err)
		require.Len(t, page.Items, 1)
		require.EqualValues(t, len(raw), page.Items[0].Size)
		page, err = w.client.DeadLetters(t.Context(), store.LetterQuery{Tenant: "b"})
		require.NoError(t, err)
		require.Empty(t, page.Items)
	})
	t.Run("one is shown whole", func(t *testing.T) {
		got, err := w.client.DeadLetter(t.Context(), l.Key)
		require.NoError(t, err)
		require.Equal(t, l, got)
	})
	t.Run("its payload is given byte for byte, as nothing that a browser would show", func(t *testing.T) {
		var got bytes.Buffer
		require.NoError(t, w.client.Payload(t.Context(), l.Key, &got))
		require.Equal(t, raw, got.Bytes())
		res := w.ask(http.MethodGet, "/v1/deadletters/"+string(l.Key)+"/raw", "")
		require.Equal(t, "application/octet-stream", res.Header.Get("Content-Type"))
		require.Equal(t, "attachment", res.Header.Get("Content-Disposition"))
		require.Equal(t, "nosniff", res.Header.Get("X-Content-Type-Options"))
	})
	t.Run("one that is not there, in the list or in the log, is said to be not there", func(t *testing.T) {
		for _, path := range []string{"nokey", string(event.NewKey("x")), string(event.NewKey("x")) + "/raw"} {
			require.Contains(t, problem(t, w.ask(http.MethodGet, "/v1/deadletters/"+path, ""), http.StatusNotFound), "urn:tidings:not-found")
		}
		require.NoError(t, w.stream.DeadLetters.Remove(t.Context(), sequence))
		problem(t, w.ask(http.MethodGet, "/v1/deadletters/"+string(l.Key), ""), http.StatusNotFound)
	})
}

func TestPayloadsThatAreTooLargeForALetter(t *testing.T) {
	l := event.Letter{
		Schema: event.Schema, Kind: event.LetterDelivery, Tenant: "a", Key: event.NewKey("large"),
		Cause: event.CauseOversize, Stage: event.StageBridge, At: storetest.Start, Data: make([]byte, 16<<20),
	}
	_, _ = rand.NewChaCha8([32]byte{}).Read(l.Data)
	world := func(t *testing.T) (*world, *streamstest.Server) {
		t.Helper()
		w, server := newWorld(t), streamstest.NewServer(t)
		w.stream = server.Log()
		w.options.Letters = w.stream.DeadLetters
		w.letter(l)
		return w, server
	}
	t.Run("are given byte for byte, and shown by name and size", func(t *testing.T) {
		w, _ := world(t)
		w.serve()
		var got bytes.Buffer
		require.NoError(t, w.client.Payload(t.Context(), l.Key, &got))
		require.True(t, bytes.Equal(l.Data, got.Bytes()))

		shown, err := w.client.DeadLetter(t.Context(), l.Key)
		require.NoError(t, err)
		require.Empty(t, shown.Data)
		require.EqualValues(t, len(l.Data), shown.PayloadObject.Size)
		page, err := w.client.DeadLetters(t.Context(), store.LetterQuery{})
		require.NoError(t, err)
		require.EqualValues(t, len(l.Data), page.Items[0].Size)

		res := w.ask(http.MethodGet, "/v1/deadletters/"+string(l.Key)+"/raw", "")
		require.Equal(t, strconv.Itoa(len(l.Data)), res.Header.Get("Content-Length"))
		require.Equal(t, "application/octet-stream", res.Header.Get("Content-Type"))
	})
	t.Run("break off where they are damaged", func(t *testing.T) {
		w, server := world(t)
		js, err := jetstream.New(server.Connect())
		require.NoError(t, err)
		stream, err := js.Stream(t.Context(), streams.OversizeStream)
		require.NoError(t, err)
		require.NoError(t, stream.DeleteMsg(t.Context(), 20))
		w.serve()
		require.ErrorContains(t, w.client.Payload(t.Context(), l.Key, io.Discard), "its answer broke off")
	})
	t.Run("say so where they are gone", func(t *testing.T) {
		w, server := world(t)
		js, err := jetstream.New(server.Connect())
		require.NoError(t, err)
		stream, err := js.Stream(t.Context(), streams.OversizeStream)
		require.NoError(t, err)
		require.NoError(t, stream.Purge(t.Context()))
		w.serve()
		require.ErrorContains(t, w.client.Payload(t.Context(), l.Key, io.Discard), "it is gone: the object is damaged")
	})
	t.Run("are not believed where something else answers", func(t *testing.T) {
		w := newWorld(t)
		w.options.Letters = otherBytes{w.stream.DeadLetters}
		small := l
		small.Data = []byte("abc")
		w.letter(small)
		w.serve()
		require.ErrorContains(t, w.client.Payload(t.Context(), l.Key, io.Discard), "its digest is another")
	})
}

// otherBytes gives other payloads than the letters have.
type otherBytes struct{ api.Letters }

func (otherBytes) Payload(context.Context, event.Letter) (io.Reader, error) {
	return strings.NewReader("abd"), nil
}
