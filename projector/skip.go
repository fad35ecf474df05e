package projector

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"tidings/streams"
	"tidings/streams/event"
)

// ErrNotUnreadable means that there is nothing to skip: the projector has not halted
// over an entry that cannot be folded, or over another one.
var ErrNotUnreadable = errors.New("the projector has not halted over this entry")

// Skipping notes in the log that an entry is skipped. [streams.Outcomes] can.
type Skipping interface {
	AppendSkip(ctx context.Context, s event.Skip) (sequence uint64, err error)
	AcceptGap(ctx context.Context, g streams.Gap) error
}

// Unreadable is an entry of OUTCOMES over which the projector halted.
type Unreadable struct {
	Sequence uint64     `json:"sequence"`
	Problem  string     `json:"problem"`
	Event    event.Key  `json:"event,omitempty"` // that it says it is about
	Kind     event.Kind `json:"kind,omitempty"`
	Subject  string     `json:"subject"`
	StoredAt time.Time  `json:"stored_at"`
	Data     []byte     `json:"data_base64"`
}

// Unreadable returns the entry at a sequence as it is, [ErrNotUnreadable] unless the
// projector halted over it because it cannot be folded.
func (p *Projector) Unreadable(ctx context.Context, sequence uint64) (Unreadable, error) {
	halt, err := p.unreadable(sequence)
	if err != nil {
		return Unreadable{}, err
	}
	e, err := p.outcomes.entry(ctx, sequence)
	return Unreadable{
		Sequence: sequence, Problem: halt.Detail, Event: halt.key, Kind: event.Kind(e.Header.Get(streams.HeaderKind)),
		Subject: e.Subject, StoredAt: e.Time, Data: e.Data,
	}, err
}

func (p *Projector) unreadable(sequence uint64) (*HaltError, error) {
	halt := p.outcomes.progress.status().Halt
	switch {
	case halt == nil:
		return nil, fmt.Errorf("entry %d: %w: it goes on", sequence, ErrNotUnreadable)
	case halt.Reason != ReasonUnreadable || halt.Sequence != sequence:
		return nil, fmt.Errorf("entry %d: %w: it has over %d: %s", sequence, ErrNotUnreadable, halt.Sequence, halt.Detail)
	}
	return halt, nil
}

// Skip has the projector, and every other that ever folds the log, pass over the
// entry that it halted over, which is kept and shown as it is, and goes on. Who said
// so and why is in the log. It returns what it appended and at which sequence, or
// [ErrNotUnreadable] and whatever the log returns. After an error it may be asked again.
func (p *Projector) Skip(ctx context.Context, log Skipping, sequence uint64, operator, reason string) (event.Skip, uint64, error) {
	halt, err := p.unreadable(sequence)
	if err != nil {
		return event.Skip{}, 0, err
	}
	now := time.Now().UTC()
	skip := event.Skip{
		ID: event.NewNonce(), Schema: event.Schema, Kind: event.KindSkip, At: now, Tenant: halt.tenant,
		Operator: operator, Reason: reason, Sequence: sequence, Problem: halt.Detail, Event: halt.key,
	}
	// The record first: what is skipped without one would have no reason.
	at, err := log.AppendSkip(ctx, skip)
	if err != nil {
		return event.Skip{}, 0, err
	}
	err = log.AcceptGap(ctx, streams.Gap{
		From: sequence, To: sequence, Skipped: true,
		Accepted: fmt.Sprintf("%s at %s: %s", operator, now.Format(time.RFC3339), reason),
	})
	if err == nil {
		p.outcomes.progress.halt(nil) // it goes on within a moment
	}
	return skip, at, err
}

// skippedBy returns by whose word an entry is skipped, if it is.
func skippedBy(gaps []streams.Gap, sequence uint64) (streams.Gap, bool) {
	for _, g := range gaps {
		if g.Skipped && g.From <= sequence && sequence <= g.To {
			return g, true
		}
	}
	return streams.Gap{}, false
}

// skipLook is how often a halted projector looks for an operator's word.
const skipLook = time.Second

// untilSkipped waits after a halt until the entry is skipped, or ctx is done.
func (f *follower) untilSkipped(ctx context.Context, halt *HaltError) {
	if halt.Reason != ReasonUnreadable {
		<-ctx.Done()
		return
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(min(f.options.VerifyEvery, skipLook)):
		}
		info, err := f.info(ctx)
		if g, ok := skippedBy(info.Gaps, halt.Sequence); err == nil && ok {
			f.log.Warn("an entry that cannot be folded is skipped by an operator's word", "sequence", halt.Sequence, "word", g.Accepted)
			f.progress.halt(nil)
			return
		}
	}
}

// tenantOf returns whose an entry is by its header, the default tenant if it has none.
func tenantOf(header string) string {
	if tenant, err := url.PathUnescape(header); err == nil && tenant != "" {
		return tenant
	}
	return event.DefaultTenant
}
