package main

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"tidings/bridge"
	"tidings/bridge/bridgetest"
	"tidings/cmd/internal/api"
	"tidings/store"
	"tidings/store/storetest"
	"tidings/streams"
	"tidings/streams/event"
	"tidings/streams/streamstest"
)

func TestMain(m *testing.M) {
	testscript.Main(leakChecked{bridgetest.Main(m)}, map[string]func(){"tidings": main})
}

// leakChecked fails where goroutines are left when all tests have passed.
type leakChecked struct{ testscript.TestingM }

func (l leakChecked) Run() int {
	if code := l.TestingM.Run(); code != 0 {
		return code
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// token is what the server of the scripts wants.
const token = "0123456789abcdef0123456789abcdef"

// TestScripts runs the command as processes of their own, against a server on a
// real ledger and a real log.
func TestScripts(t *testing.T) {
	w := newWorld(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata", RequireExplicitExec: true, Cmds: commandsOfScripts(),
		Setup: func(e *testscript.Env) error {
			e.Setenv("TIDINGS_URL", w.server.URL)
			e.Setenv("ADDRESS", w.server.Listener.Addr().String()) // one that is in use
			e.Setenv("TIDINGS_TOKEN", token)
			e.Setenv("O1", string(w.o1.Key))
			e.Setenv("O2", string(w.o2.Key))
			e.Setenv("ACME", string(w.acme.Key))
			e.Setenv("RAW", string(w.raw.Key))
			e.Setenv("LARGE", string(w.large.Key))
			return os.WriteFile(filepath.Join(e.WorkDir, "raw.want"), w.raw.Data, 0o600)
		},
	})
}

// TestPublishScripts runs the scripts that need a RabbitMQ.
func TestPublishScripts(t *testing.T) {
	vhost := bridgetest.New(t).Vhost(t)
	queue, exchange := vhost.Queue(t, "events"), vhost.Exchange(t, "shop")
	conn, err := amqp.Dial(vhost.URL)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	ch, err := conn.Channel()
	require.NoError(t, err)
	_, err = ch.QueueDeclare(queue, true, false, false, false, nil)
	require.NoError(t, err)
	require.NoError(t, ch.ExchangeDeclare(exchange, amqp.ExchangeTopic, true, false, false, false, nil))
	require.NoError(t, ch.QueueBind(queue, "order.*", exchange, false, nil))

	cmds := commandsOfScripts()
	// consume takes one message and writes what it is.
	cmds["consume"] = func(ts *testscript.TestScript, _ bool, _ []string) {
		d, ok, err := ch.Get(queue, true)
		ts.Check(err)
		if !ok {
			ts.Fatalf("queue %s is empty", queue)
		}
		fmt.Fprintf(ts.Stdout(), "key=%q id=%q type=%q source=%q correlation=%q content=%q mode=%d time=%s headers=%v body=%s\n",
			d.RoutingKey, d.MessageId, d.Type, d.AppId, d.CorrelationId, d.ContentType, d.DeliveryMode,
			d.Timestamp.UTC().Format(time.RFC3339), d.Headers, d.Body)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/amqp", RequireExplicitExec: true, Cmds: cmds,
		Setup: func(e *testscript.Env) error {
			e.Setenv("AMQP_URL", vhost.URL)
			e.Setenv("QUEUE", queue)
			e.Setenv("EXCHANGE", exchange)
			return nil
		},
	})
}

func commandsOfScripts() map[string]func(*testscript.TestScript, bool, []string) {
	return map[string]func(*testscript.TestScript, bool, []string){
		// code N COMMAND… runs a command and wants its exit code to be N.
		"code": func(ts *testscript.TestScript, _ bool, args []string) {
			want, err := strconv.Atoi(args[0])
			ts.Check(err)
			got := 0
			if err := ts.Exec(args[1], args[2:]...); err != nil {
				e, ok := errors.AsType[*exec.ExitError](err)
				if !ok {
					ts.Check(err)
				}
				got = e.ExitCode()
			}
			if got != want {
				ts.Fatalf("exit code %d, want %d", got, want)
			}
		},
	}
}

// world is what the scripts look at.
type world struct {
	o1, o2, acme event.Ref
	raw, large   event.Letter
	server       *httptest.Server
}

func newWorld(t *testing.T) *world {
	t.Helper()
	ledger, log := storetest.Open(t), streamstest.New(t)
	w := &world{
		o1:   ref("shop", "o-1", "order.placed"),
		o2:   ref("shop", "o-2\x1b[31m", "order.placed"), // an id that would colour the screen
		acme: ref("acme", "o-1", "unheard.of"),
	}
	w.acme.AMQPMessageID = "m-1"
	w.fill(t, ledger)
	w.bury(t, ledger, log)
	door := bridge.NewDoor(bridge.DoorOptions{Events: log.Events, Letters: log.DeadLetters, Audit: log.Outcomes})
	s, err := api.New(api.Options{
		Ledger: ledger, Door: door, Letters: log.DeadLetters, Token: token, Version: "v1.0.0",
		Parts: func(context.Context) []api.Part {
			return []api.Part{{Name: "amqp", Reason: "connection refused"}, {Name: "log", Ready: true}}
		},
		Sources: func() []api.Source {
			return []api.Source{{
				Name: "orders", Broker: `rabbit:5672 vhost "/"`, Queue: "shop.orders", Window: 256, InHand: 2, Waiting: -1, Consumers: -1,
				Acked: 40, Duplicates: 3, Quarantined: 1, Reconnects: 5, LastDelivery: storetest.Start,
			}}
		},
		Dispatcher: func() api.Dispatching {
			return api.Dispatching{Waiting: 12, MaxWaiting: 100_000, Channels: []api.Channel{
				{Channel: "mail", Breaker: "open", Since: storetest.Start, Until: storetest.Start.Add(time.Minute), Code: "smtp_421", Calls: 1, InHand: 2, Aside: 9, Throttled: 7, Concurrency: 16},
			}}
		},
		Streams: func(context.Context) ([]api.Stream, error) {
			return []api.Stream{{Name: "EVENTS", Messages: 3, Bytes: 2048, MaxBytes: 8 << 30, First: 1, Last: 3}}, nil
		},
		Now: func() time.Time { return storetest.Start },
	})
	require.NoError(t, err)
	w.server = httptest.NewServer(s.Handler())
	t.Cleanup(w.server.Close)
	return w
}

func ref(tenant, id, typ string) event.Ref {
	e := event.Envelope{Tenant: tenant, Source: "checkout", ID: id}
	return event.Ref{
		Key: event.Identity{}.Key(e), Tenant: tenant, Source: e.Source, ID: id, IDSource: event.IDMessageID, Type: typ,
		OccurredAt: storetest.Start.Add(-time.Minute), ReceivedAt: storetest.Start, Sequence: 1, Digest: "d",
	}
}

// fill writes three histories into the ledger.
func (w *world) fill(t *testing.T, ledger *store.Store) {
	t.Helper()
	claim := event.Claimed{Owner: event.Owner{Instance: "shop-1", Boot: "b"}, LeaseMS: 60_000, Limit: 64}
	planned := event.Planned{
		Routes: []event.RouteDecision{{Route: "confirmation", Verdict: "planned", Count: 1}},
		Messages: []event.PlannedMessage{{
			ID: "m1", Route: "confirmation", Channel: "mail", Recipient: event.Recipient{Hash: "h", Mask: "a…@example.com"}, OnUnknown: event.Hold,
		}},
	}
	tried := func(result event.TryResult, code string) event.Tried {
		return event.Tried{Message: "m1", Try: 1, Started: storetest.Start, Ended: storetest.Start.Add(20 * time.Millisecond), Result: result, Code: code}
	}
	var log storetest.Log
	log.Record(w.o1, claim)
	log.Record(w.o1, planned, tried(event.TryDelivered, "smtp_250"), event.Settled{})
	log.Duplicate(w.o1, "n")
	log.Record(w.o2, claim)
	log.Record(w.o2, planned, tried(event.TryTransient, "smtp_451"), event.GaveUp{Message: "m1", Reason: "rounds_exhausted"},
		event.Dead{Cause: event.CauseRoundsExhausted})
	log.Record(w.acme, claim)
	log.Record(w.acme, event.Planned{Nothing: event.NoTemplate, Routes: []event.RouteDecision{
		{Verdict: "no_template", Detail: `no route for events of type "unheard.of"`},
	}}, event.Settled{})
	storetest.Apply(t, ledger, log.Lines...)
}

// bury writes three dead letters into log and ledger.
func (w *world) bury(t *testing.T, ledger *store.Store, log *streams.Log) {
	t.Helper()
	w.raw = event.Letter{
		Schema: event.Schema, Kind: event.LetterDelivery, Tenant: "default", Key: event.NewKey("raw"),
		Cause: event.CauseUndecodable, Stage: event.StageBridge, Detail: "the body is no JSON object",
		At: storetest.Start, Data: []byte("\x00\xff<not an event>"),
		Delivery: &event.Delivery{Broker: "127.0.0.1:5672 vhost \"/\"", Queue: "orders", Properties: map[string]string{"type": "x"}},
	}
	o2 := event.Letter{
		Schema: event.Schema, Kind: event.LetterEvent, Tenant: "shop", Key: w.o2.Key, Cause: event.CauseRoundsExhausted,
		Stage: event.StageDispatcher, At: storetest.Start.Add(time.Second), Event: &w.o2, Data: []byte("{\"n\":2}\x1b[31m"),
	}
	w.large = event.Letter{
		Schema: event.Schema, Kind: event.LetterDelivery, Tenant: "default", Key: event.NewKey("large"),
		Cause: event.CauseOversize, Stage: event.StageBridge, At: storetest.Start, Data: make([]byte, 16<<20),
	}
	for _, l := range []event.Letter{w.raw, w.large, o2} {
		sequence, _, err := log.DeadLetters.Put(t.Context(), l)
		require.NoError(t, err)
		require.NoError(t, ledger.Update(func(tx *store.Tx) error { return tx.Letter(store.NewLetter(sequence, l)) }))
	}
}
