package processes_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"tidings/dispatcher/channel/channeltest/sink"
	"tidings/streams"
	"tidings/streams/embedded"
	"tidings/streams/event"
)

// A server of a cluster is this test binary with these set.
const (
	envServer = "TIDINGS_TEST_SERVER" // its name
	envListen = "TIDINGS_TEST_LISTEN" // where clients connect
	envRoute  = "TIDINGS_TEST_ROUTE"  // where the others connect
	envRoutes = "TIDINGS_TEST_ROUTES" // where they all do
)

// serve is the process of a server. It runs until it is killed, or left alone.
func serve(name string) error {
	address := func(env string) *net.TCPAddr {
		a, _ := net.ResolveTCPAddr("tcp", os.Getenv(env))
		return a
	}
	ns, err := server.NewServer(&server.Options{
		ServerName: name, Host: "127.0.0.1", Port: address(envListen).Port,
		Cluster:   server.ClusterOpts{Name: "three", Host: "127.0.0.1", Port: address(envRoute).Port},
		Routes:    server.RoutesFromStr(os.Getenv(envRoutes)),
		JetStream: true, StoreDir: os.Getenv(envDir), JetStreamMaxStore: 8 << 30, MaxPayload: embedded.MaxPayload, NoSigs: true,
	})
	if err != nil {
		return err
	}
	ns.Start()
	_, _ = io.Copy(io.Discard, os.Stdin)
	return nil
}

// cluster is three servers, a process each.
type cluster struct {
	*testing.T
	listen, route []string
	dirs          []string
	running       []*exec.Cmd
	nc            *nats.Conn
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{T: t, running: make([]*exec.Cmd, 3)}
	for range 3 {
		c.listen, c.route, c.dirs = append(c.listen, free(t)), append(c.route, free(t)), append(c.dirs, t.TempDir())
	}
	for i := range c.running {
		c.start(i)
	}
	t.Cleanup(func() {
		for i := range c.running {
			c.kill(i)
		}
	})
	nc, err := streams.Connect(c.within(20*time.Second), "nats://"+strings.Join(c.listen, ",nats://"), "test", slog.New(slog.DiscardHandler),
		nats.CustomReconnectDelay(func(int) time.Duration { return 50 * time.Millisecond }))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	c.nc = nc
	return c
}

// free returns an address of loopback that nobody listens on.
func free(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

func (c *cluster) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	c.Cleanup(cancel)
	return ctx
}

func (c *cluster) start(i int) {
	c.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envServer+"="+fmt.Sprint("n", i), envDir+"="+c.dirs[i], envListen+"="+c.listen[i],
		envRoute+"="+c.route[i], envRoutes+"=nats://"+strings.Join(c.route, ",nats://"))
	_, err := cmd.StdinPipe() // when this process dies, that one ends
	require.NoError(c, err)
	require.NoError(c, cmd.Start())
	c.running[i] = cmd
}

func (c *cluster) kill(i int) {
	if c.running[i] != nil {
		_ = c.running[i].Process.Kill()
		_ = c.running[i].Wait()
		c.running[i] = nil
	}
}

// open opens the log, once the servers have found each other.
func (c *cluster) open() *streams.Log {
	c.Helper()
	var log *streams.Log
	c.eventually("the log opens", func(ctx context.Context) (err error) {
		log, err = streams.Open(ctx, c.nc, streams.Options{
			Durability: streams.Relaxed, Replicas: 3,
			EventsMaxBytes: 1 << 28, OutcomesMaxBytes: 1 << 28, DeadLettersMaxBytes: 1 << 28, OversizeMaxBytes: 1 << 28,
		})
		return err
	})
	return log
}

func (c *cluster) eventually(what string, do func(context.Context) error) {
	c.Helper()
	ctx := c.within(45 * time.Second)
	for {
		try, cancel := context.WithTimeout(ctx, 10*time.Second)
		err := do(try)
		cancel()
		if err == nil {
			return
		}
		require.NoError(c, ctx.Err(), "until %s: %v", what, err)
		time.Sleep(50 * time.Millisecond) // a cluster has no event for it
	}
}

var errBehind = errors.New("not each replica has everything")

// leader returns which server leads a stream, once all replicas of all streams
// have everything.
func (c *cluster) leader(stream string) (leader int) {
	c.Helper()
	js, err := jetstream.New(c.nc)
	require.NoError(c, err)
	c.eventually("the replicas have caught up", func(ctx context.Context) error {
		for _, name := range []string{streams.EventsStream, streams.OutcomesStream, streams.DeadLettersStream, streams.RetriesStream} {
			s, err := js.Stream(ctx, name)
			if err != nil {
				return err
			}
			info := s.CachedInfo()
			if info.Cluster == nil || info.Cluster.Leader == "" || len(info.Cluster.Replicas) != 2 {
				return errBehind
			}
			for _, r := range info.Cluster.Replicas {
				if !r.Current || r.Offline {
					return errBehind
				}
			}
			if name == stream {
				_, _ = fmt.Sscanf(info.Cluster.Leader, "n%d", &leader)
			}
		}
		return nil
	})
	return leader
}

func TestTheLeaderOfAClusterIsKilled(t *testing.T) {
	t.Parallel()
	const events, kills = 300, 2
	s, err := sink.StartHTTP(sink.HTTPOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	c := newCluster(t)
	n := &node{log: c.open(), consume: streams.ConsumeOptions{}}
	t.Cleanup(n.close)
	n.run(n.log.Run)
	n.planner, err = newPlanner()
	require.NoError(t, err)
	_, err = n.dispatch()
	require.NoError(t, err)

	// What is published goes on while servers die, at a pace that outlasts them.
	turn := make(chan struct{}, events)
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range events {
			<-turn
			c.eventually("it is published", func(ctx context.Context) error {
				_, err := n.publish(ctx, fmt.Sprint(i), s.URL(fmt.Sprint("/ok/", i)))
				return err
			})
		}
	})
	let := func(n int) {
		for range n {
			turn <- struct{}{}
		}
	}
	for i, stream := range []string{streams.OutcomesStream, streams.EventsStream} {
		leader := c.leader(stream)
		let(events / (kills + 1))
		require.NoError(t, s.WaitAccepted(c.within(30*time.Second), i*events/(kills+1)+10), "it is under load")
		c.kill(leader)
		require.NoError(t, s.WaitAccepted(c.within(45*time.Second), (i+1)*events/(kills+1)), "the other two go on")
		c.start(leader)
	}
	let(events / (kills + 1))
	wg.Wait()
	require.NoError(t, s.WaitAccepted(c.within(45*time.Second), events))
	c.leader(streams.OutcomesStream)
	require.NoError(t, n.until(c.within(45*time.Second), settled(events, 0)), "every event ends")

	gaps, err := n.log.Outcomes.Missing(t.Context())
	require.NoError(t, err)
	require.Empty(t, gaps)
	v, err := n.look(t.Context())
	require.NoError(t, err)
	calls := map[string]int{}
	for _, r := range s.Requests() {
		calls[r.ID]++
	}
	require.Len(t, calls, events)
	for _, records := range v.records {
		var last event.State
		uncertain := false
		for _, r := range records {
			last, err = last.Fold(r)
			require.NoError(t, err)
			require.Equal(t, r.State, last, "each record holds the state after it")
			uncertain = uncertain || len(last.Messages) > 0 && last.Messages[0].State == event.MessageUncertain
		}
		require.True(t, calls[last.Messages[0].ID] == 1 || uncertain, "what is sent again was uncertain: %s", v)
	}
}
