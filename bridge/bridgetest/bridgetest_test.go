package bridgetest_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"tidings/bridge/bridgetest"
)

func TestMain(m *testing.M) {
	if role, ok := roles[os.Getenv(roleVar)]; ok {
		role()
		return
	}
	goleak.VerifyTestMain(bridgetest.Main(m))
}

// private asks for a node of our own, wherever the tests run.
var private = bridgetest.Options{Private: true}

func TestNodeCarriesMessages(t *testing.T) {
	node := bridgetest.New(t)
	vhost := node.Vhost(t)
	queue := vhost.Queue(t, "orders")
	ch := channel(t, vhost.URL)
	declare(t, ch, queue)

	publish(t, ch, queue, "hello")

	got := receive(t, ch, queue)
	require.Equal(t, "hello", string(got.Body))
	require.NoError(t, got.Ack(false))
}

func TestVhostsKeepTestsApart(t *testing.T) {
	node := bridgetest.Private(t)
	for range 10 { // more than are made at a time
		vhost := node.Vhost(t)
		ch := channel(t, vhost.URL)
		_, err := ch.QueueDeclarePassive("orders", true, false, false, false, nil)
		require.ErrorContains(t, err, "NOT_FOUND")
		declare(t, channel(t, vhost.URL), "orders")
	}
}

func TestQueuesAreCounted(t *testing.T) {
	node := bridgetest.Private(t)
	vhost := node.Vhost(t)
	ch := channel(t, vhost.URL)
	declare(t, ch, "orders")
	publish(t, ch, "orders", "first")
	publish(t, ch, "orders", "second")
	require.NoError(t, ch.Qos(1, 0, false))
	receive(t, ch, "orders") // one taken and held, one waiting

	queues, err := vhost.Queues(t.Context())

	require.NoError(t, err)
	require.Equal(t, []bridgetest.Queue{{Name: "orders", Ready: 1, Unacked: 1, Consumers: 1}}, queues)
}

func TestFaults(t *testing.T) {
	node := bridgetest.Private(t)

	t.Run("connections of one vhost are closed and those of another are not", func(t *testing.T) {
		one, two := node.Vhost(t), node.Vhost(t)
		hit, spared := channel(t, one.URL), channel(t, two.URL)
		closed := hit.NotifyClose(make(chan *amqp.Error, 1))

		require.NoError(t, one.CloseConnections(t.Context(), "for the test"))

		require.ErrorContains(t, await(t, closed), "for the test")
		declare(t, spared, "orders")
	})
	t.Run("all connections are closed", func(t *testing.T) {
		closed := channel(t, node.URL()).NotifyClose(make(chan *amqp.Error, 1))
		require.NoError(t, node.CloseConnections(t.Context(), "for the test"))
		require.ErrorContains(t, await(t, closed), "for the test")
	})
	t.Run("a stopped broker refuses, and takes up again where it was", func(t *testing.T) {
		vhost := node.Vhost(t)
		ch := channel(t, vhost.URL)
		declare(t, ch, "orders")
		publish(t, ch, "orders", "kept")

		require.NoError(t, node.StopApp(t.Context()))
		_, err := amqp.Dial(vhost.URL)
		require.Error(t, err)
		require.NoError(t, node.StartApp(t.Context()))

		require.Equal(t, "kept", string(receive(t, channel(t, vhost.URL), "orders").Body))
	})
	t.Run("a killed node comes back at the same address with what it stored", func(t *testing.T) {
		vhost := node.Vhost(t)
		ch := channel(t, vhost.URL)
		declare(t, ch, "orders")
		publish(t, ch, "orders", "kept")

		require.NoError(t, node.Kill())
		_, err := amqp.Dial(vhost.URL)
		require.Error(t, err)
		require.NoError(t, node.Restart(t.Context()))

		require.Equal(t, "kept", string(receive(t, channel(t, vhost.URL), "orders").Body))
	})
	t.Run("an unknown command is an error with rabbitmqctl's words", func(t *testing.T) {
		_, err := node.Ctl(t.Context(), "no_such_command")
		require.ErrorContains(t, err, "no_such_command")
	})
}

func TestStop(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()) // the node's folder and environment show which processes are its
	node := start(t, private)
	require.NotEmpty(t, processesWith(t, os.Getenv("TMPDIR")))

	node.Stop()

	t.Run("ends every process of the node", func(t *testing.T) {
		require.Eventually(t, func() bool { return len(processesWith(t, os.Getenv("TMPDIR"))) == 0 },
			5*time.Second, 10*time.Millisecond)
	})
	t.Run("deletes the node's files", func(t *testing.T) {
		left, err := os.ReadDir(os.Getenv("TMPDIR"))
		require.NoError(t, err)
		require.Empty(t, left)
	})
	t.Run("a second time does nothing", func(*testing.T) { node.Stop() })
	t.Run("what needs the node then says that it was stopped", func(t *testing.T) {
		_, err := node.Ctl(t.Context(), "status")
		require.ErrorIs(t, err, bridgetest.ErrStopped)
		require.ErrorIs(t, node.Kill(), bridgetest.ErrStopped)
		require.ErrorIs(t, node.Restart(t.Context()), bridgetest.ErrStopped)
	})
	t.Run("another start after it works", func(t *testing.T) {
		channel(t, start(t, private).URL())
	})
}

func TestBrokerGivenByEnvironment(t *testing.T) {
	t.Setenv("AMQP_URL", bridgetest.Private(t).Vhost(t).URL)
	node := start(t, bridgetest.Options{})

	t.Run("is used as it is", func(t *testing.T) {
		require.Equal(t, os.Getenv("AMQP_URL"), node.URL())
	})
	t.Run("is not ours to steer", func(t *testing.T) {
		require.ErrorIs(t, node.StopApp(t.Context()), bridgetest.ErrNotOurs)
		require.ErrorIs(t, node.CloseConnections(t.Context(), "why"), bridgetest.ErrNotOurs)
		require.ErrorIs(t, node.Kill(), bridgetest.ErrNotOurs)
		require.ErrorIs(t, node.Restart(t.Context()), bridgetest.ErrNotOurs)
	})
	t.Run("is left running by a stop", func(t *testing.T) {
		node.Stop()
		channel(t, node.URL())
	})
	t.Run("keeps tests apart by names, and nothing of them remains", func(t *testing.T) {
		var queue, exchange string
		t.Run("a test", func(t *testing.T) {
			vhost := node.Vhost(t)
			queue, exchange = vhost.Queue(t, "orders"), vhost.Exchange(t, "shop")
			require.NotEqual(t, queue, vhost.Queue(t, "orders"))
			ch := channel(t, vhost.URL)
			declare(t, ch, queue)
			require.NoError(t, ch.ExchangeDeclare(exchange, "topic", true, false, false, false, nil))
		})
		_, err := channel(t, node.URL()).QueueDeclarePassive(queue, true, false, false, false, nil)
		require.ErrorContains(t, err, "NOT_FOUND")
		err = channel(t, node.URL()).ExchangeDeclarePassive(exchange, "topic", true, false, false, false, nil)
		require.ErrorContains(t, err, "NOT_FOUND")
	})
	t.Run("that does not answer is an error with its host and a way out, and without the password", func(t *testing.T) {
		silent, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and says nothing
		require.NoError(t, err)
		defer silent.Close()
		for _, host := range []string{"127.0.0.1:1", silent.Addr().String()} {
			t.Setenv("AMQP_URL", "amqp://user:hunter2@"+host+"/")
			_, err := bridgetest.Start(t.Context(), bridgetest.Options{})
			require.ErrorContains(t, err, "the RabbitMQ at "+host+", given by AMQP_URL, cannot be used")
			require.ErrorContains(t, err, "unset AMQP_URL for a private node")
			require.NotContains(t, err.Error(), "hunter2")
		}
	})
	t.Run("that is no address is an error that shows nothing of it", func(t *testing.T) {
		for _, url := range []string{
			"amqp://user:hunter2@127.0.0.1:port/", "amqp://user:hun#ter2@host/", "amqp://user:hun%ter2@host/", "http://user:hunter2@host/",
		} {
			t.Setenv("AMQP_URL", url)
			_, err := bridgetest.Start(t.Context(), bridgetest.Options{})
			require.ErrorContains(t, err, "unset AMQP_URL for a private node")
			require.NotContains(t, err.Error(), "hun")
		}
	})
}

func TestStartThatIsCutShortLeavesNothing(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()

	_, err := bridgetest.Start(ctx, private)

	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Eventually(t, func() bool { return len(processesWith(t, os.Getenv("TMPDIR"))) == 0 },
		5*time.Second, 10*time.Millisecond)
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func start(t *testing.T, opts bridgetest.Options) *bridgetest.Node {
	t.Helper()
	node, err := bridgetest.Start(t.Context(), opts)
	require.NoError(t, err)
	t.Cleanup(node.Stop)
	return node
}

func channel(t *testing.T, url string) *amqp.Channel {
	t.Helper()
	conn, err := amqp.Dial(url)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	ch, err := conn.Channel()
	require.NoError(t, err)
	return ch
}

func declare(t *testing.T, ch *amqp.Channel, queue string) {
	t.Helper()
	_, err := ch.QueueDeclare(queue, true, false, false, false, nil)
	require.NoError(t, err)
}

func publish(t *testing.T, ch *amqp.Channel, queue, body string) {
	t.Helper()
	require.NoError(t, ch.Confirm(false))
	confirm, err := ch.PublishWithDeferredConfirm("", queue, true, false,
		amqp.Publishing{Body: []byte(body), DeliveryMode: amqp.Persistent})
	require.NoError(t, err)
	acked, err := confirm.WaitContext(t.Context())
	require.NoError(t, err)
	require.True(t, acked)
}

func receive(t *testing.T, ch *amqp.Channel, queue string) amqp.Delivery {
	t.Helper()
	deliveries, err := ch.Consume(queue, "", false, false, false, false, nil)
	require.NoError(t, err)
	return await(t, deliveries)
}

func await[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(20 * time.Second):
		require.FailNow(t, "nothing came")
	}
	panic("unreachable")
}

// processesWith lists the processes with text in their environment.
func processesWith(t *testing.T, text string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	require.NoError(t, err)
	var found []string
	for _, file := range files {
		env, err := os.ReadFile(file)
		if err != nil || file == fmt.Sprintf("/proc/%d/environ", os.Getpid()) {
			continue // gone, another user's, or our own
		}
		if strings.Contains(string(env), text) {
			found = append(found, file)
		}
	}
	return found
}
