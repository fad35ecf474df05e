package processes_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"tidings/dispatcher/letters"
	"tidings/dispatcher/replay"
	"tidings/streams"
	"tidings/streams/event"
)

// story is something that a process does, whenever it is killed. After the restart
// the operator, who was told nothing, does the same again.
type story struct {
	// events are published before it begins, and become dead letters unless fresh.
	events int
	fresh  bool
	// down: the partner of each event answers 500 during the story too.
	down bool
	keep time.Duration
	// prepare does what else there is before it begins; may be nil.
	prepare func(ctx context.Context, n *node, keys []event.Key) error
	// act is what the operator does; may be nil.
	act func(ctx context.Context, n *node, url func(string) string) error
	// over is what the log holds when all is done.
	over func(view) bool
	// requeued is how often each event is opened again.
	requeued int
	points   []string // without which it is not the story that is meant
}

var ann = letters.Word{Operator: "ann", Reason: "the partner is back"}

// firstLetter is the dead letter that the operator looked at.
const firstLetter = 1

func dead(generation int) func(view) bool {
	return func(v view) bool {
		return v.all(1, func(s event.State) bool { return s.Phase == event.PhaseDead && s.Generation == generation })
	}
}

func settled(n, generation int) func(view) bool {
	return func(v view) bool {
		return len(v.letters) == 0 && v.all(n, func(s event.State) bool {
			return s.Phase == event.PhaseSettled && s.Generation == generation
		})
	}
}

var stories = map[string]story{
	"an event becomes a dead letter": {
		events: 1, fresh: true, down: true, over: dead(0),
		points: []string{"record", "letter", "acknowledgement"},
	},
	"a requeue": {
		events: 1, act: asked(requeue), over: settled(1, 1), requeued: 1,
		points: []string{"record", "wake-up", "removal", "acknowledgement"},
	},
	"a requeue that fails again": {
		events: 1, down: true, act: asked(requeue), over: dead(1), requeued: 1,
		points: []string{"record", "wake-up", "letter", "acknowledgement"},
	},
	"an edit": {
		events: 1, act: asked(edit), over: settled(1, 1), requeued: 1,
		points: []string{"record", "letter", "wake-up", "removal", "acknowledgement"},
	},
	"an edit that fails again": {
		events: 1, down: true, act: asked(edit), requeued: 1,
		over: func(v view) bool {
			for _, l := range v.letters {
				s := v.state(l.Key)
				if s.Edited == nil {
					return false
				}
				if _, kept := l.Payload(s.Edited.Digest); !kept {
					return false
				}
			}
			return dead(1)(v)
		},
		points: []string{"record", "letter", "wake-up", "acknowledgement"},
	},
	"a discard": {
		events: 1, act: asked(discard), over: settled(1, 0),
		points: []string{"record", "removal"},
	},
	"a retry of one message": {
		events: 1, act: asked(retry), over: settled(1, 1), requeued: 1,
		points: []string{"record", "wake-up", "removal", "acknowledgement"},
	},
	"a replay plan": {
		events: 2, act: replayAll, over: settled(2, 1), requeued: 1,
		points: []string{"plan", "record", "wake-up", "removal", "acknowledgement"},
	},
	"the steward ends an event without a record, removes a letter, and trims": {
		events: 1, keep: time.Nanosecond, prepare: leaveBehind,
		over: func(v view) bool {
			return len(v.letters) == 0 && v.first > 2 && v.all(2, func(s event.State) bool { return s.Phase == event.PhaseSettled })
		},
		points: []string{"removal", "trim", "wake-up", "record", "acknowledgement"},
	},
}

// only returns the key of the event that there is.
func only(v view) event.Key {
	for k := range v.records {
		return k
	}
	return ""
}

// asked is an operator who wants one thing done about the letter that was looked at:
// who is told that another has done it, or that the letter is gone, lets it be, and
// who is told that the letter is another one, since the own draft is in it, says it again.
func asked(do func(context.Context, *node, letters.Target, func(string) string) error) func(context.Context, *node, func(string) string) error {
	return func(ctx context.Context, n *node, url func(string) string) error {
		v, err := n.look(ctx)
		if err != nil {
			return err
		}
		t := letters.Target{Tenant: tenant, Key: only(v), Sequence: firstLetter}
		err = do(ctx, n, t, url)
		if c, ok := errors.AsType[*letters.ConflictError](err); ok && c.Deed == nil {
			t.Sequence = 0
			err = do(ctx, n, t, url)
		}
		if c, ok := errors.AsType[*letters.ConflictError](err); ok && c.Deed != nil && c.Deed.Operator == ann.Operator {
			return nil
		}
		if errors.Is(err, streams.ErrNotFound) {
			return nil
		}
		return err
	}
}

func requeue(ctx context.Context, n *node, t letters.Target, _ func(string) string) error {
	_, err := n.desk.Requeue(ctx, t, ann)
	return err
}

func edit(ctx context.Context, n *node, t letters.Target, url func(string) string) error {
	body, err := json.Marshal(map[string]any{"urls": []string{url("/ok"), url("/partner"), url("/ok/too")}})
	if err != nil {
		return err
	}
	_, err = n.desk.Edit(ctx, t, ann, letters.Change{Data: body})
	return err
}

func discard(ctx context.Context, n *node, t letters.Target, _ func(string) string) error {
	_, err := n.desk.Discard(ctx, t, ann)
	return err
}

func retry(ctx context.Context, n *node, t letters.Target, _ func(string) string) error {
	last, err := n.log.Outcomes.Last(ctx, t.Tenant, t.Key)
	if err != nil {
		return err
	}
	for _, m := range last.Record.State.Messages {
		if m.State == event.MessageDelivered {
			continue
		}
		_, err = n.desk.Retry(ctx, letters.Message{Tenant: t.Tenant, Key: t.Key, ID: m.ID}, ann, false)
		return err
	}
	return nil // it is delivered
}

// replayAll makes a plan of all letters, unless there is one that goes on by itself,
// and waits until it is over.
func replayAll(ctx context.Context, n *node, _ func(string) string) error {
	plans, err := n.replayer.List(ctx)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(plans, func(p replay.State) bool { return p.Phase != replay.Listing })
	var p replay.State
	if at >= 0 {
		p = plans[at]
	} else if p, err = n.createPlan(ctx); err != nil {
		return err
	}
	for !p.Over() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
		if p, err = n.replayer.Get(ctx, p.ID); err != nil {
			return err
		}
	}
	if want := (event.ReplayProgress{Done: 2, Requeued: 2, Delivered: 2}); p.Progress != want {
		return errors.New("the plan reports something else than what it did")
	}
	return nil
}

func (n *node) createPlan(ctx context.Context) (replay.State, error) {
	v, err := n.look(ctx)
	if err != nil {
		return replay.State{}, err
	}
	var of []event.ReplayLetter
	for k, l := range v.letters {
		of = append(of, event.ReplayLetter{Tenant: tenant, Key: k, Sequence: l.at})
	}
	return n.replayer.Create(ctx, event.ReplayOrder{Operator: ann.Operator, Reason: ann.Reason, Canary: 1}, of)
}

// leaveBehind discards the letter without removing it, and takes a second event from
// the server without a record, as processes did that died before they could do more.
func leaveBehind(ctx context.Context, n *node, keys []event.Key) error {
	last, err := n.log.Outcomes.Last(ctx, tenant, keys[0])
	if err != nil {
		return err
	}
	r := event.NewRecord(last.Record.Event, last.Record.State, time.Now(), event.Discarded{Operator: ann.Operator, Reason: ann.Reason})
	if _, err := n.log.Outcomes.Append(ctx, r, last.Sequence); err != nil {
		return err
	}
	stored, err := n.log.Events.Get(ctx, 1)
	if err != nil {
		return err
	}
	e := stored.Envelope
	e.ID = "given up"
	if _, err := n.log.Events.Publish(ctx, streams.Incoming{Nonce: event.NewNonce(), Envelope: e}); err != nil {
		return err
	}
	taken := make(chan error, 1)
	stop := n.run(func(ctx context.Context) error {
		return n.log.Events.Consume(ctx, streams.ConsumeOptions{Workers: 1}, func(ctx context.Context, d *streams.Delivery) { taken <- d.Ack(ctx) })
	})
	defer stop()
	return <-taken
}
