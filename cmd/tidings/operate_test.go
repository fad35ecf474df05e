package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"tidings/cmd/internal/api"
	"tidings/cmd/internal/app"
	"tidings/cmd/internal/config"
	"tidings/dispatcher/channel/channeltest/sink"
	"tidings/store"
	"tidings/streams/event"
)

// TestOperateScripts runs the commands of operators against a whole Tidings, each
// script against one of its own, whose webhooks go to a partner that can be down:
//
//	partner down|up|hangs
func TestOperateScripts(t *testing.T) {
	cmds := commandsOfScripts()
	cmds["partner"] = func(ts *testscript.TestScript, _ bool, args []string) {
		ts.Value(partnerKey{}).(*atomic.Value).Store(args[0])
	}
	// letter VARIABLE ID waits for the dead letter of an event, and sets a variable to its key.
	cmds["letter"] = func(ts *testscript.TestScript, _ bool, args []string) {
		ts.Setenv(args[0], waitForLetter(ts, func(l api.LetterLine) bool { return l.EventID == args[1] }))
	}
	// delivery VARIABLE CAUSE sets a variable to the key of the dead letter of that cause.
	cmds["delivery"] = func(ts *testscript.TestScript, _ bool, args []string) {
		ts.Setenv(args[0], waitForLetter(ts, func(l api.LetterLine) bool { return string(l.Cause) == args[1] }))
	}
	// message VARIABLE ID STATE waits for a message of the event in that state, and sets a variable to its id.
	cmds["message"] = func(ts *testscript.TestScript, _ bool, args []string) {
		ts.Setenv(args[0], waitForMessage(ts, args[1], args[2]))
	}
	// known ID waits until the event has ended and is in the ledger.
	cmds["known"] = func(ts *testscript.TestScript, _ bool, args []string) { waitForEnd(ts, args[0]) }
	// requests PATH N wants the partner to get that many requests at a path, and no more.
	cmds["requests"] = func(ts *testscript.TestScript, _ bool, args []string) {
		want, err := strconv.Atoi(args[1])
		ts.Check(err)
		n := requestsAt(ts, args[0])
		for deadline := time.Now().Add(30 * time.Second); n < want && time.Now().Before(deadline); n = requestsAt(ts, args[0]) {
			time.Sleep(10 * time.Millisecond)
		}
		if n != want {
			ts.Fatalf("%d requests at %s, want %d", n, args[0], want)
		}
	}
	// mails writes whom mails were sent to, and their subjects.
	cmds["mails"] = func(ts *testscript.TestScript, _ bool, _ []string) {
		for _, m := range ts.Value(sinksKey{}).(sinks).mails.Mails() {
			fmt.Fprintf(ts.Stdout(), "%v %s\n", m.To, m.Subject)
		}
	}
	// plant FILE writes the row of an event that never was into a ledger that nobody has open.
	cmds["plant"] = func(ts *testscript.TestScript, _ bool, args []string) {
		ledger, err := store.Open(ts.MkAbs(args[0]), store.Options{})
		ts.Check(err)
		ref := event.Ref{Key: event.NewKey("never was"), Tenant: "nobody", ID: "never-was", Type: "order.placed", ReceivedAt: time.Now()}
		record := event.NewRecord(ref, event.State{}, time.Now(), event.Claimed{})
		ts.Check(ledger.Update(func(tx *store.Tx) error { return tx.Record(store.Place{Sequence: 1, Time: time.Now()}, record) }))
		ts.Check(ledger.Close())
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/operate", RequireExplicitExec: true, Cmds: cmds,
		Setup: func(e *testscript.Env) error { return runApp(t, e) },
	})
}

type (
	partnerKey struct{}
	sinksKey   struct{}
)

// sinks are what receives messages.
type sinks struct {
	hooks *sink.HTTP
	mails *sink.SMTP
}

func requestsAt(ts *testscript.TestScript, path string) int {
	n := 0
	for _, r := range ts.Value(sinksKey{}).(sinks).hooks.Requests() {
		if r.Path == path {
			n++
		}
	}
	return n
}

// writeTemplate writes the template of mails, with a sample.
func writeTemplate(t *testing.T, dir string) {
	require.NoError(t, os.MkdirAll(dir, 0o700))
	for name, text := range map[string]string{
		"subject.txt": "Order {{.data.order}}", "text.txt": "Dear {{.data.name}}, it is on its way.\n",
		"subject.de.txt": "Bestellung {{.data.order}}", "text.de.txt": "Hallo {{.data.name}}, sie ist unterwegs.\n",
		"_sample.json": `{"order":"4711","name":"Sam Sample","email":"sam@customer.example"}`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
}

// runApp starts a Tidings for a script.
func runApp(t *testing.T, e *testscript.Env) error {
	mood := new(atomic.Value)
	mood.Store("up")
	partner, err := sink.StartHTTP(sink.HTTPOptions{Handle: map[string]http.HandlerFunc{
		"/partner": func(w http.ResponseWriter, r *http.Request) {
			switch mood.Load() {
			case "down":
				w.WriteHeader(http.StatusInternalServerError)
			case "hangs": // until the caller has enough of it
				<-r.Context().Done()
			}
		},
	}})
	require.NoError(t, err)
	mails, err := sink.StartSMTP(sink.SMTPOptions{})
	require.NoError(t, err)
	writeTemplate(t, filepath.Join(e.WorkDir, "templates", "shipped"))
	path := filepath.Join(e.WorkDir, "tidings.yaml")
	text := fmt.Sprintf(`
data: %s
api: {listen: "127.0.0.1:0", token: %s}
nats: {durability: relaxed}
templates: templates
suppressions: [{address: never@shop.example, reason: asked}]
channels:
  mail: {kind: email, host: 127.0.0.1, port: %d, tls: none, from: shop@shop.example}
  hook: {kind: webhook, secret: whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=, allow_private: true, base: 1ms, rounds: [], breaker: {failures: 1000000}}
  shut: {kind: webhook, secret: whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=, allow_private: true, tries: 1, rounds: [], breaker: {failures: 1, open_for: 1h}}
  held: {kind: webhook, secret: whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=, allow_private: true, on_unknown: hold, timeout: 300ms}
routes:
  - {name: shipped, event: parcel.shipped, when: "data.never", channel: mail, template: shipped, recipients: data.email, locale: data.locale}
  - {name: hook, event: "order.*", channel: hook, recipients: "data.to"}
  - {name: shut, event: "news.*", channel: shut, recipients: "data.to"}
  - {name: held, event: "slow.*", channel: held, recipients: "data.to"}
`, filepath.Join(e.WorkDir, "data"), token, mails.Port())
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	conf, err := config.Load(path, nil)
	require.NoError(t, err)
	listening := make(chan string, 1)
	a, err := app.New(app.Options{Config: conf, Listening: func(url string) { listening <- url }})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	e.Defer(func() {
		cancel()
		require.NoError(t, <-done)
		require.NoError(t, a.Close())
		require.NoError(t, partner.Close())
		require.NoError(t, mails.Close())
	})
	e.Values[partnerKey{}] = mood
	e.Values[sinksKey{}] = sinks{partner, mails}
	client := &api.Client{BaseURL: <-listening, Token: token}
	require.Eventually(t, func() bool {
		ready, err := client.Ready(ctx)
		return err == nil && ready.Ready
	}, 30*time.Second, 10*time.Millisecond)
	e.Setenv("TIDINGS_URL", client.BaseURL)
	e.Setenv("TIDINGS_TOKEN", token)
	e.Setenv("TIDINGS_OPERATOR", "ann@desk")
	e.Setenv("PARTNER", partner.URL("/partner"))
	e.Setenv("OK", partner.URL("/ok"))
	return nil
}

// waitForLetter returns the key of a dead letter that an operator has to look at, once
// it is in the list.
func waitForLetter(ts *testscript.TestScript, wanted func(api.LetterLine) bool) string {
	client := scriptClient(ts)
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		page, err := client.DeadLetters(context.Background(), api.LetterQuery{})
		ts.Check(err)
		for _, l := range page.Items {
			if wanted(l) && l.Status == api.LetterDead {
				return string(l.Key)
			}
		}
	}
	ts.Fatalf("no such dead letter within 30 s")
	return ""
}

func waitForEnd(ts *testscript.TestScript, id string) {
	client := scriptClient(ts)
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if found, err := client.Event(context.Background(), id, ""); err == nil && found.Event.Ended() {
			return
		}
	}
	ts.Fatalf("%s has not ended within 30 s", id)
}

func waitForMessage(ts *testscript.TestScript, id, state string) string {
	client := scriptClient(ts)
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		found, err := client.Event(context.Background(), id, "")
		if p, ok := errors.AsType[*api.ProblemError](err); ok && p.Status == http.StatusNotFound {
			continue // not in the ledger yet
		}
		ts.Check(err)
		for _, m := range found.Messages {
			if string(m.State) == state {
				return m.ID
			}
		}
	}
	ts.Fatalf("no message of %s that is %s within 30 s", id, state)
	return ""
}

func scriptClient(ts *testscript.TestScript) *api.Client {
	return &api.Client{BaseURL: ts.Getenv("TIDINGS_URL"), Token: token}
}
