package bridge

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
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

// asserting is what watermill-amqp knows of topology: the queue is expected to
// be there. All else is done by the session.
type asserting struct{ vhost string }

// BuildTopology implements amqp.TopologyBuilder of watermill-amqp. A miss
// closes the channel.
func (t asserting) BuildTopology(ch *amqp.Channel, queue, _ string, _ wamqp.Config, _ watermill.LoggerAdapter) error {
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
func (asserting) ExchangeDeclare(*amqp.Channel, string, wamqp.Config) error { return nil }

// declaration is what [TopologyDeclare] makes where it is missing.
type declaration struct {
	queue        string
	args         amqp.Table
	exchange     string // none if empty
	exchangeKind string
	bindings     []string
	deadLetters  string // name of the dead-letter exchange
}

// deadQueueSuffix names the queue behind the dead-letter exchange, a place for
// what RabbitMQ gives up on and would drop otherwise.
const deadQueueSuffix = ".dead"

// before says what to make before the queue: where its dead letters go.
func (d declaration) before() []making {
	dead := d.queue + deadQueueSuffix
	return []making{
		makeExchange(d.deadLetters, amqp.ExchangeFanout),
		makeQueue(dead, amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeQuorum}),
		makeBinding(dead, "#", d.deadLetters), // a topic exchange that is there needs the key,
	}
}

// after says what to make when the queue is there: where its messages come from.
func (d declaration) after() []making {
	if d.exchange == "" {
		return nil
	}
	all := []making{makeExchange(d.exchange, d.exchangeKind)}
	for _, key := range d.bindings {
		all = append(all, makeBinding(d.queue, key, d.exchange))
	}
	return all
}

// making is one thing to make.
type making struct {
	what string // in words, after "to"
	do   func(*amqp.Channel) error
}

func makeExchange(name, kind string) making {
	return making{fmt.Sprintf("declare exchange %q", name), func(ch *amqp.Channel) error {
		return ch.ExchangeDeclare(name, kind, true, false, false, false, nil)
	}}
}

func makeQueue(name string, args amqp.Table) making {
	return making{fmt.Sprintf("declare queue %q", name), func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(name, true, false, false, false, args)
		return err
	}}
}

func makeBinding(queue, key, exchange string) making {
	return making{fmt.Sprintf("bind queue %q to exchange %q with key %q", queue, exchange, key), func(ch *amqp.Channel) error {
		return ch.QueueBind(queue, key, exchange, false, nil)
	}}
}

// prepare sees to the topology: it is as it should be afterwards, or as near to
// that as the broker has it, and what is to know about it was said.
func (ss *session) prepare() error {
	version, _ := ss.conn.Properties["version"].(string)
	ss.sub.state.connected(version)
	queue := ss.sub.config.Queue.GenerateName("")
	var known queueArguments
	if d := ss.sub.declaration; d != nil {
		var err error
		if known, err = ss.declare(*d); err != nil {
			return err
		}
	}
	c := ss.sub.config
	if err := ss.onChannel(func(ch *amqp.Channel) error {
		return c.TopologyBuilder.BuildTopology(ch, queue, "", c, ss.sub.wlog)
	}); err != nil {
		return err
	}
	ss.sub.state.caution(cautions(version, known))
	if ss.sub.suspect {
		return ss.refuseStream(queue)
	}
	return nil
}

// declare makes what is missing, and returns what is known of the queue then.
// What is there and differs is said, and does not prevent the rest.
func (ss *session) declare(d declaration) (known queueArguments, err error) {
	differences, err := ss.makeAll(d.before())
	if err != nil {
		return known, err
	}
	err = ss.make(makeQueue(d.queue, d.args))
	known, differ := ss.inspect(d.queue, d.args, err)
	switch {
	case err != nil && len(differ) == 0:
		return known, err
	case known.kind() == amqp.QueueTypeStream:
		return known, &StreamError{Queue: d.queue}
	}
	others, err := ss.makeAll(d.after())
	ss.sub.state.differs(slices.Concat(differences, differ, others))
	return known, err
}

// makeAll makes things, and returns in what those differ that are there.
func (ss *session) makeAll(all []making) (differences []*MismatchError, err error) {
	for _, m := range all {
		err := ss.make(m)
		differs, ok := errors.AsType[*MismatchError](err)
		switch {
		case ok:
			differences = append(differences, differs)
		case err != nil:
			return differences, err
		}
	}
	return differences, nil
}

// make makes one thing. A [MismatchError] says that it is there and differs.
func (ss *session) make(m making) error {
	err := ss.onChannel(m.do)
	switch {
	case err == nil:
		return nil
	case hasCode(err, amqp.PreconditionFailed):
		return mismatch(err)
	}
	return fmt.Errorf("%s: %w", m.what, err)
}

// onChannel does something on a channel of its own, since an error closes it.
func (ss *session) onChannel(do func(*amqp.Channel) error) error {
	ch, err := ss.conn.Channel()
	if err != nil {
		return fmt.Errorf("open a channel: %w", err)
	}
	defer ch.Close()
	return do(ch)
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
	return ok && broker != nil && broker.Code == code // the library logs a nil one where a connection is closed
}
