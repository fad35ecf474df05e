package processes_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"tidings/dispatcher"
	"tidings/dispatcher/channel/webhook"
	"tidings/dispatcher/letters"
	"tidings/dispatcher/plan"
	"tidings/dispatcher/replay"
	"tidings/dispatcher/steward"
	"tidings/streams"
	"tidings/streams/embedded"
	"tidings/streams/event"
)

const tenant = "acme"

// node is what one process has: a server on a directory, the log, and the parts,
// which run when they are started.
type node struct {
	log      *streams.Log
	desk     *letters.Desk
	replayer *replay.Replayer
	planner  dispatcher.Planner
	keep     time.Duration // of the steward
	consume  streams.ConsumeOptions
	closers  []func()
}

// openNode starts the server on dir. wrap may put something between it and the log.
func openNode(ctx context.Context, dir string, wrap func(nats.InProcessConnProvider) nats.InProcessConnProvider) (*node, error) {
	n := &node{consume: streams.ConsumeOptions{AckWait: time.Second, Heartbeat: 300 * time.Millisecond}}
	server, err := embedded.Start(ctx, embedded.Options{StoreDir: dir, Durability: streams.Strict})
	if err != nil {
		return nil, err
	}
	n.closers = append(n.closers, server.Shutdown)
	nc, err := nats.Connect("", append(streams.ConnectOptions("node", slog.New(slog.DiscardHandler)), nats.InProcessServer(wrap(server)))...)
	if err != nil {
		return nil, err
	}
	n.closers = append(n.closers, nc.Close)
	n.log, err = streams.Open(ctx, nc, streams.Options{
		Durability: streams.Strict, EventsMaxBytes: 1 << 28, OutcomesMaxBytes: 1 << 28, DeadLettersMaxBytes: 1 << 28, OversizeMaxBytes: 1 << 28,
	})
	if err != nil {
		return nil, err
	}
	n.run(n.log.Run)
	n.planner, err = newPlanner()
	n.desk = letters.New(letters.Options{
		Outcomes: n.log.Outcomes, Letters: n.log.DeadLetters, Events: n.log.Events, Waker: n.log.Retries, Planner: n.planner,
		Suppressions: nobody{},
	})
	n.replayer = replay.New(replay.Options{Log: n.log.Outcomes, Desk: n.desk, Look: 10 * time.Millisecond})
	return n, err
}

func newPlanner() (dispatcher.Planner, error) {
	return plan.Compile(plan.Rules{Routes: []plan.Route{{Name: "hook", Event: "**", Channel: "hook", Recipients: "data.urls"}}}, nil, plan.Options{
		Secret:   []byte("0123456789abcdef0123456789abcdef"),
		Channels: map[string]plan.Channel{"hook": {Kind: plan.Webhook, OnUnknown: event.Resend}},
	})
}

// nobody is suppressed.
type nobody struct{}

func (nobody) Suppressed(context.Context, string, string, event.Recipient) (string, bool, error) {
	return "", false, nil
}

func straight(s nats.InProcessConnProvider) nats.InProcessConnProvider { return s }

// run runs a part until the node is closed.
func (n *node) run(part func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = part(ctx) })
	stop = func() { cancel(); wg.Wait() }
	n.closers = append(n.closers, stop)
	return stop
}

// dispatch runs a dispatcher, as the next boot of the same instance.
func (n *node) dispatch() (stop func(), err error) {
	hooks, err := webhook.New(webhook.Config{AllowPrivate: true, Secrets: []string{webhook.NewSecret()}})
	if err != nil {
		return nil, err
	}
	n.closers = append(n.closers, func() { _ = hooks.Close() })
	d, err := dispatcher.New(dispatcher.Options{
		Log: n.log, Planner: n.planner, Owner: event.Owner{Instance: "here", Boot: event.NewNonce()},
		Channels: map[string]dispatcher.Channel{"hook": {Sender: hooks, Policy: dispatcher.Policy{
			Tries: 1, Rounds: []time.Duration{}, Failures: 1 << 30,
		}}},
		Consume: n.consume,
	})
	if err != nil {
		return nil, err
	}
	return n.run(d.Run), nil
}

// runAll runs dispatcher, replayer and steward.
func (n *node) runAll() error {
	if _, err := n.dispatch(); err != nil {
		return err
	}
	n.run(n.replayer.Run)
	s := steward.New(steward.Options{
		Ledger: ledger{n.log}, Waker: n.log.Retries, Events: n.log.Events, Histories: n.log.Outcomes, Letters: n.log.DeadLetters,
		Every: 50 * time.Millisecond, Keep: n.keep,
	})
	n.run(s.Run)
	return nil
}

func (n *node) close() {
	for i := len(n.closers) - 1; i >= 0; i-- {
		n.closers[i]()
	}
}

func (n *node) publish(ctx context.Context, id string, urls ...string) (event.Key, error) {
	body, err := json.Marshal(map[string]any{"urls": urls})
	if err != nil {
		return "", err
	}
	got, err := n.log.Events.Publish(ctx, streams.Incoming{Nonce: event.NewNonce(), Envelope: event.Envelope{
		Tenant: tenant, Source: "shop", ID: id, IDSource: event.IDMessageID, Type: "order.placed", ContentType: "application/json", Data: body,
	}})
	return got.Key, err
}

// idle reports whether nothing is under way: all copies and wake-ups are handled.
func (n *node) idle(ctx context.Context) (bool, error) {
	handled, err := n.log.Events.Handled(ctx)
	if err != nil {
		return false, err
	}
	events, err := n.log.Events.Info(ctx)
	if err != nil {
		return false, err
	}
	retries, err := n.log.Retries.Info(ctx)
	return err == nil && handled == events.Last && retries.Messages == 0, err
}

// until waits until ok, with nothing under way.
func (n *node) until(ctx context.Context, ok func(view) bool) error {
	for {
		v, err := n.look(ctx)
		if err != nil {
			return err
		}
		idle, err := n.idle(ctx)
		if err != nil {
			return err
		}
		if idle && ok(v) {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), errors.New("seen so far: "+v.String()))
		case <-time.After(10 * time.Millisecond):
		}
	}
}
