package bridge

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strconv"

	"github.com/ThreeDotsLabs/watermill"
	wamqp "github.com/ThreeDotsLabs/watermill-amqp/v2/pkg/amqp"
	amqp "github.com/rabbitmq/amqp091-go"
)

// MissingQueueError says that the queue to consume is not there.
type MissingQueueError struct{ Queue, VHost string }

// Error implements error.
func (e *MissingQueueError) Error() string {
	return fmt.Sprintf("queue %q not found in vhost %q: create it or set topology: declare", e.Queue, e.VHost)
}

// assertTopology expects the queue to be there.
type assertTopology struct{ vhost string }

// BuildTopology implements amqp.TopologyBuilder of watermill-amqp. A miss
// closes the channel.
func (t assertTopology) BuildTopology(ch *amqp.Channel, queue, _ string, _ wamqp.Config, _ watermill.LoggerAdapter) error {
	// The broker ignores everything but the name of a passive declaration.
	_, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
	switch {
	case hasCode(err, amqp.NotFound):
		return &MissingQueueError{Queue: queue, VHost: t.vhost}
	case err != nil:
		return fmt.Errorf("look for queue %q: %w", queue, err)
	}
	return nil
}

// ExchangeDeclare implements amqp.TopologyBuilder of watermill-amqp. It is for
// publishers and does nothing.
func (assertTopology) ExchangeDeclare(*amqp.Channel, string, wamqp.Config) error { return nil }

// declareTopology makes what is missing.
type declareTopology struct {
	bindings    []string
	deadLetters string // name of the dead-letter exchange
	vhost       string
}

// deadQueueSuffix names the queue behind the dead-letter exchange.
const deadQueueSuffix = ".dead"

// BuildTopology implements amqp.TopologyBuilder of watermill-amqp. A
// [MismatchError] closes the channel and may leave bindings unmade.
func (t declareTopology) BuildTopology(ch *amqp.Channel, queue, exchange string, c wamqp.Config, _ watermill.LoggerAdapter) error {
	if err := t.declareDeadLetters(ch, queue+deadQueueSuffix); err != nil {
		err = t.explain("dead letters of queue", queue, err)
		if differs, ok := errors.AsType[*MismatchError](err); ok {
			differs.deadLetters = true
		}
		return err
	}
	if _, err := ch.QueueDeclare(queue, c.Queue.Durable, c.Queue.AutoDelete, c.Queue.Exclusive, false, c.Queue.Arguments); err != nil {
		return t.explain("queue", queue, err)
	}
	if exchange == "" {
		return nil
	}
	if err := t.ExchangeDeclare(ch, exchange, c); err != nil {
		return err
	}
	for _, key := range t.bindings {
		if err := ch.QueueBind(queue, key, exchange, false, nil); err != nil {
			return fmt.Errorf("bind queue %q to exchange %q with key %q: %w", queue, exchange, key, err)
		}
	}
	return nil
}

// declareDeadLetters makes a place for what RabbitMQ gives up on, which it
// would drop otherwise.
func (t declareTopology) declareDeadLetters(ch *amqp.Channel, queue string) error {
	if err := ch.ExchangeDeclare(t.deadLetters, amqp.ExchangeFanout, true, false, false, false, nil); err != nil {
		return err
	}
	args := amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeQuorum}
	if _, err := ch.QueueDeclare(queue, true, false, false, false, args); err != nil {
		return err
	}
	return ch.QueueBind(queue, "", t.deadLetters, false, nil)
}

// ExchangeDeclare implements amqp.TopologyBuilder of watermill-amqp.
func (t declareTopology) ExchangeDeclare(ch *amqp.Channel, exchange string, c wamqp.Config) error {
	err := ch.ExchangeDeclare(exchange, c.Exchange.Type, c.Exchange.Durable, c.Exchange.AutoDeleted, c.Exchange.Internal, false, c.Exchange.Arguments)
	return t.explain("exchange", exchange, err)
}

func (t declareTopology) explain(what, name string, err error) error {
	switch {
	case err == nil:
		return nil
	case hasCode(err, amqp.PreconditionFailed):
		return mismatch(err)
	}
	return fmt.Errorf("declare %s %q: %w", what, name, err)
}

// MismatchError says that something is there already and differs from what
// topology: declare would make.
type MismatchError struct {
	What      string // such as: queue 'orders' in vhost '/'
	Argument  string // in which they differ
	Expected  string
	Found     string
	err       error
	foundType string // RabbitMQ's name for the type of Found, empty if it gave none
	// deadLetters says that it is part of the place for dead letters.
	deadLetters bool
}

// Error implements error.
func (e *MismatchError) Error() string {
	if e.What == "" {
		return "what is there differs from what topology: declare would make: " + e.err.Error()
	}
	return fmt.Sprintf("%s is there and differs: %s expected %s, found %s", e.What, e.Argument, e.Expected, e.Found)
}

// Unwrap returns the broker's error.
func (e *MismatchError) Unwrap() error { return e.err }

// inequivalent is how RabbitMQ puts it: what was received is what we asked for.
var inequivalent = regexp.MustCompile(`inequivalent arg '([^']*)' for (.*): received (.*) but current is (.*?)(?: of type '([^']*)')?$`)

func mismatch(err error) *MismatchError {
	e := &MismatchError{err: err}
	if broker, ok := errors.AsType[*amqp.Error](err); ok {
		if m := inequivalent.FindStringSubmatch(broker.Reason); m != nil {
			e.foundType = m[5]
			e.Argument, e.What, e.Expected, e.Found = m[1], m[2], plainValue(m[3]), plainValue(m[4])
		}
	}
	return e
}

// argumentValue is how RabbitMQ writes a value of an argument.
var argumentValue = regexp.MustCompile(`^the value '([^']*)' of type '[^']*'$|^the value '([^']*)'$|^'([^']*)'$`)

func plainValue(s string) string {
	m := argumentValue.FindStringSubmatch(s)
	if m == nil {
		return s
	}
	return m[1] + m[2] + m[3]
}

// adapted returns args with what was found in place of what was expected.
func (e *MismatchError) adapted(args amqp.Table) amqp.Table {
	args = maps.Clone(args)
	number, err := strconv.Atoi(e.Found)
	switch {
	case e.Found == absent:
		delete(args, e.Argument)
	case e.foundType != "longstr" && err == nil:
		args[e.Argument] = number
	default:
		args[e.Argument] = e.Found
	}
	return args
}

func hasCode(err error, code int) bool {
	broker, ok := errors.AsType[*amqp.Error](err)
	return ok && broker.Code == code
}
