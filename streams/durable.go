package streams

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// The durable consumers. Their names are part of the stored layout.
const (
	dispatcherConsumer = "dispatcher"
	retriesConsumer    = "dispatcher-retries"
	asidePrefix        = "dispatcher-aside-" // and the channel
)

// consumer returns the durable consumer, made or adapted to the options. Its
// filter is never changed: the server would not go back for what it skipped.
func (c *consumption) consumer(ctx context.Context) (jetstream.Consumer, error) {
	ctx, cancel := withAckWait(ctx, c.nc)
	defer cancel()
	want := c.config()
	have, err := c.js.Consumer(ctx, c.stream.name, c.name)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return c.js.CreateConsumer(ctx, c.stream.name, want)
	}
	if err != nil {
		return nil, err
	}
	config := have.CachedInfo().Config
	if drifts := c.drift(want, config); len(drifts) > 0 {
		return nil, &DriftError{Drifts: drifts}
	}
	if config.AckWait == want.AckWait && config.MaxDeliver == want.MaxDeliver && config.MaxAckPending == want.MaxAckPending {
		return have, nil
	}
	config.AckWait, config.MaxDeliver, config.MaxAckPending = want.AckWait, want.MaxDeliver, want.MaxAckPending
	return c.js.UpdateConsumer(ctx, c.stream.name, config)
}

// fuse is how many times the handler's bound the server's own bound is.
const fuse = 10

// config has no BackOff: it would distort delays, and delays are ours. The bound
// on deliveries is kept by the handler, at every delivery from the last one on.
// The server's is a fuse far beyond it: what the server gives up on it never
// mentions again, and a process that died with that delivery in hand, or met a
// full log with it, would leave the event without an end.
func (c *consumption) config() jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable: c.name, Description: "Hands out work; wake-ups only, the truth is in " + OutcomesStream + ".",
		DeliverPolicy: jetstream.DeliverAllPolicy, AckPolicy: jetstream.AckExplicitPolicy,
		AckWait: c.AckWait, MaxDeliver: fuse * c.MaxDeliver, MaxAckPending: 4 * c.Workers,
		FilterSubject: c.filter, Metadata: map[string]string{schemaKey: schemaVersion},
	}
}

func (c *consumption) drift(want, have jetstream.ConsumerConfig) []Drift {
	var drifts []Drift
	check := func(field string, want, have any) {
		if w, h := fmt.Sprint(want), fmt.Sprint(have); w != h {
			drifts = append(drifts, Drift{
				Stream: c.stream.name + " consumer " + c.name, Field: field, Want: w, Have: h,
				Do: "stop Tidings, then nats consumer rm " + c.stream.name + " " + c.name + ": it is made again, and what has ended is recognised",
			})
		}
	}
	check("ack", want.AckPolicy, have.AckPolicy)
	check("deliver", want.DeliverPolicy, have.DeliverPolicy)
	check("filter", want.FilterSubject, have.FilterSubject)
	check("filters", len(want.FilterSubjects), len(have.FilterSubjects))
	check("backoff", len(want.BackOff), len(have.BackOff))
	check("headers-only", want.HeadersOnly, have.HeadersOnly)
	check("push", want.DeliverSubject, have.DeliverSubject)
	return drifts
}
