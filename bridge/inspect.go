package bridge

import (
	"errors"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

// maxQuestions is more than a queue has arguments.
const maxQuestions = 20

// inspect finds out the arguments of a queue that is there, after a declaration
// with args ended with err, and in which of them it differs: each refusal tells
// one, and the next declaration agrees in it. Should the queue be deleted
// meanwhile, it is made again as it was.
func (ss *session) inspect(queue string, args amqp.Table, err error) (known queueArguments, differences []*MismatchError) {
	known = declared(args, err)
	for range maxQuestions {
		differs, ok := errors.AsType[*MismatchError](err)
		if !ok {
			break
		}
		differences = append(differences, differs)
		if !strings.HasPrefix(differs.Argument, "x-") {
			break
		}
		args = differs.adapted(args)
		err = ss.make(makeQueue(queue, args))
		known = known.and(declared(args, err))
	}
	return known, differences
}
