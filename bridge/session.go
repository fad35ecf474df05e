package bridge

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/cenkalti/backoff/v5"
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

	trying   sync.Mutex // guards what follows
	tryUntil time.Time  // when tries begin that get another try and endTry
	try      context.Context
	endTry   context.CancelFunc

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
	// giveBack answers for messages that nobody answered, and gives back all that
	// is in hand and not acknowledged, once.
	giveBack()
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

// hold takes a delivery into the hand.
func (ss *session) hold(d amqp.Delivery) *held {
	h := &held{Delivery: d, session: ss, taken: ss.sub.state.now()}
	ss.sub.state.took(h.taken)
	ss.inHand.Add(1)
	return h
}

// hand hands a delivery on, and reports whether it could. Somebody must await its
// end.
func (ss *session) hand(ctx context.Context, h *held) bool {
	select {
	case ss.out <- h.write():
		return true
	case <-ctx.Done():
		ss.letGo(h)
		return false
	}
}

// await reports whether a delivery's message was handled. One that was not is
// handed on again, unless the session has ended.
func (ss *session) await(h *held) bool {
	var pause *backoff.ExponentialBackOff // most need none
	for {
		select {
		case <-h.msg.Acked():
			h.ctx.end()
			return true
		case <-h.msg.Nacked():
			h.ctx.end()
		}
		if pause == nil {
			pause = newBackOff(ss.sub.config.Connection.Reconnect)
		}
		select {
		case <-ss.ended:
			ss.letGo(h)
			return false
		case <-time.After(pause.NextBackOff()):
		}
		select {
		case ss.out <- h.write():
		case <-ss.ended:
			ss.letGo(h)
			return false
		}
	}
}

// letGo notes that a delivery will come again.
func (ss *session) letGo(h *held) {
	h.ctx.end()
	ss.sub.state.dropped()
	ss.inHand.Done()
}

// acknowledged notes that deliveries were acknowledged.
func (ss *session) acknowledged(of ...*held) {
	now, acked := ss.sub.state.now(), ss.acked.Add(uint64(len(of)))
	ss.sub.state.acked(len(of), now)
	for _, h := range of {
		ss.sub.held(now.Sub(h.taken))
		ss.inHand.Done()
	}
	if ss.isolated && acked >= uint64(ss.sub.config.Consume.Qos.PrefetchCount) {
		ss.calmDown() // all that was in the window with the message has passed
	}
}

// within returns a context for one try at the door. Tries that begin about the
// same time have the same one: a timer for each costs more than the time is worth.
func (ss *session) within() context.Context {
	ss.trying.Lock()
	defer ss.trying.Unlock()
	if now := time.Now(); now.After(ss.tryUntil) {
		ss.tryUntil = now.Add(time.Second)
		ss.try, ss.endTry = context.WithTimeout(ss.ctx, acceptTimeout+time.Second)
	}
	return ss.try
}

// over reports whether there is no use in trying again.
func (ss *session) over() bool {
	select {
	case <-ss.ended:
		return true
	default:
		return false
	}
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
