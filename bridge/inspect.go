package bridge

import (
	"errors"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

// maxQuestions is more than a queue has arguments.
const maxQuestions = 20

// caution says what is to know about the queue on this broker, and refuses a
// stream. err is how the topology was made.
func (ss *session) caution(queue string, err error) error {
	version, _ := ss.conn.Properties["version"].(string)
	ss.sub.state.connected(version)
	var known queueArguments
	if _, declares := ss.sub.config.TopologyBuilder.(declareTopology); declares {
		known = ss.inspect(queue, ss.sub.config.Queue.Arguments, err)
	}
	if known.kind() == amqp.QueueTypeStream {
		return &StreamError{Queue: queue}
	}
	if err != nil && !hasCode(err, amqp.PreconditionFailed) {
		return nil // there is nothing to be careful with
	}
	ss.sub.state.caution(cautions(version, known))
	if ss.sub.suspect {
		return ss.refuseStream(queue)
	}
	return nil
}

// inspect finds out the arguments of a queue that is there, after a declaration
// with args ended with err: each refusal tells one that differs, and the next
// declaration agrees in it. Should the queue be deleted meanwhile, it is made
// again as it was.
func (ss *session) inspect(queue string, args amqp.Table, err error) queueArguments {
	known := declared(queue, args, err)
	for range maxQuestions {
		differs, ok := errors.AsType[*MismatchError](err)
		if !ok || known.all || len(known.values) == 0 || !strings.HasPrefix(differs.Argument, "x-") {
			break
		}
		args = differs.adapted(args)
		err = ss.redeclare(queue, args)
		known = known.and(declared(queue, args, err))
	}
	return known
}

// redeclare declares a queue that is there, on a channel of its own.
func (ss *session) redeclare(queue string, args amqp.Table) error {
	ch, err := ss.conn.Channel()
	if err != nil {
		return err
	}
	defer ch.Close()
	if _, err = ch.QueueDeclare(queue, true, false, false, false, args); hasCode(err, amqp.PreconditionFailed) {
		return mismatch(err)
	}
	return err
}
