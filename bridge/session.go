package bridge

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"
)

// killGrace is for handlers to notice that their context is cancelled.
const killGrace = 5 * time.Second

// session is one connection, and what is in hand of it. How deliveries come in
// is up to its intake.
type session struct {
	sub *subscriber
	out chan<- *message.Message
	in  intake
	// conn and consumers, the number of them, are up to the intake.
	conn      *amqp.Connection
	consumers int

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
}

// intake is how deliveries come into a session.
type intake interface {
	// open connects, sees to the topology and starts to consume. The session's
	// conn is set also if something fails after it.
	open(context.Context) error
	// pump hands deliveries on until there is a reason not to, which it returns.
	pump(context.Context) error
	// giveBack gives back all that is in hand and not acknowledged, once.
	giveBack()
}

// handled is a delivery that is to be acknowledged.
type handled struct {
	delivery amqp.Delivery
	taken    time.Time
}

// open begins a session.
func (s *subscriber) open(ctx context.Context, out chan<- *message.Message) (*session, error) {
	s.state.connecting()
	ss := &session{
		sub: s, out: out,
		window: s.loop.window(s.config.Consume.Qos.PrefetchCount), isolated: s.loop.isolated,
		calm:  make(chan struct{}, 1),
		ended: make(chan struct{}), given: make(chan error, 1),
	}
	ss.ctx, ss.kill = context.WithCancelCause(context.WithoutCancel(ctx))
	ss.in = s.intake(ss)
	if err := ss.in.open(ctx); err != nil {
		ss.kill(nil)
		ss.disconnect()
		return nil, err
	}
	s.state.consuming(ss.window, ss.consumers)
	ss.looking.Go(ss.look)
	return ss, nil
}

func (ss *session) disconnect() {
	if ss.conn != nil {
		_ = ss.conn.CloseDeadline(time.Now().Add(closeTimeout))
	}
}

// finish ends a session whose intake has ended: what is in hand is finished and
// acknowledged, and what cannot be is given back, once.
func (ss *session) finish(why error) {
	ss.sub.state.finishing(why)
	close(ss.ended)
	if !wait(&ss.inHand, ss.sub.drain) {
		ss.kill(errStopping)
		wait(&ss.inHand, killGrace)
	}
	ss.kill(nil)
	ss.in.giveBack()
	ss.disconnect()
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

// hand hands a delivery on and returns its message, or nil if it could not.
// Somebody must await its end.
func (ss *session) hand(ctx context.Context, d amqp.Delivery) *message.Message {
	ss.sub.state.took()
	ss.inHand.Add(1)
	msg := ss.message(d)
	select {
	case ss.out <- msg:
		return msg
	case <-ctx.Done():
		ss.letGo()
		return nil
	}
}

// message returns the message of a delivery. What handles it finds the delivery
// itself in its context, so the message need not describe it.
func (ss *session) message(d amqp.Delivery) *message.Message {
	msg := message.NewMessage(d.MessageId, d.Body)
	msg.SetContext(withGrip(withDelivery(ss.ctx, &d), grip{ended: ss.ended, giveBack: ss.giveBack}))
	return msg
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
			ss.letGo()
			return false
		case <-time.After(pause.NextBackOff()):
		}
		msg = ss.message(d)
		select {
		case ss.out <- msg:
		case <-ss.ended:
			ss.letGo()
			return false
		}
	}
}

// letGo notes that a delivery will come again.
func (ss *session) letGo() {
	ss.sub.state.dropped()
	ss.inHand.Done()
}

// acknowledged notes that a delivery was acknowledged.
func (ss *session) acknowledged(taken time.Time) {
	acked := ss.acked.Add(1)
	ss.sub.state.ackedOne()
	ss.sub.held(time.Since(taken))
	if ss.isolated && acked >= uint64(ss.sub.config.Consume.Qos.PrefetchCount) {
		ss.calmDown() // all that was in the window with the message has passed
	}
	ss.inHand.Done()
}

// giveBack ends the session because its deliveries cannot be handled now.
func (ss *session) giveBack(err error) {
	select {
	case ss.given <- err:
	default: // somebody else said so
	}
}

// lost says why a channel ended, or the connection with it.
func (ss *session) lost(err *amqp.Error) error {
	switch {
	case err == nil:
		return errDeliveriesEnd
	case errors.Is(unreadable(err), errUnreadable):
		return fmt.Errorf("%w: the connection to %s ended over it", errUnreadable, ss.sub.state.status.Broker)
	case ss.conn.IsClosed():
		return fmt.Errorf("connection to %s lost: %w", ss.sub.state.status.Broker, err)
	}
	return fmt.Errorf("the broker closed the channel: %w", err)
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
