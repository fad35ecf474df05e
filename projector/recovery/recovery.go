// Package recovery gives the log back what it lost and the ledger still knows:
// after a power cut in relaxed durability, a backup that is older than the ledger,
// a damaged block, or a log that was lost as a whole.
//
// What to believe: it only adds. For every event whose last record in the ledger
// is not in the log it appends one that says so ([event.Restored]) and where the
// event stood, on top of whatever the log has by now; what either knows as
// delivered stays so. It may be repeated, also after a crash half-way. Nothing may
// work on the log meanwhile, and the ledger is only read: it is to be built again
// afterwards.
package recovery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tidings/store"
	"tidings/streams"
	"tidings/streams/event"
)

// Outcomes holds the histories. [streams.Outcomes] is one.
type Outcomes interface {
	Info(ctx context.Context) (streams.StreamInfo, error)
	Entry(ctx context.Context, sequence uint64) (streams.Entry, error)
	Last(ctx context.Context, tenant string, key event.Key) (streams.StoredRecord, error)
	Append(ctx context.Context, r event.Record, after uint64) (streams.Position, error)
	Missing(ctx context.Context) ([]streams.Gap, error)
	AcceptGap(ctx context.Context, g streams.Gap) error
}

// Events holds what producers published. [streams.Events] is one.
type Events interface {
	Get(ctx context.Context, sequence uint64) (streams.StoredEvent, error)
}

// Letters holds the dead letters. [streams.DeadLetters] is one.
type Letters interface {
	Get(ctx context.Context, tenant string, key event.Key) (event.Letter, uint64, error)
}

// Waker publishes wake-ups. [streams.Retries] is one.
type Waker interface {
	Wake(ctx context.Context, w streams.Wakeup) error
}

// Options are what a recovery works on. All but Progress are needed.
type Options struct {
	Ledger   *store.Store
	Outcomes Outcomes
	Events   Events
	Letters  Letters
	Waker    Waker
	// Progress is told how many of how many events were looked at.
	Progress func(done, total int)
}

// Recovery is one recovery. Make it with New; it does nothing by itself.
type Recovery struct{ o Options }

// New returns a recovery.
func New(o Options) *Recovery {
	if o.Progress == nil {
		o.Progress = func(int, int) {}
	}
	return &Recovery{o}
}

// Findings are what log and ledger do not have in common.
type Findings struct {
	Looked int `json:"looked"` // events of the ledger
	// Lost are the events whose last record is not in the log.
	Lost []store.Row `json:"lost"`
	// Unlettered are dead letters that the log does not have.
	Unlettered []store.Row `json:"unlettered"`
	// Gaps are missing entries of OUTCOMES: what the ledger does not know of them
	// nobody does.
	Gaps []streams.Gap `json:"gaps"`
}

// Nothing reports whether there is nothing to recover.
func (f Findings) Nothing() bool { return len(f.Lost)+len(f.Unlettered)+len(f.Gaps) == 0 }

// Examine compares every event of the ledger with the log. It changes nothing.
func (r *Recovery) Examine(ctx context.Context) (Findings, error) {
	var f Findings
	info, err := r.o.Outcomes.Info(ctx)
	if err != nil {
		return f, err
	}
	if f.Gaps, err = r.o.Outcomes.Missing(ctx); err != nil {
		return f, err
	}
	err = r.each(ctx, func(row store.Row) error {
		f.Looked++
		lost, err := r.lost(ctx, row, info)
		switch {
		case err != nil:
			return err
		case lost:
			f.Lost = append(f.Lost, row)
		}
		unlettered, err := r.unlettered(ctx, row)
		if unlettered {
			f.Unlettered = append(f.Unlettered, row)
		}
		return err
	})
	return f, err
}

// each calls fn for every row of the ledger.
func (r *Recovery) each(ctx context.Context, fn func(store.Row) error) error {
	counts, err := r.o.Ledger.Counts()
	if err != nil {
		return err
	}
	done := 0
	for q := (store.Query{Limit: store.MaxLimit}); ; {
		page, err := r.o.Ledger.Events(q)
		if err != nil {
			return err
		}
		for _, row := range page.Items {
			if err := errors.Join(ctx.Err(), fn(row)); err != nil {
				return fmt.Errorf("event %s: %w", row.Key, err)
			}
			done++
			r.o.Progress(done, counts.Events())
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return nil
		}
	}
}

// lost reports whether the last record of an event in the ledger is not where it
// was in the log. What the log has forgotten with its age is not lost.
func (r *Recovery) lost(ctx context.Context, row store.Row, info streams.StreamInfo) (bool, error) {
	checkpoint, err := r.o.Ledger.Checkpoint(streams.OutcomesStream)
	if err != nil {
		return false, err
	}
	known, err := r.o.Ledger.Audit(row.RecordSequence-1, 1)
	if err != nil {
		return false, err
	}
	if len(known) == 0 || known[0].Sequence != row.RecordSequence {
		return false, fmt.Errorf("the ledger lacks entry %d, its own last one: it is damaged too", row.RecordSequence)
	}
	if checkpoint.Created.Equal(info.Created) && row.RecordSequence < info.First {
		return info.Keeps(known[0].StoredAt), nil
	}
	entry, err := r.o.Outcomes.Entry(ctx, row.RecordSequence)
	if errors.Is(err, streams.ErrNotFound) {
		return true, nil
	}
	return err == nil && entry.Header.Get(streams.HeaderRecordID) != known[0].ID, err
}

func (r *Recovery) unlettered(ctx context.Context, row store.Row) (bool, error) {
	if row.Phase != event.PhaseDead {
		return false, nil
	}
	_, _, err := r.o.Letters.Get(ctx, row.Tenant, row.Key)
	if errors.Is(err, streams.ErrNotFound) {
		return true, nil
	}
	return false, err
}

// Apply gives the log what it lost, by the word of an operator, and has readers
// pass over its gaps. The ledger is to be built anew afterwards.
func (r *Recovery) Apply(ctx context.Context, f Findings, operator, reason string) error {
	for i, row := range f.Lost {
		if err := r.restore(ctx, row); err != nil {
			return fmt.Errorf("restore event %s: %w", row.Key, err)
		}
		r.o.Progress(i+1, len(f.Lost))
	}
	for _, g := range f.Gaps {
		g.Accepted = fmt.Sprintf("%s at %s: %s", operator, time.Now().UTC().Format(time.RFC3339), reason)
		if err := r.o.Outcomes.AcceptGap(ctx, g); err != nil {
			return err
		}
	}
	for _, row := range f.Unlettered {
		// The step that it starts writes the letter again.
		err := r.o.Waker.Wake(ctx, streams.Wakeup{Tenant: row.Tenant, Key: row.Key, Sequence: row.Sequence})
		if err != nil {
			return err
		}
	}
	return nil
}

// restore appends where an event stood by the ledger, unless that was done.
func (r *Recovery) restore(ctx context.Context, row store.Row) error {
	state, err := r.stateOf(row)
	if err != nil {
		return err
	}
	var after uint64
	var before event.State
	switch last, err := r.o.Outcomes.Last(ctx, row.Tenant, row.Key); {
	case errors.Is(err, streams.ErrNotFound):
	case err != nil:
		return err
	case restores(last.Record, state):
		return nil
	default:
		after, before = last.Sequence, last.Record.State
	}
	ref, err := r.refOf(ctx, row)
	if err != nil {
		return err
	}
	record := event.NewRecord(ref, before, time.Now(), event.Restored{From: event.FromLedger, State: state})
	_, err = r.o.Outcomes.Append(ctx, record, after)
	return err
}

// restores reports whether a record is that of an earlier recovery.
func restores(r event.Record, s event.State) bool {
	for _, f := range r.Facts {
		if restored, ok := f.(event.Restored); ok && restored.State.Revision == s.Revision && restored.State.Phase == s.Phase {
			return true
		}
	}
	return false
}

// refOf returns what is known of an event. Its digest is that of the stored copy;
// if that is lost too, there is none.
func (r *Recovery) refOf(ctx context.Context, row store.Row) (event.Ref, error) {
	stored, err := r.o.Events.Get(ctx, row.Sequence)
	switch {
	case err == nil && stored.Ref.Key == row.Key:
		return stored.Ref, nil
	case err != nil && !errors.Is(err, streams.ErrNotFound) && !errors.Is(err, streams.ErrForeign):
		return event.Ref{}, err
	}
	return event.Ref{
		Key: row.Key, Tenant: row.Tenant, Source: row.Source, ID: row.EventID, IDSource: row.IDSource, Type: row.Type,
		CorrelationID: row.CorrelationID, OccurredAt: row.OccurredAt, ReceivedAt: row.ReceivedAt, Sequence: row.Sequence,
	}, nil
}
