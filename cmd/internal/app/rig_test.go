package app_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"tidings/bridge"
	"tidings/bridge/bridgetest"
	"tidings/cmd/internal/api"
	"tidings/cmd/internal/app"
	"tidings/cmd/internal/config"
	"tidings/dispatcher/channel/channeltest/sink"
	"tidings/store"
)

// A process of Tidings under test is this test binary, started again with
// childConfig naming a configuration file.
const childConfig = "TIDINGS_TEST_CHILD_CONFIG"

func TestMain(m *testing.M) {
	if path := os.Getenv(childConfig); path != "" {
		if err := child(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(bridgetest.Main(m))
}

// child runs the app as serve does: until SIGTERM, or until it is killed.
func child(path string) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	conf, err := config.Load(path, nil)
	if err != nil {
		return err
	}
	if file := os.Getenv(childFile); file != "" {
		return importing(conf, file)
	}
	a, err := app.New(app.Options{
		Config: conf, Logger: slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Listening: func(url string) {
			_ = os.WriteFile(path+".url.new", []byte(url), 0o600)
			_ = os.Rename(path+".url.new", path+".url")
		},
	})
	if err != nil {
		return err
	}
	return errors.Join(a.Run(ctx), a.Close())
}

// world is what Tidings talks to, and a configuration for it.
type world struct {
	testing.TB
	hooks *sink.HTTP
	mails *sink.SMTP
	conf  config.Config
	path  string // of the configuration file
	// logger is that of what start runs; nil discards.
	logger *slog.Logger
}

// newWorld returns a world without RabbitMQ. handle answers paths of the HTTP receiver.
func newWorld(t *testing.T, handle map[string]http.HandlerFunc) *world {
	t.Helper()
	hooks, err := sink.StartHTTP(sink.HTTPOptions{Handle: handle, Keep: 100_000})
	require.NoError(t, err)
	t.Cleanup(func() { _ = hooks.Close() })
	mails, err := sink.StartSMTP(sink.SMTPOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = mails.Close() })
	dir := t.TempDir()
	w := &world{TB: t, hooks: hooks, mails: mails, path: filepath.Join(dir, "tidings.yaml")}
	text := fmt.Sprintf(`
data: %s
api: {listen: "127.0.0.1:0"}
channels:
  hook: {kind: webhook, secret: whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=, allow_private: true, base: 1ms, rounds: [], breaker: {failures: 1000000}}
routes:
  - {name: hook, event: "order.*", channel: hook, recipients: data.url}
`, filepath.Join(dir, "data"))
	require.NoError(t, os.WriteFile(w.path, []byte(text), 0o600))
	w.load()
	return w
}

func (w *world) load() {
	w.Helper()
	conf, err := config.Load(w.path, nil)
	require.NoError(w, err)
	w.conf = conf
}

// text returns the configuration file, and write makes it anew.
func (w *world) text() string {
	w.Helper()
	text, err := os.ReadFile(w.path)
	require.NoError(w, err)
	return string(text)
}

func (w *world) write(text string) {
	w.Helper()
	require.NoError(w, os.WriteFile(w.path, []byte(text), 0o600))
	w.load()
}

// add appends lines to the configuration file.
func (w *world) add(lines string) {
	w.Helper()
	f, err := os.OpenFile(w.path, os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(w, err)
	_, err = f.WriteString(lines + "\n")
	require.NoError(w, errors.Join(err, f.Close()))
	w.load()
}

// start runs the app in this process. stop ends it as SIGTERM does, and waits.
func (w *world) start() (client *api.Client, stop func()) {
	w.Helper()
	listening := make(chan string, 1)
	a, err := app.New(app.Options{
		Config: w.conf, Load: func() (config.Config, error) { return config.Load(w.path, nil) },
		Logger: w.logger, Listening: func(url string) { listening <- url },
	})
	require.NoError(w, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			cancel()
			require.NoError(w, <-ended)
			require.NoError(w, a.Close())
		}
	}
	w.Cleanup(stop)
	return w.client(<-listening), stop
}

func (w *world) client(url string) *api.Client {
	w.Helper()
	token, err := api.ReadToken(w.conf.Data)
	require.NoError(w, err)
	return &api.Client{BaseURL: url, Token: token}
}

// process is a child.
type process struct {
	w   *world
	cmd *exec.Cmd
}

// spawn starts a process of its own on the configuration.
func (w *world) spawn() *process {
	w.Helper()
	_ = os.Remove(w.path + ".url")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childConfig+"="+w.path)
	cmd.Stderr = os.Stderr
	require.NoError(w, cmd.Start())
	p := &process{w: w, cmd: cmd}
	w.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return p
}

// client waits until the process takes requests.
func (p *process) client() *api.Client {
	p.w.Helper()
	var url []byte
	p.w.eventually("the process listens", func() bool {
		var err error
		url, err = os.ReadFile(p.w.path + ".url")
		return err == nil
	})
	return p.w.client(string(url))
}

// kill ends the process as an out-of-memory killer would.
func (p *process) kill() {
	p.w.Helper()
	require.NoError(p.w, p.cmd.Process.Kill())
	_ = p.cmd.Wait()
}

// terminate asks the process to end, and waits for it.
func (p *process) terminate() {
	p.w.Helper()
	require.NoError(p.w, p.cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(p.w, p.cmd.Wait(), "it ends by itself, without an error")
}

// eventually polls what has no event to wait for: another process.
func (w *world) eventually(what string, ok func() bool) {
	w.Helper()
	deadline := time.Now().Add(60 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			w.Fatalf("waited a minute for this: %s", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// rows waits until the ledger has n rows and all have ended, and returns them.
func (w *world) rows(client *api.Client, n int) []store.Row {
	w.Helper()
	var rows []store.Row
	w.eventually(fmt.Sprintf("%d events have ended", n), func() bool {
		rows = nil
		q := api.EventQuery{Query: store.Query{Limit: store.MaxLimit}}
		for {
			page, err := client.Events(w.Context(), q)
			if err != nil {
				return false
			}
			for _, r := range page.Items {
				if r.Ended() {
					rows = append(rows, r)
				}
			}
			if q.Cursor = page.Next; q.Cursor == "" {
				return len(rows) == n
			}
		}
	})
	return rows
}

// order returns the body of an event that is sent to a path of the HTTP receiver.
func (w *world) order(path string) []byte {
	body, _ := json.Marshal(map[string]string{"url": w.hooks.URL(path)})
	return body
}

// post publishes an order by HTTP.
func (w *world) post(client *api.Client, id, path string) api.Accepted {
	w.Helper()
	h := http.Header{"Content-Type": {"application/json"}}
	h.Set("ce-specversion", "1.0")
	h.Set("ce-id", id)
	h.Set("ce-source", "shop")
	h.Set("ce-type", "order.placed")
	var accepted api.Accepted
	w.eventually("the event is taken in", func() (ok bool) {
		var err error
		accepted, err = client.Publish(w.Context(), h, w.order(path))
		return err == nil
	})
	return accepted
}

// rabbit gives the world a RabbitMQ: a queue on a vhost of its own.
func (w *world) rabbit() *bridgetest.Vhost {
	w.Helper()
	v := bridgetest.New(w).Vhost(w)
	w.add(fmt.Sprintf("amqp: {url: %q, queue: orders, topology: declare}", v.URL))
	return v
}

// publish publishes orders by AMQP, each confirmed, waiting for the queue.
func (w *world) publish(url string, path string, ids ...string) {
	w.Helper()
	p, err := bridge.NewPublisher(url)
	require.NoError(w, err)
	defer p.Close()
	for _, id := range ids {
		msg := amqp.Publishing{
			MessageId: id, Type: "order.placed", AppId: "shop", ContentType: "application/json",
			DeliveryMode: amqp.Persistent, Body: w.order(path),
		}
		w.eventually("the queue is there", func() bool { return p.Publish(w.Context(), "", "orders", msg) == nil })
	}
}

// sent counts the requests that each message made.
func (w *world) sent() map[string]int {
	n := map[string]int{}
	for _, r := range w.hooks.Requests() {
		n[r.ID]++
	}
	return n
}

// part returns the part of that name from /readyz.
func (w *world) part(client *api.Client, name string) api.Part {
	w.Helper()
	s, err := client.Status(w.Context())
	require.NoError(w, err)
	for _, p := range s.Parts {
		if p.Name == name {
			return p
		}
	}
	return api.Part{Name: name, Reason: "not shown"}
}
