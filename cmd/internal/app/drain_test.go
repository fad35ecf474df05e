package app_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/cmd/internal/api"
	"tidings/dispatcher/channel/channeltest/sink"
	"tidings/streams/event"
)

// A process is told to stop in the middle of sends, a hundred times. What was being
// sent is finished, what was not begun goes on in the next process, and nothing is
// cut, sent twice or given to an operator.
func TestAHundredStopsInTheMiddleOfSends(t *testing.T) {
	const stops, eventsEach = 100, 6
	var stop atomic.Pointer[stopping]
	hold := func() {
		s := stop.Load()
		select {
		case s.inside <- struct{}{}:
		default:
		}
		<-s.told
		time.Sleep(time.Duration(rand.IntN(40)) * time.Millisecond) // some finish after others
	}
	w := newWorld(t, map[string]http.HandlerFunc{"/held": func(http.ResponseWriter, *http.Request) { hold() }})
	mails, err := sink.StartSMTP(sink.SMTPOptions{Answer: func(step sink.Step, _ sink.Mail) error {
		if step == sink.StepEnd {
			hold()
		}
		return nil
	}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = mails.Close() })
	w.mailsToo(mails)

	for i := range stops {
		s := &stopping{inside: make(chan struct{}, 1), told: make(chan struct{})}
		stop.Store(s)
		p := w.spawn()
		client := p.client()
		for n := range eventsEach {
			w.tell(client, fmt.Sprintf("%d-%d", i, n), "/held")
		}
		<-s.inside
		require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
		close(s.told)
		require.NoError(t, p.cmd.Wait(), "it ends by itself, without an error")
	}
	p := w.spawn()
	for _, r := range w.rows(p.client(), stops*eventsEach) {
		require.Equal(t, event.Processed, r.Outcome, "%s", r.EventID)
		require.Equal(t, event.PhaseSettled, r.Phase, "%s is no dead letter", r.EventID)
		require.Equal(t, event.Counts{Created: 2, Delivered: 2}, r.Messages, "%s", r.EventID)
		require.Zero(t, r.Crashes, "%s", r.EventID)
		require.Equal(t, 2, r.Tries, "%s: one for each message, and none that was cut", r.EventID)
	}
	p.terminate()
	for name, sent := range map[string]map[string]int{"hooks": w.hooks.ByID(), "mails": mails.ByMessageID()} {
		require.Len(t, sent, stops*eventsEach, name)
		for id, n := range sent {
			require.Equal(t, 1, n, "%s: %s", name, id)
		}
	}
}

// stopping is one stop: something is inside a send, and the process was told.
type stopping struct{ inside, told chan struct{} }

// mailsToo configures a mail for every event beside the hook.
func (w *world) mailsToo(mails *sink.SMTP) {
	w.Helper()
	dir := filepath.Dir(w.path)
	letter := filepath.Join(dir, "templates", "letter")
	require.NoError(w, os.MkdirAll(letter, 0o700))
	for _, file := range []string{"subject.txt", "text.txt"} {
		require.NoError(w, os.WriteFile(filepath.Join(letter, file), []byte("Order {{.id}}"), 0o600))
	}
	text := fmt.Sprintf(`
data: %s
api: {listen: "127.0.0.1:0"}
templates: templates
channels:
  hook: {kind: webhook, secret: whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=, allow_private: true}
  mail: {kind: email, host: %s, port: %d, tls: none, from: shop@example.com, concurrency: 2}
routes:
  - {name: hook, event: "order.*", channel: hook, recipients: data.url}
  - {name: mail, event: "order.*", channel: mail, recipients: data.to, template: letter}
`, filepath.Join(dir, "data"), mails.Host(), mails.Port())
	require.NoError(w, os.WriteFile(w.path, []byte(text), 0o600))
	w.load()
}

// tell publishes an order of which a hook and a mail tell.
func (w *world) tell(client *api.Client, id, path string) {
	w.Helper()
	body, err := json.Marshal(map[string]string{"url": w.hooks.URL(path), "to": "ada@example.com"})
	require.NoError(w, err)
	h := http.Header{
		"Content-Type":   {"application/json"},
		"Ce-Specversion": {"1.0"}, "Ce-Id": {id}, "Ce-Source": {"shop"}, "Ce-Type": {"order.placed"},
	}
	w.eventually("the event is taken in", func() bool {
		_, err := client.Publish(w.Context(), h, body)
		return err == nil
	})
}
