package bridge

import (
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"
)

// settle waits until the broker has taken all that was acknowledged on a channel.
//
// A quorum queue takes acknowledgements when its log has them. While many are on
// the way there (32 in RabbitMQ), the broker sets further ones aside, and forgets
// them if the channel ends: a moment later it would deliver again what was
// acknowledged. Nothing in AMQP asks for that, but basic.get waits in the same
// line. What it gets comes back to the queue with the rest.
func settle(ch *amqp.Channel, queue string) {
	var asked sync.WaitGroup
	asked.Go(func() { _, _, _ = ch.Get(queue, false) })
	wait(&asked, closeTimeout)
}
