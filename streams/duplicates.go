package streams

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"tidings/streams/event"
)

// AppendDuplicate notes a redelivery in the audit. Of one event up to ten in a
// minute have an entry each, which is stored when it returns. Those after them
// are counted, without waiting for anything, and share one entry that is stored
// when the minute is over, or the log closes. So what a crash can lose of the
// audit is that count, and nothing else.
//
// It expects nothing, and may store an entry twice: readers count by its id.
// Errors are those of Append; it gets [ErrFull] once 90 % of the stream are used.
func (o *Outcomes) AppendDuplicate(ctx context.Context, d event.Duplicate) error {
	return o.tally.note(ctx, d)
}

func (o *Outcomes) appendDuplicate(ctx context.Context, d event.Duplicate) error {
	if !o.room.left(ctx, &o.stream) {
		return fmt.Errorf("append duplicate of event %s: %w", d.Event.Key, o.reserved())
	}
	data, err := encodeJSON(d)
	if err != nil {
		return fmt.Errorf("append duplicate of event %s: %w", d.Event.Key, err)
	}
	msg := &nats.Msg{Subject: AuditSubject(d.Event.Tenant), Header: duplicateHeaders(d), Data: data}
	err = o.repeat(ctx, func(bool) error { return o.commits.append(ctx, newEntry(msg, d.ID)) })
	if err != nil {
		return fmt.Errorf("append duplicate of event %s: %w", d.Event.Key, err)
	}
	return nil
}

// tally thins duplicates on their way into the audit.
type tally struct {
	append func(context.Context, event.Duplicate) error
	lost   func(events, duplicates int, err error)

	mu   sync.Mutex
	thin thinner
}

func (t *tally) note(ctx context.Context, d event.Duplicate) error {
	t.mu.Lock()
	own := t.thin.take(d, time.Now())
	t.mu.Unlock()
	if own {
		return t.append(ctx, d)
	}
	return nil
}

// run appends shared entries when their minute is over, until ctx is done, and
// what there is of them then.
func (t *tally) run(ctx context.Context) {
	every := time.NewTicker(thinFor / 12)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushWait)
			defer cancel()
			t.flush(ctx, true)
			return
		case <-every.C:
			t.flush(ctx, false)
		}
	}
}

// flush appends the shared entries that are due. What cannot be is due again.
func (t *tally) flush(ctx context.Context, last bool) {
	t.mu.Lock()
	due := t.thin.due(time.Now(), last)
	t.mu.Unlock()
	for i, d := range due {
		if err := t.append(ctx, d); err != nil {
			if last {
				t.lost(len(due)-i, duplicates(due[i:]), err)
			}
			return
		}
		t.mu.Lock()
		t.thin.done(d)
		t.mu.Unlock()
	}
}

func duplicates(shared []event.Duplicate) int {
	n := 0
	for _, d := range shared {
		n += d.Count
	}
	return n
}
