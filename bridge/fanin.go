package bridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wamqp "github.com/ThreeDotsLabs/watermill-amqp/v2/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"
)

// fanIn is an intake by watermill-amqp's own subscriber: on one connection as
// many subscriptions as the window is wide, since each hands on one delivery at
// a time.
//
// What that subscriber does badly is kept from it. It is never told no, since it
// would put the delivery back at once and get it again. It does not connect
// again: the end of the connection is the end of the session. It is closed only
// when nothing is in hand, since it gives back whatever is, and nothing consumes,
// since one subscription would take what another has just given back.
type fanIn struct {
	*session
	subscriptions []*subscription
	offers        chan *subscription // that have a delivery to hand on
	closing       chan *amqp.Error
	trouble       chan error // receives why a subscription cannot go on

	subscribing context.Context // of the subscriptions
	cancel      context.CancelFunc
	settled     chan struct{}  // closed when nothing is in hand and nothing will be
	consuming   sync.WaitGroup // subscriptions that may take something
	running     sync.WaitGroup
}

func newFanIn(ss *session) intake {
	f := &fanIn{session: ss, offers: make(chan *subscription), trouble: make(chan error, 1), settled: make(chan struct{})}
	f.subscribing, f.cancel = context.WithCancel(context.WithoutCancel(ss.ctx))
	return f
}

func (f *fanIn) open(ctx context.Context) error {
	connection, err := f.connect(ctx)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", f.sub.state.status.Broker, err)
	}
	if err := f.prepare(); err != nil {
		return err
	}
	f.consumers = f.window
	for range f.window {
		s, err := f.subscribe(connection)
		if err != nil {
			f.giveBack()
			return f.reason(err)
		}
		f.subscriptions = append(f.subscriptions, s)
	}
	return nil
}

// reason says why subscribing ended with err: the first deliveries may be quicker
// than it, and end the connection.
func (f *fanIn) reason(err error) error {
	if f.conn.IsClosed() {
		select {
		case why := <-f.closing:
			return f.lost(why)
		case <-time.After(closeTimeout):
		}
	}
	return err
}

func (f *fanIn) connect(ctx context.Context) (*wamqp.ConnectionWrapper, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	c, err := secured(f.sub.config.Connection)
	if err != nil {
		return nil, err
	}
	c, release := bounded(ctx, c)
	c.AmqpConfig.Dial = once(c.AmqpConfig.Dial)
	connection, err := wamqp.NewConnection(c, f.quiet())
	if err != nil {
		return nil, explained(err, c.AmqpURI)
	}
	f.conn = connection.Connection()
	f.closing = f.conn.NotifyClose(make(chan *amqp.Error, 1))
	if !release() {
		return nil, context.Cause(ctx)
	}
	return connection, nil
}

// quiet is the log of the subscriptions: each says what goes wrong, and the
// session says it once.
func (f *fanIn) quiet() watermill.LoggerAdapter {
	return listening{f, untraced{watermill.NewSlogLoggerWithLevelMapping(f.sub.log, map[slog.Level]slog.Level{
		slog.LevelInfo: slog.LevelDebug, slog.LevelWarn: slog.LevelDebug, slog.LevelError: slog.LevelDebug,
	})}}
}

// listening ends the session over a consumer that the broker refuses. The log is
// all that hears of it: a subscription tries again and again, for ever.
type listening struct {
	in *fanIn
	untraced
}

// Error implements watermill.LoggerAdapter.
func (l listening) Error(msg string, err error, fields watermill.LogFields) {
	if hasCode(err, amqp.AccessRefused) {
		l.in.fail(fmt.Errorf("consume queue %q: %w", l.in.sub.config.Queue.GenerateName(""), err))
	}
	l.untraced.Error(msg, err, fields)
}

// With implements watermill.LoggerAdapter.
func (l listening) With(fields watermill.LogFields) watermill.LoggerAdapter {
	return listening{l.in, untraced{l.LoggerAdapter.With(fields)}}
}

// fail ends the session.
func (f *fanIn) fail(err error) {
	select {
	case f.trouble <- err:
	default: // somebody else said so
	}
}

// once ends a goroutine that dials a second time: it is that of the library that
// would connect again, and only connecting again would let it go on.
func once(dial func(network, addr string) (net.Conn, error)) func(network, addr string) (net.Conn, error) {
	dialled := false
	return func(network, addr string) (net.Conn, error) {
		if dialled {
			runtime.Goexit()
		}
		dialled = true
		return dial(network, addr)
	}
}

func (f *fanIn) pump(ctx context.Context) error {
	for _, s := range f.subscriptions {
		f.consuming.Add(1)
		f.running.Go(s.run)
	}
	for {
		select {
		case <-ctx.Done():
			return errStopping
		case err := <-f.given:
			return &DestinationError{err}
		case <-f.calm:
			return errCalm
		case err := <-f.trouble:
			return err
		case err := <-f.closing:
			return f.lost(err)
		case s := <-f.offers:
			if err := f.refuse(s.last); err != nil {
				s.handed <- nil
				return err
			}
			h := f.hold(s.last)
			if !f.hand(ctx, h) {
				h = nil
			}
			s.handed <- h
		}
	}
}

func (f *fanIn) giveBack() {
	for _, s := range f.subscriptions {
		if h := s.awaits.Load(); h != nil {
			h.refuse()
		}
	}
	close(f.settled)
	f.cancel() // before Close, which may wait for the broker otherwise
	f.consuming.Wait()
	for _, s := range f.subscriptions {
		_ = s.Close()
	}
	f.running.Wait()
}

// subscription is one of a fan-in.
type subscription struct {
	*wamqp.Subscriber
	in       *fanIn
	messages <-chan *message.Message
	last     amqp.Delivery // what it took last; it takes no more before that is acknowledged
	handed   chan *held    // receives last when it was handed on, or nil
	awaits   atomic.Pointer[held]
}

func (f *fanIn) subscribe(connection *wamqp.ConnectionWrapper) (_ *subscription, err error) {
	s := &subscription{in: f, handed: make(chan *held, 1)}
	c := f.sub.config
	c.Consume.Qos.PrefetchCount = 1
	c.Marshaler = remembering{of: s}
	c.TopologyBuilder = checking{c.TopologyBuilder, f}
	if s.Subscriber, err = wamqp.NewSubscriberWithConnection(c, f.quiet(), connection); err != nil {
		return nil, err
	}
	if s.messages, err = s.Subscribe(f.subscribing, ""); err != nil {
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	return s, nil
}

// run hands deliveries on, each when the one before it is acknowledged. One that
// cannot be is held until all is given back.
func (s *subscription) run() {
	consumes := sync.OnceFunc(s.in.consuming.Done)
	defer consumes()
	for msg := range s.messages {
		h := s.handle()
		if h == nil {
			<-s.in.settled
			s.endConsumer()
			consumes()
			continue
		}
		msg.Ack()
		<-msg.Context().Done() // the subscription is through with it
		s.in.tried(h)
	}
}

// handle returns what was taken last when it was handled, or nil.
func (s *subscription) handle() *held {
	select {
	case s.in.offers <- s:
	case <-s.in.ended:
		return nil
	}
	h := <-s.handed
	s.awaits.Store(h)
	if h == nil || !s.in.await(h) {
		return nil
	}
	return h
}

// tried notes that a subscription has tried to acknowledge a delivery: it does
// not say whether it could.
func (f *fanIn) tried(h *held) {
	if ch, ok := h.Acknowledger.(*amqp.Channel); ok && ch.IsClosed() {
		f.letGo(h)
		return
	}
	f.acknowledged(h)
}

// endConsumer ends the consumer that took the last delivery, on its own channel.
func (s *subscription) endConsumer() {
	if ch, ok := s.last.Acknowledger.(*amqp.Channel); ok {
		_ = ch.Cancel(s.last.ConsumerTag, false) // if it fails, there is no consumer any more
	}
}

// errNoDelivery is what a marshaler answers for the zero delivery that a
// subscriber reads from a closed channel.
var errNoDelivery = errors.New("there is no delivery: the subscription has ended")

// remembering keeps the delivery that a subscription reads.
type remembering struct {
	wamqp.DefaultMarshaler
	of *subscription
}

// Unmarshal implements amqp.Marshaler of watermill-amqp, which reads the zero
// delivery from a channel that is closed.
func (r remembering) Unmarshal(d amqp.Delivery) (*message.Message, error) {
	if d.Acknowledger == nil {
		return nil, errNoDelivery
	}
	r.of.last = d
	return message.NewMessage(d.MessageId, nil), nil
}

// checking looks for the queue before a subscription consumes, and ends the
// session if it cannot. It ends subscriptions that come back to it after their
// end: they would consume once more, by chance.
type checking struct {
	wamqp.TopologyBuilder
	in *fanIn
}

// BuildTopology implements amqp.TopologyBuilder of watermill-amqp.
func (t checking) BuildTopology(ch *amqp.Channel, queue, exchange string, c wamqp.Config, log watermill.LoggerAdapter) error {
	if t.in.subscribing.Err() != nil {
		runtime.Goexit() // of the subscription, which cleans up
	}
	err := t.TopologyBuilder.BuildTopology(ch, queue, exchange, c, log)
	if err != nil {
		t.in.fail(err)
	}
	return err
}
