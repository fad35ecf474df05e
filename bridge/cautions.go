package bridge

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	argDeadLetterExchange = "x-dead-letter-exchange"
	argDeliveryLimit      = "x-delivery-limit"
	argMaxAge             = amqp.StreamMaxAgeArg
	queueTypeClassic      = "classic"
	absent                = "none" // how RabbitMQ writes that an argument is not there
)

// queueArguments is what is known of a queue's arguments, as RabbitMQ writes
// them. AMQP shows those of an existing queue only where a declaration agrees,
// or in what it differs. A policy never shows.
type queueArguments struct {
	values map[string]string // absent where it is known not to be there
	all    bool              // an argument not in values is not there
}

// declared returns what a declaration with args told of a queue that ended with
// err, nil for success.
func declared(args amqp.Table, err error) queueArguments {
	if differs, ok := errors.AsType[*MismatchError](err); ok && differs.Argument != "" {
		return queueArguments{values: map[string]string{differs.Argument: differs.Found}}
	}
	if err != nil {
		return queueArguments{}
	}
	known := queueArguments{values: map[string]string{}, all: true}
	for name, value := range args {
		known.values[name] = fmt.Sprint(value)
	}
	return known
}

// and returns what both know.
func (q queueArguments) and(other queueArguments) queueArguments {
	values := maps.Clone(q.values)
	maps.Copy(values, other.values)
	return queueArguments{values: values, all: q.all || other.all}
}

// kind is the type of the queue, empty if it is not known. What the type says
// comes first: RabbitMQ does not compare arguments that mean nothing to it.
func (q queueArguments) kind() string {
	kind, said := q.values[amqp.QueueTypeArg]
	switch {
	case q.lacks(amqp.QueueTypeArg):
		return queueTypeClassic
	case said:
		return kind
	case q.has(argDeliveryLimit):
		return amqp.QueueTypeQuorum // no other has it
	case q.has(argMaxAge):
		return amqp.QueueTypeStream
	}
	return ""
}

// has reports that the argument is known to be there, and lacks that it is known
// not to be.
func (q queueArguments) has(argument string) bool {
	value, ok := q.values[argument]
	return ok && value != absent
}

func (q queueArguments) lacks(argument string) bool {
	value, ok := q.values[argument]
	return value == absent || !ok && q.all
}

// caution is something to know about a queue on a version of RabbitMQ.
type caution struct {
	level slog.Level
	text  string
}

// cautions returns what to say about a queue on a server of that version. What
// is not known is not warned of, except that it is not known.
func cautions(version string, q queueArguments) []caution {
	v, known := parseVersion(version)
	var all []caution
	say := func(holds bool, level slog.Level, text string) {
		if holds {
			all = append(all, caution{level, text})
		}
	}
	kind := q.kind()
	quorum, four := kind == amqp.QueueTypeQuorum, v.atLeast(4, 0)
	three := known && !four
	unlimited := q.lacks(argDeliveryLimit)

	say(kind == queueTypeClassic, slog.LevelWarn, "the queue is a classic queue, which counts no deliveries: "+
		"a message whose headers cannot be read stops all behind it until somebody takes it out; a quorum queue with a delivery limit and a dead-letter exchange puts it aside")
	say(quorum && four && q.lacks(argDeadLetterExchange), slog.LevelWarn, "the queue is a quorum queue without a dead-letter exchange of its own: "+
		"RabbitMQ 4 drops a message after its delivery limit, 20 unless set; give it a dead-letter exchange, by argument or policy")
	say(three && q.values[argDeliveryLimit] == "-1", slog.LevelWarn, "the queue's x-delivery-limit is -1: "+
		"that is no limit since RabbitMQ 4, and a limit of 0 before it, which gives a message up the first time it comes back; remove it or set a number")
	say(quorum && three && unlimited, slog.LevelWarn, "the queue is a quorum queue without a delivery limit of its own: "+
		"a message whose headers cannot be read stops all behind it until somebody takes it out; set a limit by argument or policy")
	say(v.atLeast(4, 3) && kind != queueTypeClassic, slog.LevelInfo, "since RabbitMQ 4.3 a quorum queue counts lost connections and rejects towards the delivery limit, not what is given back by nack: "+
		"what tidings gives back while the log is down does not count")
	say(kind == "", slog.LevelInfo, "the type of the queue cannot be seen over AMQP without declaring it: "+
		"see to it that it is a quorum queue with a delivery limit and a dead-letter exchange (rabbitmqctl list_queues name type arguments policy)")
	return all
}

// serverVersion is major and minor; the zero value is before all others.
type serverVersion struct{ major, minor int }

func (v serverVersion) atLeast(major, minor int) bool {
	return v.major > major || v.major == major && v.minor >= minor
}

// parseVersion reads the start of a version such as 3.10.8 or 4.3.0-rc.1.
func parseVersion(s string) (v serverVersion, ok bool) {
	major, rest, _ := strings.Cut(s, ".")
	minor, _, _ := strings.Cut(rest, ".")
	minor, _, _ = strings.Cut(minor, "-")
	var err, err2 error
	v.major, err = strconv.Atoi(major)
	v.minor, err2 = strconv.Atoi(minor)
	if err != nil || err2 != nil {
		return serverVersion{}, false
	}
	return v, true
}
