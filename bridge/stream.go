package bridge

import (
	"fmt"
	"log/slog"

	amqp "github.com/rabbitmq/amqp091-go"
)

// StreamError says that the queue is a RabbitMQ stream.
type StreamError struct{ Queue string }

// Error implements error.
func (e *StreamError) Error() string {
	return fmt.Sprintf("%q is a RabbitMQ stream, which keeps no account of what was acknowledged: "+
		"consume a quorum queue bound to the same exchange", e.Queue)
}

// fromStream reports whether a delivery looks like one from a stream. A producer
// may write such a header too.
func fromStream(d amqp.Delivery) bool {
	_, ok := d.Headers["x-stream-offset"].(int64)
	return ok
}

// refuse ends the session if a delivery looks like one from a stream, and the
// queue is one. It asks once.
func (ss *session) refuse(d amqp.Delivery) error {
	if !fromStream(d) || ss.sub.suspect {
		return nil
	}
	ss.sub.suspect = true
	return ss.refuseStream(ss.sub.config.Queue.GenerateName(""))
}

// refuseStream ends the session if its queue is a stream. It asks only where
// deliveries look like it, since to ask is to declare.
func (ss *session) refuseStream(queue string) error {
	known, err := ss.askStream(queue)
	switch {
	case known.kind() == amqp.QueueTypeStream:
		return &StreamError{Queue: queue}
	case known.kind() == "":
		ss.sub.state.caution([]caution{{slog.LevelWarn, fmt.Sprintf("deliveries look as if queue %q were a RabbitMQ stream, "+
			"from which events are lost at every restart; whether it is cannot be seen: %v", queue, err)}})
	}
	return nil
}

// askStream declares the queue, which is there, as a stream, and returns what
// the answers tell.
func (ss *session) askStream(queue string) (queueArguments, error) {
	args := amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeStream}
	err := ss.make(makeQueue(queue, args))
	known, _ := ss.inspect(queue, args, err)
	return known, err
}
