// Package bridge is how events come in: from a RabbitMQ queue, through
// Watermill's Router, to the log. Its [Door] is also the way in for HTTP.
//
// # What to believe
//
//   - A delivery is acknowledged to RabbitMQ only when the log has it: as an
//     event, as a repeat of one, or as a dead letter. What is not acknowledged
//     comes again.
//   - Nothing is put back into the queue for what it contains. What cannot be
//     an event becomes a dead letter with body, properties and typed headers as
//     they came, and is acknowledged.
//   - When the log is down or full, deliveries are held, at most a window of
//     them, and for at most [Config.HoldFor]. Then the window is given back
//     once, and nothing is consumed until the log can be reached again.
//   - RabbitMQ may be down, lose the connection or delete the queue at any time:
//     the bridge tries again for ever, less and less often, and [Bridge.Status]
//     says why nothing moves.
//   - A message whose headers the AMQP client cannot read ends the connection.
//     After the first time messages are taken one at a time, so that it alone
//     gathers delivery counts, until a quorum queue with a delivery limit puts it
//     aside. From other queues somebody must take it; [Bridge.Status] says so.
//   - When it is told to stop, it takes nothing more, finishes what it has in
//     hand and acknowledges it.
//
// # What not to believe
//
//   - That events keep the order of their queue: a window of them is handled at
//     the same time.
//   - That a delivery comes once: what was stored but not yet acknowledged when
//     a connection broke comes again. The door recognises it and notes it as a
//     duplicate.
package bridge
