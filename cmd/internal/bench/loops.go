package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/sync/errgroup"

	"tidings/bridge"
	"tidings/bridge/bridgetest"
	"tidings/streams"
	"tidings/streams/embedded"
	"tidings/streams/event"
)

// place is a log in a directory of its own.
type place struct {
	dir    string
	server *embedded.Server
	nc     *nats.Conn
	log    *streams.Log
	remove func()
}

func openPlace(ctx context.Context, durability streams.Durability) (*place, error) {
	return openLog(ctx, streams.Options{Durability: durability})
}

func openLog(ctx context.Context, o streams.Options) (*place, error) {
	dir, remove, err := bridgetest.TempDir("tidings-bench-")
	if err != nil {
		return nil, err
	}
	p, err := openLogIn(ctx, dir, o)
	if err != nil {
		remove()
		return nil, err
	}
	p.remove = remove
	return p, nil
}

// openLogIn opens the log in a directory, which stays.
func openLogIn(ctx context.Context, dir string, o streams.Options) (_ *place, err error) {
	p := &place{dir: dir}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	if p.server, err = embedded.Start(ctx, embedded.Options{StoreDir: dir, Durability: o.Durability}); err != nil {
		return nil, err
	}
	if p.nc, err = p.server.Connect("tidings bench"); err != nil {
		return nil, err
	}
	p.log, err = streams.Open(ctx, p.nc, o)
	return p, err
}

func (p *place) close() {
	if p.nc != nil {
		p.nc.Close()
	}
	if p.server != nil {
		p.server.Shutdown()
	}
	if p.remove != nil {
		p.remove()
	}
}

// holds says if not exactly count events are in the log.
func (p *place) holds(ctx context.Context, count int) error {
	return p.holdsAll(ctx, [kinds]int{original: count})
}

// holdsAll says if not everything of a mix became what it must: an event, an
// entry of the audit, or a dead letter.
func (p *place) holdsAll(ctx context.Context, want [kinds]int) error {
	for k, info := range [kinds]func(context.Context) (streams.StreamInfo, error){
		original: p.log.Events.Info, duplicate: p.log.Outcomes.Info, conflict: p.log.DeadLetters.Info,
	} {
		switch i, err := info(ctx); {
		case err != nil:
			return err
		case i.Messages != uint64(want[k]):
			return fmt.Errorf("there are %d %s in the log and not %d: the connection to RabbitMQ broke meanwhile; measure again",
				i.Messages, [kinds]string{"events", "duplicates", "dead letters"}[k], want[k])
		}
	}
	return nil
}

// product runs the bridge as the process runs it.
func product(ctx context.Context, url, queue string, window int, p *place, m *meter) error {
	door := bridge.NewDoor(bridge.DoorOptions{Events: p.log.Events, Letters: p.log.DeadLetters, Audit: p.log.Outcomes})
	b, err := bridge.New(bridge.Config{URL: url, Queue: queue, Window: window, Name: "tidings bench"}, door,
		bridge.Options{Held: m.acked})
	if err != nil {
		return err
	}
	logging, stop := context.WithCancel(context.WithoutCancel(ctx)) // the log ends after the bridge
	var g errgroup.Group
	g.Go(func() error { return p.log.Run(logging) })
	err = b.Run(ctx)
	stop()
	return errors.Join(err, g.Wait())
}

// inFlight is a delivery whose answer from the log is outstanding.
type inFlight struct {
	delivery amqp.Delivery
	taken    time.Time
	future   jetstream.PubAckFuture
}

// bare consumes, publishes without waiting, and acknowledges what the log has.
func bare(ctx context.Context, url, queue string, window int, p *place, m *meter) error {
	js, err := jetstream.New(p.nc, jetstream.WithPublishAsyncMaxPending(max(window, 4000)))
	if err != nil {
		return err
	}
	conn, err := amqp.Dial(url)
	if err != nil {
		return fmt.Errorf("connect to RabbitMQ: %w", err)
	}
	defer func() { _ = conn.Close() }()
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	if err := ch.Qos(window, 0, false); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	// The deliveries end with the context that publishAll asks, not with its parent,
	// which ends a moment earlier.
	deliveries, err := ch.ConsumeWithContext(ctx, queue, "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	sent := make(chan inFlight, window)
	g.Go(func() error { return publishAll(ctx, js, deliveries, sent) })
	g.Go(func() error { return ackAll(ctx, sent, m) })
	return g.Wait()
}

var errDeliveriesEnd = errors.New("RabbitMQ ended the deliveries")

func publishAll(ctx context.Context, js jetstream.JetStream, deliveries <-chan amqp.Delivery, sent chan<- inFlight) error {
	subject := streams.EventSubject(event.DefaultTenant, eventType)
	for {
		select {
		case <-ctx.Done():
			return nil
		case d, ok := <-deliveries:
			if !ok && ctx.Err() == nil {
				return errDeliveriesEnd
			} else if !ok {
				return nil
			}
			taken := time.Now()
			future, err := js.PublishMsgAsync(&nats.Msg{
				Subject: subject, Header: nats.Header{jetstream.MsgIDHeader: {d.MessageId}}, Data: d.Body,
			})
			if err != nil {
				return err
			}
			sent <- inFlight{d, taken, future} // holds a window, and no more can come
		}
	}
}

func ackAll(ctx context.Context, sent <-chan inFlight, m *meter) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case f := <-sent:
			select {
			case <-f.future.Ok():
			case err := <-f.future.Err():
				return err
			}
			if err := f.delivery.Ack(false); err != nil {
				return err
			}
			m.acked(time.Since(f.taken))
		}
	}
}
