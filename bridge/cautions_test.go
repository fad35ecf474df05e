package bridge

import (
	"errors"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
)

func TestCautions(t *testing.T) {
	const (
		classic   = "classic queue, which counts no deliveries"
		drops     = "RabbitMQ 4 drops a message"
		negative  = "x-delivery-limit is -1"
		unlimited = "without a delivery limit of its own"
		nack      = "not what is given back by nack"
		unseen    = "cannot be seen over AMQP"
	)
	ours := queueArguments{values: map[string]string{"x-queue-type": "quorum", "x-dead-letter-exchange": "d", "x-delivery-limit": "20"}, all: true}
	bare := queueArguments{values: map[string]string{"x-queue-type": "quorum"}, all: true}
	differs := func(argument, found string) queueArguments {
		return queueArguments{values: map[string]string{argument: found}}
	}
	quorumBut := func(argument, found string) queueArguments {
		return queueArguments{values: map[string]string{"x-queue-type": "quorum", argument: found}}
	}
	for name, c := range map[string]struct {
		version string
		known   queueArguments
		want    []string
	}{
		"nothing about what we made on 3.x":         {"3.10.8", ours, nil},
		"nothing about what we made on 4.0":         {"4.0.1", ours, nil},
		"4.3 does not count nacks":                  {"4.3.0", ours, []string{nack}},
		"5.0 neither":                               {"5.0.0-rc.1", ours, []string{nack}},
		"a quorum queue that drops on 4.x":          {"4.2.0", bare, []string{drops}},
		"it does not drop on 3.x, but has no limit": {"3.13.7", bare, []string{unlimited}},
		"one found without a dead-letter exchange":  {"4.0.0", quorumBut("x-dead-letter-exchange", "none"), []string{drops}},
		"a limit of -1 on 3.x":                      {"3.10.8", differs("x-delivery-limit", "-1"), []string{negative}},
		"a limit of -1 is one thing, none another":  {"3.10.8", quorumBut("x-delivery-limit", "none"), []string{unlimited}},
		"a limit of -1 on 4.x is what it says":      {"4.0.0", differs("x-delivery-limit", "-1"), nil},
		"another limit is fine":                     {"3.10.8", differs("x-delivery-limit", "5"), nil},
		"a classic queue":                           {"3.10.8", differs("x-queue-type", "classic"), []string{classic}},
		"a queue without a type is a classic one":   {"4.3.0", differs("x-queue-type", "none"), []string{classic}},
		"what is not known is not warned of":        {"4.0.0", queueArguments{}, []string{unseen}},
		"a dead-letter exchange says no type":       {"4.0.0", differs("x-dead-letter-exchange", "none"), []string{unseen}},
		"4.3 is said where the type is not known":   {"4.3.1", queueArguments{}, []string{nack, unseen}},
		"a version that is none":                    {"unknown", bare, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := cautions(c.version, c.known)
			require.Len(t, got, len(c.want), "%v", got)
			for i, want := range c.want {
				require.Contains(t, got[i].text, want)
			}
		})
	}
}

func TestWhatADeclarationTells(t *testing.T) {
	args := amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": 20}
	refused := func(reason string) *MismatchError {
		return mismatch(&amqp.Error{Code: amqp.PreconditionFailed, Reason: "PRECONDITION_FAILED - " + reason})
	}
	for name, c := range map[string]struct {
		err  error
		want queueArguments
		kind string
	}{
		"all where it agrees": {nil, queueArguments{values: map[string]string{"x-queue-type": "quorum", "x-delivery-limit": "20"}, all: true}, "quorum"},
		"the argument that differs": {
			refused("inequivalent arg 'x-queue-type' for queue 'orders' in vhost '/': received the value 'quorum' of type 'longstr' but current is the value 'stream' of type 'longstr'"),
			queueArguments{values: map[string]string{"x-queue-type": "stream"}},
			"stream",
		},
		"the argument that is not there": {
			refused("inequivalent arg 'x-queue-type' for queue 'orders' in vhost '/': received the value 'quorum' of type 'longstr' but current is none"),
			queueArguments{values: map[string]string{"x-queue-type": "none"}},
			"classic",
		},
		"a max age is that of a stream": {
			refused("inequivalent arg 'x-max-age' for queue 'orders' in vhost '/': received none but current is the value '1D' of type 'longstr'"),
			queueArguments{values: map[string]string{"x-max-age": "1D"}},
			"stream",
		},
		"nothing where it was refused": {errors.New("access refused"), queueArguments{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := declared(args, c.err)
			require.Equal(t, c.want, got)
			require.Equal(t, c.kind, got.kind())
		})
	}
}
