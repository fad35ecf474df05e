// Package campaign holds tests that make trouble for the bridge while events
// come in, on a real RabbitMQ and a real log, and count at the end.
//
// # What a campaign is
//
// A producer publishes numbered events at a steady rate and counts one as
// published when RabbitMQ has confirmed it; one that is not confirmed it
// publishes again, with the same id. The bridge, with the log in it, is a
// process of its own, so that it can be killed, its memory is its own, and its
// race detector speaks for it alone. Things are done to it, to RabbitMQ and to
// the log. Then the producer stops, the bridge finishes and ends, and the log is
// opened from its files.
//
// # What every campaign shows
//
//   - The events in EVENTS are those that were confirmed, all of them and no
//     other, each in one copy; there is no dead letter.
//   - The queue is empty and nothing is outstanding.
//   - The audit has a duplicate only where a delivery was given twice, because a
//     connection, the process or the patience of RabbitMQ ended while it was in
//     hand, or because the producer published again.
//   - The process ended by itself when it was asked to, with no handler
//     cancelled and no goroutine left, and without a data race if the tests are
//     built with the race detector.
//
// What a campaign shows beyond that stands in the test of its name.
//
// # What no campaign shows
//
// A power cut, a cluster of RabbitMQ or NATS nodes, and a network that loses
// packets.
package campaign
