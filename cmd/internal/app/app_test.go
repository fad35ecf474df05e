package app_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"tidings/cmd/internal/api"
	"tidings/cmd/internal/app"
	"tidings/store"
	"tidings/streams"
	"tidings/streams/embedded"
	"tidings/streams/event"
)

func TestEventsByHTTPAlone(t *testing.T) {
	w := newWorld(t, nil)
	client, _ := w.start()
	w.eventually("ready", func() bool { s, err := client.Status(t.Context()); return err == nil && s.Ready && len(s.Parts) == 4 })

	first := w.post(client, "1", "/ok")
	require.False(t, first.Duplicate)
	rows := w.rows(client, 1)
	require.Equal(t, event.Processed, rows[0].Outcome)

	t.Run("the same id again is a duplicate, and is counted", func(t *testing.T) {
		again := w.post(client, "1", "/ok")
		require.True(t, again.Duplicate)
		require.Equal(t, first.Key, again.Key)
		w.eventually("it is counted", func() bool { return w.rows(client, 1)[0].Duplicates == 1 })
		require.Equal(t, 1, w.hooks.Count())
	})
	t.Run("no part for RabbitMQ is shown", func(t *testing.T) {
		require.Equal(t, "not shown", w.part(client, "bridge amqp").Reason)
	})
}

func TestEventsByAMQP(t *testing.T) {
	w := newWorld(t, nil)
	v := w.rabbit()
	client, stop := w.start()
	w.publish(v.URL, "/ok", "1", "2", "1")
	w.rows(client, 2)
	w.eventually("the repeat is counted", func() bool {
		n := 0
		for _, r := range w.rows(client, 2) {
			n += r.Duplicates
		}
		return n == 1
	})
	require.Equal(t, 2, w.hooks.Count())

	t.Run("the status says how the source is doing", func(t *testing.T) {
		w.eventually("all is acknowledged", func() bool {
			s, err := client.Status(t.Context())
			return err == nil && len(s.Sources) == 1 && s.Sources[0].Acked == 3
		})
		s, err := client.Status(t.Context())
		require.NoError(t, err)
		require.Equal(t, "orders", s.Sources[0].Queue)
		require.Equal(t, uint64(1), s.Sources[0].Duplicates)
		require.False(t, s.Sources[0].LastDelivery.IsZero())
	})
	t.Run("a ledger that was deleted is built again, the same, and nothing is sent", func(t *testing.T) {
		stop()
		before := w.digest()
		require.NoError(t, os.Remove(filepath.Join(w.conf.Data, "ledger.db")))
		client, stop := w.start()
		w.rows(client, 2)
		w.eventually("caught up", func() bool { return w.part(client, "projector").Ready })
		stop()
		require.Equal(t, before, w.digest())
		require.Equal(t, 2, w.hooks.Count())
	})
}

// digest returns that of the ledger of a stopped process.
func (w *world) digest() string {
	w.Helper()
	s, err := store.Open(filepath.Join(w.conf.Data, "ledger.db"), store.Options{ReadOnly: true})
	require.NoError(w, err)
	defer func() { _ = s.Close() }()
	digest, err := s.Digest()
	require.NoError(w, err)
	return digest
}

func TestAnAnswerFromALedgerThatIsBehindSaysSo(t *testing.T) {
	w := newWorld(t, nil)
	client, stop := w.start()
	w.post(client, "1", "/ok")
	w.rows(client, 1)
	stop()
	require.NoError(t, os.RemoveAll(filepath.Join(w.conf.Data, "nats"))) // the log is lost, the ledger is not
	client, _ = w.start()
	w.eventually("it halts", func() bool { return strings.Contains(w.part(client, "projector").Reason, "keep the ledger file") })
	var why string
	client.Behind = func(s string) { why = s }
	_, err := client.Events(t.Context(), api.EventQuery{})
	require.NoError(t, err)
	require.Contains(t, why, "OUTCOMES")
	require.Contains(t, why, "keep the ledger file")
}

func TestOneProcessADirectory(t *testing.T) {
	w := newWorld(t, nil)
	w.start()
	_, err := app.New(app.Options{Config: w.conf})
	require.ErrorIs(t, err, app.ErrInUse)
	require.ErrorContains(t, err, "stop that one, or give this one its own with --data")
	_, _, err = app.Recover(t.Context(), app.RecoverOptions{Config: w.conf})
	require.ErrorIs(t, err, app.ErrInUse)
	require.ErrorContains(t, err, "stop that one, recover, and start it again")
	require.NotContains(t, err.Error(), "--data", "it is this one's ledger that is to be recovered from")
}

func TestADamagedSecretIsSaid(t *testing.T) {
	for name, remedy := range map[string]string{
		"instance":       "instance has 3 bytes and not 32: delete it, and the next start makes one",
		"recipients.key": "recipients.key has 3 bytes and not 32: restore it from a backup",
	} {
		w := newWorld(t, nil)
		require.NoError(t, os.Mkdir(w.conf.Data, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(w.conf.Data, name), []byte("odd"), 0o600))
		_, err := app.New(app.Options{Config: w.conf})
		require.ErrorContains(t, err, remedy)
	}
}

func TestRabbitMQDownAtStartIsWaitedOut(t *testing.T) {
	w := newWorld(t, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	require.NoError(t, l.Close()) // nobody listens there
	w.add(fmt.Sprintf("amqp: {url: %q, queue: orders}", "amqp://ann:secret-word@"+address+"/"))
	client, _ := w.start()
	w.eventually("readiness names the part and the reason", func() bool {
		p := w.part(client, "bridge amqp")
		return !p.Ready && p.Reason != ""
	})
	require.NotContains(t, w.part(client, "bridge amqp").Reason, "secret-word")
	w.post(client, "1", "/ok")
	w.rows(client, 1) // the other parts work
}

func TestNATSDownAtStartAndLaterIsWaitedOut(t *testing.T) {
	w := newWorld(t, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	require.NoError(t, l.Close())
	w.add(fmt.Sprintf("nats: {url: %q, durability: relaxed}", "nats://"+address))
	client, _ := w.start()
	w.eventually("readiness says where NATS should be", func() bool { return strings.Contains(w.part(client, "log").Reason, address) })

	t.Run("an event meanwhile is refused, and may come again", func(t *testing.T) {
		res, err := http.Post(client.BaseURL+"/readyz", "", nil)
		require.NoError(t, err)
		_ = res.Body.Close()
		_, err = client.Publish(t.Context(), http.Header{"Content-Type": {"application/json"}, "Ce-Specversion": {"1.0"}, "Ce-Id": {"1"}, "Ce-Source": {"shop"}, "Ce-Type": {"order.placed"}}, w.order("/ok"))
		require.Error(t, err)
	})

	dir := t.TempDir()
	server := func() *embedded.Server {
		s, err := embedded.Start(t.Context(), embedded.Options{StoreDir: dir, Durability: streams.Relaxed, Listen: address})
		require.NoError(t, err)
		return s
	}
	s := server()
	w.eventually("it works once NATS is there", func() bool { return w.part(client, "log").Ready && w.part(client, "dispatcher").Ready })
	w.post(client, "1", "/ok")
	w.rows(client, 1)

	s.Shutdown()
	w.eventually("readiness says that NATS is gone", func() bool { return !w.part(client, "log").Ready })
	s = server()
	t.Cleanup(s.Shutdown)
	w.eventually("it works again", func() bool { return w.part(client, "log").Ready })
	w.post(client, "2", "/ok")
	w.rows(client, 2)
	require.Equal(t, 2, w.hooks.Count())
}

// Whatever is killed when: every event is processed, a message that the history
// does not call uncertain was sent once, and the ledger agrees with the receiver.
func TestKilledAtRandom(t *testing.T) {
	const events, kills = 300, 6
	w := newWorld(t, nil)
	w.add("policy: {crashes: 10}") // an event may be in hand at every kill, and none is to blame
	v := w.rabbit()
	p := w.spawn()
	p.client()
	published := make(chan struct{})
	go func() {
		defer close(published)
		for i := range events {
			w.publish(v.URL, "/ok", fmt.Sprint("order-", i))
		}
	}()
	for range kills {
		reached := w.hooks.Count() + 1 + rand.IntN(20)
		w.eventually("some more were sent", func() bool { return w.hooks.Count() >= min(reached, events) })
		p.kill()
		p = w.spawn()
		p.client()
	}
	<-published
	client := p.client()
	rows := w.rows(client, events)
	sent := w.sent()
	for _, r := range rows {
		require.Equal(t, event.Processed, r.Outcome, "%s: %+v", r.EventID, r)
		messages, err := client.Event(t.Context(), string(r.Key), "")
		require.NoError(t, err)
		id := messages.Messages[0].ID
		if sent[id] > 1 {
			require.True(t, saysUncertain(t, w, client.BaseURL, r.Key), "%s was sent %d times and never called uncertain", r.EventID, sent[id])
		}
	}
	require.Len(t, sent, events, "every event was sent")
	p.terminate()
}

// saysUncertain reports whether the history of an event tells that a claim on it was lost.
func saysUncertain(t *testing.T, w *world, url string, key event.Key) bool {
	entries, err := w.client(url).History(t.Context(), key)
	require.NoError(t, err)
	for _, e := range entries {
		for _, f := range e.Facts {
			if _, ok := f.(event.Crashed); ok {
				return true
			}
		}
	}
	return false
}

func TestTermFinishesWhatIsInHand(t *testing.T) {
	inside, release := make(chan struct{}), make(chan struct{})
	w := newWorld(t, map[string]http.HandlerFunc{"/slow": func(http.ResponseWriter, *http.Request) {
		close(inside)
		<-release
	}})
	p := w.spawn()
	w.post(p.client(), "1", "/slow")
	<-inside
	time.AfterFunc(300*time.Millisecond, func() { close(release) })
	p.terminate()
	p = w.spawn()
	rows := w.rows(p.client(), 1)
	require.Equal(t, event.Processed, rows[0].Outcome)
	require.Zero(t, rows[0].Crashes)
	require.Equal(t, 1, w.hooks.Count())
	p.terminate()
}

func TestAHorizonOfZeroIsForEver(t *testing.T) {
	w := newWorld(t, nil)
	w.add("horizon: 0")
	client, stop := w.start()
	w.eventually("the log is open", func() bool { return w.part(client, "log").Ready })
	stop()
	s, err := embedded.Start(t.Context(), embedded.Options{StoreDir: filepath.Join(w.conf.Data, "nats")})
	require.NoError(t, err)
	t.Cleanup(s.Shutdown)
	nc, err := s.Connect("test")
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	stream, err := js.Stream(t.Context(), streams.OutcomesStream)
	require.NoError(t, err)
	require.Zero(t, stream.CachedInfo().Config.MaxAge)
}
