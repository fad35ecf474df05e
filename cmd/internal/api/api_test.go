package api_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"tidings/bridge"
	"tidings/cmd/internal/api"
	"tidings/store"
	"tidings/store/storetest"
	"tidings/streams"
	"tidings/streams/event"
	"tidings/streams/streamstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const token = "0123456789abcdef0123456789abcdef"

// doorFunc is a door that does what the test wants.
type doorFunc func(context.Context, bridge.Arrival) (bridge.Receipt, error)

func (f doorFunc) Accept(ctx context.Context, a bridge.Arrival) (bridge.Receipt, error) {
	return f(ctx, a)
}

// world is a server on a real ledger and, for dead letters, a real log.
type world struct {
	t       *testing.T
	options api.Options
	ledger  *store.Store
	log     storetest.Log
	stream  *streams.Log
	parts   []api.Part
	door    doorFunc
	server  *httptest.Server
	client  *api.Client
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, ledger: storetest.Open(t), stream: streamstest.New(t)}
	w.options = api.Options{
		Ledger: w.ledger, Letters: w.stream.DeadLetters, Token: token, Version: "v1.2.3",
		Door: doorFunc(func(ctx context.Context, a bridge.Arrival) (bridge.Receipt, error) {
			return w.door(ctx, a)
		}),
		Parts:   func(context.Context) []api.Part { return w.parts },
		MaxBody: 1 << 10,
	}
	w.serve()
	return w
}

func (w *world) serve() {
	w.t.Helper()
	s, err := api.New(w.options)
	require.NoError(w.t, err)
	w.server = httptest.NewServer(s.Handler())
	w.t.Cleanup(w.server.Close)
	w.client = &api.Client{BaseURL: w.server.URL, Token: token, HTTP: w.server.Client()}
}

// record appends records of the facts, each alone, and folds them in.
func (w *world) record(ref event.Ref, facts ...event.Fact) {
	w.t.Helper()
	from := len(w.log.Lines)
	for _, f := range facts {
		w.log.Record(ref, f)
	}
	storetest.Apply(w.t, w.ledger, w.log.Lines[from:]...)
}

// letter puts a dead letter into log and ledger.
func (w *world) letter(l event.Letter) (sequence uint64) {
	w.t.Helper()
	sequence, _, err := w.stream.DeadLetters.Put(w.t.Context(), l)
	require.NoError(w.t, err)
	require.NoError(w.t, w.ledger.Update(func(tx *store.Tx) error {
		return tx.Letter(store.NewLetter(sequence, l))
	}))
	return sequence
}

// ask makes a request with the token, unless header says otherwise.
func (w *world) ask(method, path, body string, header ...string) *http.Response {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.server.URL+path, strings.NewReader(body))
	require.NoError(w.t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := w.server.Client().Do(req)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { require.NoError(w.t, res.Body.Close()) })
	return res
}

func text(t *testing.T, res *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return string(body)
}

// problem reads the answer's problem and checks its form: every one has a type.
func problem(t *testing.T, res *http.Response, status int) string {
	t.Helper()
	body := text(t, res)
	require.Equal(t, status, res.StatusCode, body)
	require.Equal(t, "application/problem+json", res.Header.Get("Content-Type"))
	require.Regexp(t, `"type":"urn:tidings:[a-z-]+"`, body)
	return body
}

var (
	claimed = event.Claimed{Owner: event.Owner{Instance: "i", Boot: "b"}, LeaseMS: 60_000, Limit: 64}
	message = event.PlannedMessage{
		ID: "m1", Route: "r", Channel: "mail", OnUnknown: event.Hold,
		Recipient: event.Recipient{Hash: "h", Mask: "a…@example.com"},
	}
	planned   = event.Planned{Messages: []event.PlannedMessage{message}}
	delivered = event.Tried{
		Message: "m1", Try: 1, Started: storetest.Start, Ended: storetest.Start.Add(time.Millisecond),
		Result: event.TryDelivered, Code: "smtp_250",
	}
)
