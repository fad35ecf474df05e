package streams

import (
	"context"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
)

// SetAside keeps a wake-up until whoever consumes the channel's with
// [Retries.ConsumeAside] takes it, in the order in which they were set aside. A
// second one of an event for the same channel takes the place of the first, at
// the end. Errors are those of Schedule.
func (r *Retries) SetAside(ctx context.Context, w Wakeup, channel string) error {
	subject, err := AsideSubject(channel, w.Key)
	if err != nil {
		return fmt.Errorf("set aside: %w", err)
	}
	return r.publish(ctx, &nats.Msg{Subject: subject, Header: wakeupHeaders(w)})
}

// ConsumeAside hands to handle what was set aside for a channel, like
// [Events.Consume]. A handler may wait as long as it likes: however often these
// come, none is the last delivery.
func (r *Retries) ConsumeAside(ctx context.Context, channel string, o ConsumeOptions, handle func(context.Context, *Delivery)) error {
	c := newConsumption(&r.stream, asidePrefix+encodeToken(channel), asideSubjects(channel), o.withDefaults(), handle)
	c.bound = fuse * c.MaxDeliver // and none is the last
	return c.consume(ctx)
}

// Aside returns how many wake-ups are set aside, by channel. It knows the
// channels that were ever consumed, those that do not exist any more included.
func (r *Retries) Aside(ctx context.Context) (map[string]int, error) {
	ctx, cancel := withAckWait(ctx, r.nc)
	defer cancel()
	aside := map[string]int{}
	list := r.handle.ListConsumers(ctx)
	for info := range list.Info() {
		if token, ok := strings.CutPrefix(info.Name, asidePrefix); ok {
			aside[percentDecode(token)] = int(info.NumPending) + info.NumAckPending
		}
	}
	if err := list.Err(); err != nil {
		return nil, fmt.Errorf("list the consumers of %s: %w: %w", r.name, ErrUnavailable, err)
	}
	return aside, nil
}
