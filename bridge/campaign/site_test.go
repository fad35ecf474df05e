package campaign_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"tidings/bridge"
	"tidings/bridge/bridgetest"
	"tidings/streams"
)

const (
	queueName = "orders"
	window    = 256 // the bridge's default
	lookEvery = 100 * time.Millisecond
)

// site is where a campaign takes place: a queue, a directory for the log, a
// producer and a bridge process.
type site struct {
	*testing.T
	node     *bridgetest.Node
	vhost    *bridgetest.Vhost
	settings settings
	load     *load
	process  *process
	// done is what the campaign did that explains something in the end.
	done done

	asking *amqp.Connection // see queue
}

// newSite returns a site with a quorum queue, without a process.
func newSite(t *testing.T, node *bridgetest.Node) *site {
	t.Helper()
	s := siteWithoutQueue(t, node)
	// RabbitMQ 4 would drop what came back more than 20 times.
	s.declare(amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeQuorum, "x-delivery-limit": 1000})
	return s
}

func siteWithoutQueue(t *testing.T, node *bridgetest.Node) *site {
	t.Helper()
	s := &site{T: t, node: node, vhost: node.Vhost(t)}
	s.settings = settings{
		Dir: t.TempDir(),
		Bridge: bridge.Config{
			URL: s.vhost.URL, Queue: queueName,
			Reconnect: bridge.Reconnect{Initial: 20 * time.Millisecond, Max: time.Second},
		},
		Log: streams.Options{EventsMaxBytes: 1 << 30, OutcomesMaxBytes: 1 << 30, DeadLettersMaxBytes: 1 << 30},
	}
	s.load = &load{url: s.vhost.URL, queue: queueName}
	t.Cleanup(func() {
		s.load.close()
		if s.asking != nil {
			_ = s.asking.Close()
		}
		if t.Failed() {
			t.Logf("the process said:\n%s", s.said())
		}
	})
	return s
}

func (s *site) declare(args amqp.Table) {
	s.Helper()
	s.onChannel(func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(queueName, true, false, false, false, args)
		return err
	})
}

// onChannel does something on a channel of the test's own.
func (s *site) onChannel(do func(*amqp.Channel) error) {
	s.Helper()
	var err error
	if s.asking == nil || s.asking.IsClosed() {
		s.asking, err = amqp.Dial(s.vhost.URL)
		require.NoError(s, err)
	}
	ch, err := s.asking.Channel()
	require.NoError(s, err)
	defer ch.Close()
	require.NoError(s, do(ch))
}

// ready returns how many messages wait in the queue.
func (s *site) ready() (n int) {
	s.Helper()
	s.onChannel(func(ch *amqp.Channel) error {
		q, err := ch.QueueDeclarePassive(queueName, true, false, false, false, nil)
		n = q.Messages
		return err
	})
	return n
}

// held returns how many messages a quorum queue has, ready or not. It asks the
// queue itself, which takes a while: what is on its way to a consumer is neither
// ready nor in the consumer's hand, and RabbitMQ's own figure of it is seconds old.
// Of a classic queue it knows nothing.
func (s *site) held() (n int) {
	s.Helper()
	const query = `Queue = '%s_%s', case whereis(Queue) of undefined -> 0;
		_ -> {ok, {_, N}, _} = ra:leader_query({Queue, node()}, fun rabbit_fifo:query_messages_total/1), N end.`
	out, err := s.node.Ctl(s.Context(), "eval", fmt.Sprintf(query, s.vhost.Name, queueName))
	require.NoError(s, err)
	n, err = strconv.Atoi(strings.TrimSpace(out))
	require.NoError(s, err)
	return n
}

// produce publishes rate events a second from now on until stop is called.
func (s *site) produce(rate int) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.Context()))
	var running sync.WaitGroup
	running.Go(func() { s.load.run(ctx, rate) })
	stop = func() { cancel(); running.Wait() }
	s.Cleanup(stop)
	return stop
}

// backlog publishes n events, which wait in the queue where nobody consumes.
func (s *site) backlog(n int) {
	for ; n > 0; n -= maxBatch {
		s.load.publish(min(n, maxBatch))
	}
}

func (s *site) confirmed() int { return int(s.load.confirmed.Load()) }

// said returns what the bridge's processes have logged.
func (s *site) said() string {
	text, _ := os.ReadFile(s.logFile())
	return string(text)
}

// patience is how long anything may take that is waited for.
const patience = 2 * time.Minute

// until waits for something that nobody tells of.
func (s *site) until(what string, holds func(bridge.Status) bool) bridge.Status {
	s.Helper()
	deadline := time.Now().Add(patience)
	for {
		status, ok := s.process.status()
		if ok && holds(status) {
			return status
		}
		require.False(s, time.Now().After(deadline), "never came: %s: %+v", what, status)
		time.Sleep(10 * time.Millisecond)
	}
}

// untilAcked waits until n deliveries more are acknowledged.
func (s *site) untilAcked(n int) {
	s.Helper()
	before, _ := s.process.status()
	s.until("acknowledgements", func(b bridge.Status) bool { return b.Acked >= before.Acked+uint64(n) })
}

// finish lets the bridge take what is left, ends it, and counts.
func (s *site) finish() tally {
	s.Helper()
	s.until("the end of the work", func(b bridge.Status) bool {
		return b.Ready() && b.InHand == 0 && s.ready() == 0 && s.held() == 0
	})
	s.process.terminate()
	t := s.count()
	s.done.confirmed, s.done.again = s.confirmed(), int(s.load.again.Load())
	require.Empty(s, t.faults(s.done))
	require.NotContains(s, strings.ToUpper(s.said()), "DATA RACE")
	s.Logf("%d confirmed, %d in EVENTS; published again %d, deleted with the queue %d, given again %d, duplicates in the audit %d",
		s.done.confirmed, len(t.events), s.done.again, s.done.purged, t.givenAgain(), len(t.duplicates))
	return t
}
