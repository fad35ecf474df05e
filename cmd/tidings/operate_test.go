package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"tidings/cmd/internal/api"
	"tidings/cmd/internal/app"
	"tidings/cmd/internal/config"
	"tidings/dispatcher/channel/channeltest/sink"
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
	testscript.Run(t, testscript.Params{
		Dir: "testdata/operate", RequireExplicitExec: true, Cmds: cmds,
		Setup: func(e *testscript.Env) error { return runApp(t, e) },
	})
}

type partnerKey struct{}

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
	path := filepath.Join(e.WorkDir, "tidings.yaml")
	text := fmt.Sprintf(`
data: %s
api: {listen: "127.0.0.1:0", token: %s}
nats: {durability: relaxed}
channels:
  hook: {kind: webhook, secret: whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=, allow_private: true, base: 1ms, rounds: [], breaker: {failures: 1000000}}
  held: {kind: webhook, secret: whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=, allow_private: true, on_unknown: hold, timeout: 300ms}
routes:
  - {name: hook, event: "order.*", channel: hook, recipients: "data.to"}
  - {name: held, event: "slow.*", channel: held, recipients: "data.to"}
`, filepath.Join(e.WorkDir, "data"), token)
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
	})
	e.Values[partnerKey{}] = mood
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

func waitForMessage(ts *testscript.TestScript, id, state string) string {
	client := scriptClient(ts)
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		found, err := client.Event(context.Background(), id, "")
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
