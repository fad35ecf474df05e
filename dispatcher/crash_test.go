package dispatcher_test

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"tidings/dispatcher"
	"tidings/dispatcher/channel"
	"tidings/dispatcher/channel/webhook"
	"tidings/dispatcher/plan"
	"tidings/streams"
	"tidings/streams/embedded"
	"tidings/streams/event"
)

// The process that is killed is this test binary, started again with crashDir
// set: a dispatcher on an embedded server with that directory.
const (
	crashDir   = "TIDINGS_TEST_CRASH_DIR"
	crashURLs  = "TIDINGS_TEST_CRASH_URL"
	crashMany  = "TIDINGS_TEST_CRASH_MANY"
	crashPoint = "TIDINGS_TEST_CRASH_POINT"
)

// Where the process kills itself. In the middle of a send it is the receiver
// that kills it.
const (
	crashPlanning    = "planning"
	crashAfterSend   = "after_send"
	crashAfterSettle = "after_settle"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashDir); dir != "" {
		if err := victim(dir); err != nil {
			_, _ = os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		os.Exit(0)
	}
	if server := os.Getenv(peerServer); server != "" {
		if err := bePeer(server); err != nil {
			_, _ = os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func die() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL); select {} }

// victim publishes the event, dispatches until it has ended, and dies on the way
// where it is told to.
func victim(dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	log, closeLog, err := openLog(ctx, dir)
	if err != nil {
		return err
	}
	defer closeLog()
	if _, err := log.Events.Publish(ctx, streams.Incoming{Envelope: victimEvent(), Nonce: event.NewNonce()}); err != nil {
		return err
	}
	d, err := victimDispatcher(log)
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- d.Run(running) }()
	err = followUntilEnded(ctx, log)
	if os.Getenv(crashPoint) == crashAfterSettle {
		die()
	}
	stop()
	<-done
	return err
}

func victimEvent() event.Envelope {
	urls := []string{os.Getenv(crashURLs)}
	for i := range len(os.Getenv(crashMany)) {
		urls = append(urls, os.Getenv(crashURLs)+"/"+string(rune('a'+i%26))+string(rune('a'+i/26)))
	}
	e := newEvent("1", "order.placed", map[string]any{"urls": urls})
	e.Identify()
	return e
}

func victimDispatcher(log *streams.Log) (*dispatcher.Dispatcher, error) {
	p, err := newPlanner()
	if err != nil {
		return nil, err
	}
	hooks, err := webhook.New(webhook.Config{AllowPrivate: true, Secrets: []string{webhook.NewSecret()}})
	if err != nil {
		return nil, err
	}
	return dispatcher.New(dispatcher.Options{
		Log: log, Planner: deadlyPlanner{p},
		Owner:    event.Owner{Instance: "victim", Boot: event.NewNonce()},
		Channels: map[string]dispatcher.Channel{"hook": {Sender: deadlySender(hooks)}},
		Consume:  streams.ConsumeOptions{AckWait: time.Second, Heartbeat: 300 * time.Millisecond},
	})
}

// deadlyPlanner kills the process when it decodes an event, as a bad payload may.
type deadlyPlanner struct{ dispatcher.Planner }

func (p deadlyPlanner) Plan(key event.Key, e event.Envelope) (plan.Plan, error) {
	if os.Getenv(crashPoint) == crashPlanning {
		die()
	}
	return p.Planner.Plan(key, e)
}

func deadlySender(s channel.Sender) channel.Sender {
	return channel.SenderFunc(func(ctx context.Context, m channel.Message) (channel.Receipt, error) {
		receipt, err := s.Send(ctx, m)
		if os.Getenv(crashPoint) == crashAfterSend {
			die()
		}
		return receipt, err
	})
}

func openLog(ctx context.Context, dir string) (*streams.Log, func(), error) {
	server, err := embedded.Start(ctx, embedded.Options{StoreDir: dir, Durability: streams.Strict})
	if err != nil {
		return nil, nil, err
	}
	nc, err := server.Connect("victim")
	if err != nil {
		return nil, nil, err
	}
	log, err := streams.Open(ctx, nc, streams.Options{
		Durability: streams.Strict, EventsMaxBytes: 1 << 28, OutcomesMaxBytes: 1 << 28, DeadLettersMaxBytes: 1 << 28,
	})
	if err != nil {
		return nil, nil, err
	}
	running, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { _ = log.Run(running) })
	return log, func() { stop(); wg.Wait(); nc.Close(); server.Shutdown() }, nil
}

func followUntilEnded(ctx context.Context, log *streams.Log) error {
	err := log.Outcomes.Follow(ctx, 1, func(e streams.Entry) error {
		if e.Header.Get(streams.HeaderFinal) == "true" {
			return errEnded
		}
		return nil
	})
	if err == errEnded {
		return nil
	}
	return err
}

type ended struct{}

func (ended) Error() string { return "ended" }

var errEnded error = ended{}

// crash is one event dispatched by processes that are killed.
type crash struct {
	*rig
	dir string
}

// child is the process that runs; there is one at a time.
var child atomic.Pointer[os.Process]

// newCrash returns a crash whose receiver answers some paths by itself; what
// does so may kill the process.
func newCrash(t *testing.T, answer http.HandlerFunc, paths ...string) *crash {
	t.Helper()
	handle := map[string]http.HandlerFunc{}
	for _, p := range paths {
		handle[p] = answer
	}
	return &crash{rig: newRig(t, newLog(t), handle), dir: t.TempDir()}
}

// run runs a process on the directory and reports whether it was killed.
func (c *crash) run(point, path, many string) (killed bool) {
	c.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), crashDir+"="+c.dir, crashURLs+"="+c.sink.URL(path), crashPoint+"="+point, crashMany+"="+many)
	cmd.Stderr = os.Stderr
	require.NoError(c, cmd.Start())
	child.Store(cmd.Process)
	err := cmd.Wait()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		require.Equal(c, syscall.SIGKILL, status.Signal())
		return true
	}
	require.NoError(c, err)
	return false
}

// killChild ends the process, as an out-of-memory killer would.
func killChild() { _ = child.Load().Kill() }

// history returns the history of the event, and the dead letter if there is one.
func (c *crash) history() (history, *event.Letter) {
	c.Helper()
	ctx := c.within(30 * time.Second)
	log, closeLog, err := openLog(ctx, c.dir)
	require.NoError(c, err)
	defer closeLog()
	r := *c.rig
	r.log = log
	h := r.until("the event has ended", func(h history) bool { return h.records[len(h.records)-1].Final() })
	r.checkRecords()
	info, err := log.DeadLetters.Info(ctx)
	require.NoError(c, err)
	require.LessOrEqual(c, info.Messages, uint64(1), "at most one letter an event")
	letter, _, err := log.DeadLetters.Get(ctx, "acme", h.records[0].Event.Key)
	if err != nil {
		require.ErrorIs(c, err, streams.ErrNotFound)
		return h, nil
	}
	return h, &letter
}

func (c *crash) facts(h history) []string { return h.facts(h.records[0].Event.Key) }

func TestKilled(t *testing.T) {
	const takenOver = "crashed claimed"
	t.Run("after the claim: what may have been sent is uncertain, then sent once", func(t *testing.T) {
		c := newCrash(t, nil)
		require.True(t, c.run(crashPlanning, "/ok", ""))
		require.False(t, c.run("", "/ok", ""))
		h, letter := c.history()
		require.Equal(t, []string{"claimed", takenOver, "planned claimed", "tried:delivered settled"}, c.facts(h))
		require.Equal(t, event.MessageUncertain, h.records[2].State.Messages[0].State, "said before the send")
		require.Nil(t, letter)
		require.Equal(t, 1, c.sink.Count())
	})
	t.Run("in the middle of a send: uncertain, and repeated with the same id", func(t *testing.T) {
		var once sync.Once
		c := newCrash(t, func(_ http.ResponseWriter, req *http.Request) {
			once.Do(func() { killChild(); <-req.Context().Done() })
		}, "/mid")
		require.True(t, c.run("", "/mid", ""))
		require.False(t, c.run("", "/mid", ""))
		h, _ := c.history()
		require.Equal(t, []string{"claimed", takenOver, "planned claimed", "tried:delivered settled"}, c.facts(h))
		require.Equal(t, event.MessageUncertain, h.records[2].State.Messages[0].State)
		require.Len(t, ids(c.sink.Requests()), 1)
	})
	t.Run("after a send and before its record: uncertain, and repeated with the same id", func(t *testing.T) {
		c := newCrash(t, nil)
		require.True(t, c.run(crashAfterSend, "/ok", ""))
		require.False(t, c.run("", "/ok", ""))
		h, _ := c.history()
		require.Equal(t, []string{"claimed", takenOver, "planned claimed", "tried:delivered settled"}, c.facts(h))
		require.Equal(t, 2, c.sink.Count())
		require.Len(t, ids(c.sink.Requests()), 1)
	})
	t.Run("after it settled: nothing is sent again", func(t *testing.T) {
		c := newCrash(t, nil)
		require.True(t, c.run(crashAfterSettle, "/ok", ""))
		require.False(t, c.run("", "/ok", ""))
		h, _ := c.history()
		require.Equal(t, []string{"claimed", "planned tried:delivered settled"}, c.facts(h))
		require.Equal(t, 1, c.sink.Count())
	})
	t.Run("half-way through 100 recipients: what is recorded is not sent again, and at most 64 are uncertain", func(t *testing.T) {
		var calls atomic.Int32
		c := newCrash(t, func(_ http.ResponseWriter, req *http.Request) {
			if calls.Add(1) == 80 {
				killChild()
				<-req.Context().Done()
			}
		}, "/many", "/many/")
		many := strings.Repeat("x", 99)
		require.True(t, c.run("", "/many", many))
		require.False(t, c.run("", "/many", many))
		h, _ := c.history()
		final := h.records[len(h.records)-1].State
		require.Equal(t, event.Counts{Created: 100, Delivered: 100}, final.Counts())
		var before event.State // recorded when the first process died
		for _, r := range h.records {
			if _, ok := r.Facts[0].(event.Crashed); ok {
				require.LessOrEqual(t, r.State.Counts().Uncertain, 64)
				require.Positive(t, r.State.Counts().Uncertain)
				break
			}
			before = r.State
		}
		sent := ids(c.sink.Requests())
		require.Equal(t, 64, before.Counts().Delivered)
		for _, m := range before.Messages {
			if m.State == event.MessageDelivered {
				require.Equal(t, 1, sent[m.ID], "a recorded message is sent once")
			}
		}
	})
	t.Run("every time: one dead letter after three crashes", func(t *testing.T) {
		c := newCrash(t, nil)
		kills := 0
		for c.run(crashPlanning, "/ok", "") {
			kills++
			require.LessOrEqual(t, kills, 3)
		}
		require.Equal(t, 3, kills)
		h, letter := c.history()
		require.Equal(t, []string{"claimed", takenOver, takenOver, "crashed dead"}, c.facts(h))
		require.NotNil(t, letter)
		require.Equal(t, event.CauseCrashes, letter.Cause)
		require.Zero(t, c.sink.Count())
	})
}

// ids counts the requests of each message.
func ids(requests []sinkRequest) map[string]int {
	n := map[string]int{}
	for _, r := range requests {
		n[r.ID]++
	}
	return n
}
