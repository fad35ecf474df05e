package bridge

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"sync"
	"sync/atomic"
	"time"

	wamqp "github.com/ThreeDotsLabs/watermill-amqp/v2/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	dialTimeout  = 15 * time.Second // TCP, TLS and AMQP handshake together
	closeTimeout = 3 * time.Second  // for saying goodbye to the broker
	killGrace    = 5 * time.Second  // for handlers to notice that their context is cancelled
)

// session is one connection with one channel and one consumer, and what is in
// hand of it.
type session struct {
	sub        *subscriber
	out        chan<- *message.Message
	conn       *amqp.Connection
	ch         *amqp.Channel
	deliveries <-chan amqp.Delivery
	cancelled  chan string
	closed     chan *amqp.Error

	// ended is closed when nothing of this session is worth retrying: what is
	// being handled is finished, and what waits for another try is given back.
	ended chan struct{}
	// window is how many deliveries may be in hand; isolated says that it is 1
	// because of messages that cannot be read, and calm receives that there are
	// no more of them.
	window   int
	isolated bool
	calm     chan struct{}
	// given receives the reason why a handler gives the window back.
	given chan error
	// ctx is that of the messages. It outlives ended by the drain time.
	ctx  context.Context
	kill context.CancelCauseFunc

	looking sync.WaitGroup
	inHand  sync.WaitGroup
	acked   atomic.Uint64
	acks    acks
}

// open connects, sees to the topology and starts to consume.
func (s *subscriber) open(ctx context.Context, out chan<- *message.Message) (*session, error) {
	s.state.connecting()
	conn, err := dial(ctx, s.config.Connection)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", s.state.status.Broker, err)
	}
	session := &session{
		sub: s, out: out, conn: conn,
		window: s.loop.window(s.config.Consume.Qos.PrefetchCount), isolated: s.loop.isolated,
		calm:  make(chan struct{}, 1),
		ended: make(chan struct{}), given: make(chan error, 1),
	}
	if err := session.consume(); err != nil {
		_ = conn.CloseDeadline(time.Now().Add(closeTimeout))
		return nil, err
	}
	session.ctx, session.kill = context.WithCancelCause(context.WithoutCancel(ctx))
	s.state.consuming(session.window)
	session.looking.Go(session.look)
	return session, nil
}

// dial connects within dialTimeout and not longer than ctx.
func dial(ctx context.Context, c wamqp.ConnectionConfig) (*amqp.Connection, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	config := *c.AmqpConfig
	// The library writes into the properties.
	config.Properties = maps.Clone(config.Properties)
	if c.TLSConfig != nil {
		config.TLSClientConfig = c.TLSConfig
	}
	release := func() bool { return true }
	config.Dial = func(network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		// The library lifts the deadline when the handshake is done.
		release = context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
		return conn, nil
	}
	conn, err := amqp.DialConfig(c.AmqpURI, config)
	if !release() && err == nil {
		_ = conn.Close()
		return nil, context.Cause(ctx)
	}
	return conn, err
}

func (ss *session) consume() error {
	c := ss.sub.config
	queue, exchange := c.Queue.GenerateName(""), c.Exchange.GenerateName("")
	ch, err := ss.channel(queue, exchange)
	if err != nil {
		return err
	}
	if err := ch.Qos(ss.window, 0, false); err != nil {
		return fmt.Errorf("set the window: %w", err)
	}
	ss.ch = ch
	ss.cancelled = ch.NotifyCancel(make(chan string, 1))
	ss.closed = ch.NotifyClose(make(chan *amqp.Error, 1))
	ss.deliveries, err = ch.Consume(queue, c.Consume.Consumer, false, c.Consume.Exclusive, false, false, c.Consume.Arguments)
	if err != nil {
		// The first delivery may be quicker than this call.
		return fmt.Errorf("consume queue %q: %w", queue, unreadable(err))
	}
	return nil
}

// channel returns a channel on which the topology is as it should be, or as
// near to it as the broker has it.
func (ss *session) channel(queue, exchange string) (*amqp.Channel, error) {
	c := ss.sub.config
	ch, err := ss.conn.Channel()
	if err != nil {
		return nil, fmt.Errorf("open a channel: %w", err)
	}
	err = c.TopologyBuilder.BuildTopology(ch, queue, exchange, c, ss.sub.wlog)
	if err := ss.caution(queue, err); err != nil {
		return nil, err
	}
	if err == nil || !hasCode(err, amqp.PreconditionFailed) {
		return ch, err
	}
	// The broker closed the channel over it.
	ss.sub.state.differs(err)
	if ch, err = ss.conn.Channel(); err != nil {
		return nil, fmt.Errorf("open a channel: %w", err)
	}
	return ch, assertTopology{vhost: vhost(c.Connection.AmqpURI)}.BuildTopology(ch, queue, exchange, c, ss.sub.wlog)
}

// pump hands deliveries on until there is a reason not to, which it returns.
func (ss *session) pump(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return errStopping
		case err := <-ss.given:
			return &DestinationError{err}
		case <-ss.calm:
			return errCalm
		case d, ok := <-ss.deliveries:
			if !ok {
				return ss.reason()
			}
			if ctx.Err() != nil {
				return errStopping // what is not taken comes again
			}
			if fromStream(d) && !ss.sub.suspect {
				ss.sub.suspect = true
				if err := ss.refuseStream(ss.sub.config.Queue.GenerateName("")); err != nil {
					return err
				}
			}
			ss.take(ctx, d)
		}
	}
}

// reason says why there are no more deliveries.
func (ss *session) reason() error {
	select {
	case _, said := <-ss.cancelled:
		if said { // closed without a word when the channel ends
			return errCancelled
		}
	default:
	}
	select {
	case err := <-ss.closed:
		switch {
		case err == nil:
		case errors.Is(unreadable(err), errUnreadable):
			return fmt.Errorf("%w: the connection to %s ended over it", errUnreadable, ss.sub.state.status.Broker)
		case ss.conn.IsClosed():
			return fmt.Errorf("connection to %s lost: %w", ss.sub.state.status.Broker, err)
		default:
			return fmt.Errorf("the broker closed the channel: %w", err)
		}
	case <-time.After(closeTimeout):
	}
	return errDeliveriesEnd
}

// take hands one delivery on and looks after it from then on.
func (ss *session) take(ctx context.Context, d amqp.Delivery) {
	taken := time.Now()
	ss.sub.state.took()
	ss.acks.took(d.DeliveryTag)
	msg := ss.message(d)
	if msg == nil {
		return
	}
	select {
	case ss.out <- msg:
		ss.inHand.Add(1)
		go ss.carry(d, msg, taken)
	case <-ctx.Done():
		ss.sub.state.dropped()
	}
}

func (ss *session) message(d amqp.Delivery) *message.Message {
	msg, err := ss.sub.config.Marshaler.Unmarshal(d)
	if err != nil { // no delivery of a broker's is like that
		ss.sub.log.Error("a delivery cannot be handed on and stays in the queue", "error", err)
		ss.sub.state.dropped()
		return nil
	}
	msg.SetContext(withGrip(withDelivery(ss.ctx, d), grip{ended: ss.ended, giveBack: ss.giveBack}))
	return msg
}

// carry looks after a delivery until it is acknowledged or cannot be.
func (ss *session) carry(d amqp.Delivery, msg *message.Message, taken time.Time) {
	if ss.await(d, msg) {
		ss.ack(d, taken)
		return
	}
	ss.inHand.Done()
}

// await reports whether a delivery's message was handled. One that was not is
// handed on again, unless the session has ended.
func (ss *session) await(d amqp.Delivery, msg *message.Message) bool {
	pause := newBackOff(ss.sub.config.Connection.Reconnect)
	for {
		select {
		case <-msg.Acked():
			return true
		case <-msg.Nacked():
		}
		select {
		case <-ss.ended:
			ss.sub.state.dropped()
			return false
		case <-time.After(pause.NextBackOff()):
		}
		if msg = ss.message(d); msg == nil {
			return false
		}
		select {
		case ss.out <- msg:
		case <-ss.ended:
			ss.sub.state.dropped()
			return false
		}
	}
}

// ack acknowledges d, or leaves it to whoever is acknowledging already.
func (ss *session) ack(d amqp.Delivery, taken time.Time) {
	if !ss.acks.add(handled{d, taken}) {
		return
	}
	for {
		together, alone := ss.acks.next()
		if len(together)+len(alone) == 0 {
			return
		}
		if len(together) > 0 {
			ss.ackOnce(together)
		}
		for i := range alone {
			ss.ackOnce(alone[i : i+1])
		}
	}
}

// ackOnce acknowledges one delivery, or several if nothing before the last of
// them is outstanding.
func (ss *session) ackOnce(of []handled) {
	err := of[len(of)-1].delivery.Ack(len(of) > 1)
	for _, h := range of {
		if err != nil {
			ss.sub.state.dropped() // it comes again
		} else {
			acked := ss.acked.Add(1)
			ss.sub.state.ackedOne()
			ss.sub.held(time.Since(h.taken))
			if ss.isolated && acked >= uint64(ss.sub.config.Consume.Qos.PrefetchCount) {
				ss.calmDown() // all that was in the window with the message has passed
			}
		}
		ss.inHand.Done()
	}
}

// giveBack ends the session because its deliveries cannot be handled now.
func (ss *session) giveBack(err error) {
	select {
	case ss.given <- err:
	default: // somebody else said so
	}
}

// finish ends a session: no more intake, what is in hand is finished and
// acknowledged, and what cannot be is given back, once.
func (ss *session) finish(why error) {
	ss.sub.state.finishing(why)
	_ = ss.ch.Cancel(ss.sub.config.Consume.Consumer, true)
	close(ss.ended)
	if !wait(&ss.inHand, ss.sub.drain) {
		ss.kill(errStopping)
		wait(&ss.inHand, killGrace)
	}
	ss.kill(nil)
	// All that is not acknowledged, at once. Since RabbitMQ 4.3 this does not
	// count as a failed delivery, while a channel's end does.
	_ = ss.ch.Nack(0, true, true)
	_ = ss.conn.CloseDeadline(time.Now().Add(closeTimeout))
	ss.looking.Wait()
}

// wait reports whether wg was done within d.
func wait(wg *sync.WaitGroup, d time.Duration) bool {
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// look asks for the state of the queue now and then until the session ends,
// each time on a channel of its own, since an error would close it.
func (ss *session) look() {
	tick := time.NewTicker(ss.sub.every)
	defer tick.Stop()
	for first := true; ; first = false {
		// What cannot be read would have come before the second look.
		if idle := ss.lookOnce(); idle && ss.isolated && !first {
			ss.calmDown()
		}
		select {
		case <-tick.C:
		case <-ss.ended:
			return
		}
	}
}

// lookOnce reports whether nothing is in the queue or in hand.
func (ss *session) lookOnce() (idle bool) {
	ch, err := ss.conn.Channel()
	if err != nil {
		return false // the connection's end says it all
	}
	defer ch.Close()
	queue, err := ch.QueueDeclarePassive(ss.sub.config.Queue.GenerateName(""), true, false, false, false, nil)
	if err != nil {
		return false
	}
	ss.sub.state.saw(queue.Messages, queue.Consumers)
	return queue.Messages == 0 && ss.sub.state.get().InHand == 0
}
