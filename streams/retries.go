package streams

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tidings/streams/event"
)

// Retries is the stream of wake-ups, now or at a time.
type Retries struct{ stream }

// Wakeup says "look at this event again", and nothing else.
type Wakeup struct {
	Tenant   string
	Key      event.Key
	Sequence uint64 // of the event's stored copy in EVENTS
}

// Schedule has the event looked at again when due, within half a second; at
// once if due is past. A second schedule of an event replaces the first. The
// error wraps [ErrUnavailable], or [ErrUnknown] if the schedule may be stored;
// both are answered by doing it again.
func (r *Retries) Schedule(ctx context.Context, w Wakeup, due time.Time) error {
	subject, err := ScheduleSubject(w.Key)
	if err != nil {
		return fmt.Errorf("schedule: %w", err)
	}
	target, err := WakeupSubject(w.Tenant, w.Key)
	if err != nil {
		return fmt.Errorf("schedule: %w", err)
	}
	h := wakeupHeaders(w)
	// By hand: the client's own option rounds to whole seconds, up to one early.
	h.Set(jetstream.ScheduleHeader, "@at "+due.UTC().Format(time.RFC3339Nano))
	h.Set(jetstream.ScheduleTargetHeader, target)
	return r.publish(ctx, &nats.Msg{Subject: subject, Header: h})
}

// Wake has the event looked at again now. Errors are those of Schedule.
func (r *Retries) Wake(ctx context.Context, w Wakeup) error {
	subject, err := WakeupSubject(w.Tenant, w.Key)
	if err != nil {
		return fmt.Errorf("wake: %w", err)
	}
	return r.publish(ctx, &nats.Msg{Subject: subject, Header: wakeupHeaders(w)})
}

func (r *Retries) publish(ctx context.Context, msg *nats.Msg) error {
	err := r.repeat(ctx, func(bool) error {
		ctx, cancel := withAckWait(ctx, r.nc)
		defer cancel()
		_, err := r.js.PublishMsg(ctx, msg)
		return publishError(err)
	})
	if err != nil {
		return fmt.Errorf("publish %s: %w", msg.Subject, err)
	}
	return nil
}
