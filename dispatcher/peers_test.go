package dispatcher_test

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"tidings/dispatcher"
	"tidings/dispatcher/channel/webhook"
	"tidings/streams"
	"tidings/streams/embedded"
	"tidings/streams/event"
)

// A peer is one of several processes on one log: this test binary, started again
// with peerServer set.
const (
	peerServer = "TIDINGS_TEST_PEER_SERVER"
	peerName   = "TIDINGS_TEST_PEER_NAME"
)

// The lease of peers, which is short since tests live through it.
const (
	peerLease  = 3 * time.Second
	peerMargin = 500 * time.Millisecond
	peerSkew   = 300 * time.Millisecond
	peerCall   = time.Second
)

func peerOptions() streams.Options {
	return streams.Options{
		Durability: streams.Relaxed, DuplicateWindow: 100 * time.Millisecond,
		EventsMaxBytes: 1 << 28, OutcomesMaxBytes: 1 << 28, DeadLettersMaxBytes: 1 << 28, OversizeMaxBytes: 1 << 28,
	}
}

// bePeer says when it is ready, dispatches from the word on, and stops at the end
// of the words.
func bePeer(server string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	nc, err := streams.Connect(ctx, server, os.Getenv(peerName), nil)
	if err != nil {
		return err
	}
	defer nc.Close()
	log, err := streams.Open(ctx, nc, peerOptions())
	if err != nil {
		return err
	}
	planner, err := newPlanner()
	if err != nil {
		return err
	}
	hooks, err := webhook.New(webhook.Config{AllowPrivate: true, Secrets: []string{webhook.NewSecret()}})
	if err != nil {
		return err
	}
	d, err := dispatcher.New(dispatcher.Options{
		Log: log, Planner: planner, Workers: 32,
		Owner: event.Owner{Instance: os.Getenv(peerName), Boot: event.NewNonce()},
		Channels: map[string]dispatcher.Channel{"hook": {Sender: hooks, Policy: dispatcher.Policy{
			Timeout: peerCall, Concurrency: 8, Base: time.Millisecond, Failures: 1 << 30, Rounds: []time.Duration{time.Second, time.Second, time.Second},
		}}},
		Consume: streams.ConsumeOptions{AckWait: time.Second, Heartbeat: 300 * time.Millisecond},
	})
	if err != nil {
		return err
	}
	d.Hasten(peerLease, peerMargin, peerSkew)
	_, _ = os.Stdout.WriteString("ready\n")
	words := bufio.NewReader(os.Stdin)
	if _, err := words.ReadString('\n'); err != nil {
		return err
	}
	logging, stopLog := context.WithCancel(ctx)
	running, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { _ = log.Run(logging) })
	done := make(chan error, 1)
	go func() { done <- d.Run(running) }()
	_, _ = io.Copy(io.Discard, words)
	stop()
	err = <-done
	stopLog()
	wg.Wait()
	return err
}

// peers are processes on one log.
type peers struct {
	*rig
	server string
}

type peer struct {
	*exec.Cmd
	tb     testing.TB
	words  io.WriteCloser
	ended  chan error
	finish func()
}

func newPeers(t *testing.T, handle map[string]http.HandlerFunc) *peers {
	t.Helper()
	server, err := embedded.Start(t.Context(), embedded.Options{StoreDir: t.TempDir(), Durability: streams.Relaxed, Listen: "127.0.0.1:0"})
	require.NoError(t, err)
	t.Cleanup(server.Shutdown)
	nc, err := nats.Connect(server.ClientURL(), streams.ConnectOptions("test", slog.New(slog.DiscardHandler))...)
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	log, err := streams.Open(t.Context(), nc, peerOptions())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = log.Run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	p := &peers{rig: newRig(t, log, handle), server: server.ClientURL()}
	p.unchecked = true // who was taken over tells of calls that others have made again
	return p
}

// start starts processes; they dispatch when all of them are ready.
func (p *peers) start(names ...string) []*peer {
	p.Helper()
	var all []*peer
	for _, name := range names {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), peerServer+"="+p.server, peerName+"="+name)
		cmd.Stderr = os.Stderr
		words, err := cmd.StdinPipe()
		require.NoError(p, err)
		said, err := cmd.StdoutPipe()
		require.NoError(p, err)
		require.NoError(p, cmd.Start())
		x := &peer{Cmd: cmd, tb: p.rig, words: words, ended: make(chan error, 1)}
		x.finish = sync.OnceFunc(func() {
			x.resume()
			_ = words.Close()
			require.NoError(p, <-x.ended)
		})
		p.Cleanup(x.finish)
		_, err = bufio.NewReader(said).ReadString('\n')
		require.NoError(p, err)
		go func() { x.ended <- cmd.Wait() }()
		all = append(all, x)
	}
	for _, x := range all {
		_, err := io.WriteString(x.words, "go\n")
		require.NoError(p, err)
	}
	return all
}

func (x *peer) stop()   { require.NoError(x.tb, x.Process.Signal(syscall.SIGSTOP)) }
func (x *peer) resume() { require.NoError(x.tb, x.Process.Signal(syscall.SIGCONT)) }

// checkRepeats holds the receiver's calls against the histories: a message is
// called again only as often as a crash or a call of unknown end left it in doubt.
func (p *peers) checkRepeats(h history) (repeated int) {
	p.Helper()
	doubts, uncertain, all := map[string]int{}, map[string]bool{}, map[string]bool{}
	for _, r := range h.records {
		for _, m := range r.State.Messages {
			all[m.ID] = true
			uncertain[m.ID] = uncertain[m.ID] || m.State == event.MessageUncertain
		}
		for _, f := range r.Facts {
			switch f := f.(type) {
			case event.Crashed:
				for _, m := range h.state(r.Event.Key).Messages {
					doubts[m.ID]++
				}
			case event.Tried:
				if f.Result == event.TryUnknown {
					doubts[f.Message]++
				}
			}
		}
	}
	calls := ids(p.sink.Requests())
	for id := range all {
		require.Positive(p, calls[id], "each message is sent")
		require.LessOrEqual(p, calls[id], 1+doubts[id], "a message is repeated as often as it was in doubt")
		if calls[id] > 1 {
			require.True(p, uncertain[id], "what is repeated was uncertain before")
			repeated++
		}
	}
	require.Len(p, calls, len(all), "nothing else is sent")
	return repeated
}
