package processes_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"tidings/dispatcher/steward"
	"tidings/streams"
	"tidings/streams/event"
)

// view is what the log holds.
type view struct {
	records map[event.Key][]event.Record
	letters map[event.Key]held
	first   uint64 // in EVENTS
}

type held struct {
	event.Letter
	at uint64
}

func (v view) state(k event.Key) event.State {
	if r := v.records[k]; len(r) > 0 {
		return r[len(r)-1].State
	}
	return event.State{}
}

// all reports whether there are n events, each of which is as ok says.
func (v view) all(n int, ok func(event.State) bool) bool {
	for k := range v.records {
		if !ok(v.state(k)) {
			return false
		}
	}
	return len(v.records) == n
}

func (v view) String() string {
	out := ""
	for k, records := range v.records {
		out += "\n" + string(k) + ":"
		for _, r := range records {
			for _, f := range r.Facts {
				out += " " + string(f.FactKind())
			}
			out += ","
		}
		if l, ok := v.letters[k]; ok {
			out += fmt.Sprintf(" a letter of generation %d", l.Generation)
		}
	}
	return out
}

var errAll = errors.New("that is all")

// each hands what a stream holds now to handle.
func each(ctx context.Context, s interface {
	Info(ctx context.Context) (streams.StreamInfo, error)
	Follow(ctx context.Context, from uint64, handle func(streams.Entry) error) error
}, handle func(streams.Entry) error,
) error {
	info, err := s.Info(ctx)
	if err != nil || info.Messages == 0 {
		return err
	}
	n := uint64(0)
	err = s.Follow(ctx, info.First, func(e streams.Entry) error {
		if err := handle(e); err != nil {
			return err
		}
		if n++; e.Sequence >= info.Last || n == info.Messages {
			return errAll
		}
		return nil
	})
	if errors.Is(err, errAll) {
		return nil
	}
	return err
}

func (n *node) look(ctx context.Context) (view, error) { return look(ctx, n.log) }

func look(ctx context.Context, log *streams.Log) (view, error) {
	v := view{records: map[event.Key][]event.Record{}, letters: map[event.Key]held{}}
	err := each(ctx, log.Outcomes, func(e streams.Entry) error {
		kind := event.Kind(e.Header.Get(streams.HeaderKind))
		if kind == event.KindDuplicate || kind == event.KindReplay {
			return nil
		}
		r, err := event.DecodeRecord(e.Data)
		v.records[r.Event.Key] = append(v.records[r.Event.Key], r)
		return err
	})
	if err != nil {
		return v, err
	}
	info, err := log.DeadLetters.Info(ctx)
	if err != nil {
		return v, err
	}
	for at := info.First; at <= info.Last && info.Messages > 0; at++ { // some are removed, also while it is read
		e, err := log.DeadLetters.Entry(ctx, at)
		if errors.Is(err, streams.ErrNotFound) {
			continue
		}
		var l event.Letter
		if err = errors.Join(err, json.Unmarshal(e.Data, &l)); err != nil {
			return v, err
		}
		v.letters[l.Key] = held{l, at}
	}
	events, err := log.Events.Info(ctx)
	v.first = events.First
	return v, err
}

// ledger is one that never lags, because it asks the log.
type ledger struct{ log *streams.Log }

func (ledger) CaughtUp(context.Context) error         { return nil }
func (ledger) Walked(context.Context) (uint64, error) { return 0, nil }
func (ledger) Walk(context.Context, uint64) error     { return nil }

func (l ledger) Phase(key event.Key) (event.Phase, bool, error) {
	last, err := l.log.Outcomes.Last(context.Background(), tenant, key)
	if errors.Is(err, streams.ErrNotFound) {
		return "", false, nil
	}
	return last.Record.State.Phase, err == nil, err
}

func (l ledger) Overdue(ctx context.Context, due, idle time.Time, limit int) ([]streams.Wakeup, error) {
	v, err := look(ctx, l.log)
	var overdue []streams.Wakeup
	for k, records := range v.records {
		s := v.state(k)
		held := s.Phase == event.PhaseOpen || s.Phase == event.PhaseClaimed
		if held && s.ChangedAt.Before(idle) || s.Phase == event.PhaseWaiting && s.Due.Before(due) {
			overdue = append(overdue, streams.Wakeup{Tenant: tenant, Key: k, Sequence: records[0].Event.Sequence})
		}
	}
	return overdue[:min(limit, len(overdue))], err
}

func (l ledger) Settled(ctx context.Context, _ int) ([]steward.Letter, error) {
	v, err := look(ctx, l.log)
	var settled []steward.Letter
	for k, letter := range v.letters {
		if v.state(k).Phase == event.PhaseSettled {
			settled = append(settled, steward.Letter{Tenant: tenant, Key: k, Generation: letter.Generation, Sequence: letter.at})
		}
	}
	return settled, err
}

// count returns how many facts of a kind a history has.
func count(records []event.Record, kind event.FactKind) (n int) {
	for _, r := range records {
		n += len(slices.DeleteFunc(slices.Clone(r.Facts), func(f event.Fact) bool { return f.FactKind() != kind }))
	}
	return n
}
