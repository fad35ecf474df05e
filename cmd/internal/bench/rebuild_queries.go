package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"tidings/cmd/internal/why"
	"tidings/store"
	"tidings/streams/event"
)

// QueryResult is how long one query of the ledger took, in milliseconds.
type QueryResult struct {
	Query string  `json:"query"`
	P50   float64 `json:"p50_ms"`
	P99   float64 `json:"p99_ms"`
}

// queriesOf is how often each query is asked, about another event every time.
const queriesOf = 1000

// asked is what queries are about.
type asked struct {
	*store.Store
	row       store.Row
	recipient string // of one of its messages; empty: it has none
	entry     uint64 // of the audit
}

// query is one that is measured. ask fails if the answer is not the right one.
type query struct {
	name string
	ask  func(asked) error
}

// queries are all that people ask. Pages begin at the event that is asked about, so
// that they lie anywhere in the ledger, and have 50 rows where there are as many.
func queries() []query {
	by := func(name string, set func(asked) store.Query) query {
		return query{name, func(a asked) error { return a.page(set(a)) }}
	}
	return []query{
		by("events", func(asked) store.Query { return store.Query{} }),
		by("events by tenant", func(a asked) store.Query { return store.Query{Tenant: a.row.Tenant} }),
		by("events by type", func(a asked) store.Query { return store.Query{Type: a.row.Type} }),
		by("events by outcome", func(a asked) store.Query { return store.Query{Outcome: a.row.Outcome} }),
		by("events by source", func(a asked) store.Query { return store.Query{Source: a.row.Source} }),
		by("events by time", func(a asked) store.Query { return store.Query{Since: a.row.ReceivedAt.Add(-time.Hour)} }),
		by("events by correlation id", func(a asked) store.Query { return store.Query{CorrelationID: a.row.CorrelationID} }),
		by("events by recipient", func(a asked) store.Query { return store.Query{Recipient: a.recipient} }),
		by("events by text", func(a asked) store.Query { return store.Query{Text: a.row.EventID[4:16]} }),
		by("events by tenant, type, outcome and time", func(a asked) store.Query {
			return store.Query{
				Tenant: a.row.Tenant, Type: a.row.Type, Outcome: a.row.Outcome, Since: a.row.ReceivedAt.Add(-24 * time.Hour),
			}
		}),
		{"event by id", asked.byID},
		{"messages and tries", asked.messages},
		{"history in words (why)", asked.why},
		{"audit", asked.audit},
		{"counts", asked.counts},
		{"counts by hour", asked.hours},
		{"dead letters by cause", asked.causes},
	}
}

var errAnswer = errors.New("the answer lacks what was asked for")

// page asks for the rows from the event on that is asked about, which must be the
// first.
func (a asked) page(q store.Query) error {
	q.Until = a.row.ReceivedAt.Add(1)
	p, err := a.Events(q)
	if err == nil && (len(p.Items) == 0 || p.Items[0].Key != a.row.Key) {
		err = errAnswer
	}
	return err
}

func (a asked) byID() error {
	rows, err := a.FindID(a.row.EventID, "")
	if err == nil && rows[0].Key != a.row.Key {
		err = errAnswer
	}
	return err
}

func (a asked) messages() error {
	messages, err := a.Messages(a.row.Key)
	if err == nil && len(messages) != a.row.Messages.Created {
		err = errAnswer
	}
	return err
}

// why does what the command does: it finds the event by its id, and tells its
// history.
func (a asked) why() error {
	rows, err := a.FindID(a.row.EventID, "")
	if err != nil {
		return err
	}
	history, err := a.History(rows[0].Key, 0, 0)
	if err == nil && len(why.Tell(rows[0], history).Lines) == 0 {
		err = errAnswer
	}
	return err
}

func (a asked) audit() error {
	entries, err := a.Audit(a.entry-1, store.DefaultLimit)
	if err == nil && (len(entries) == 0 || entries[0].Sequence != a.entry) {
		err = errAnswer
	}
	return err
}

func (a asked) counts() error {
	c, err := a.Counts()
	if err == nil && c.Events() == 0 {
		err = errAnswer
	}
	return err
}

// hours asks for a week of the tenant.
func (a asked) hours() error {
	p, err := a.Hours(store.HourQuery{
		Tenant: a.row.Tenant, Since: a.row.ReceivedAt.Add(-7 * 24 * time.Hour), Until: a.row.ReceivedAt.Add(1), Limit: store.MaxLimit,
	})
	if err == nil && len(p.Items) == 0 {
		err = errAnswer
	}
	return err
}

func (a asked) causes() error {
	causes, err := a.Causes("")
	if err != nil {
		return err
	}
	c, err := a.Counts() // which takes next to nothing
	letters := 0
	for _, of := range causes {
		letters += of.Letters
	}
	if err == nil && letters != c.Letters {
		err = errAnswer
	}
	return err
}

// queries measures all queries on a ledger.
func (p part) queries(ctx context.Context, done *atomic.Int64) (r partResult, err error) {
	ledger, err := store.Open(p.File, store.Options{})
	if err != nil {
		return partResult{}, err
	}
	defer func() { err = errors.Join(err, ledger.Close()) }()
	about, err := choose(ledger, p.Want.Records)
	if err != nil {
		return partResult{}, err
	}
	for _, q := range queries() {
		took := make([]time.Duration, 0, len(about))
		for _, a := range about {
			began := time.Now()
			if err := q.ask(a); err != nil {
				return partResult{}, fmt.Errorf("ask for %s, about event %s: %w", q.name, a.row.Key, err)
			}
			took = append(took, time.Since(began))
			done.Add(1)
		}
		if ctx.Err() != nil {
			return partResult{}, context.Cause(ctx)
		}
		slices.Sort(took)
		r.Queries = append(r.Queries, QueryResult{q.name, round(ms(percentile(took, 50)), 3), round(ms(percentile(took, 99)), 3)})
	}
	return r, nil
}

// choose returns events from anywhere in the ledger that have ended and told
// somebody.
func choose(ledger *store.Store, records int) ([]asked, error) {
	random := rand.New(rand.NewPCG(3, 4))
	var about []asked
	for tries := 0; len(about) < queriesOf; tries++ {
		entry := uint64(1 + random.IntN(records))
		entries, err := ledger.Audit(entry-1, 1)
		if err != nil {
			return nil, err
		}
		a, err := chosen(ledger, entries[0].Key)
		if err != nil {
			return nil, err
		}
		if a.entry = entry; a.recipient != "" && a.row.Ended() {
			about = append(about, a)
		}
		if tries > 10*queriesOf {
			return nil, errors.New("hardly an event in the ledger has a recipient")
		}
	}
	return about, nil
}

func chosen(ledger *store.Store, key event.Key) (asked, error) {
	row, err := ledger.Event(key)
	if errors.Is(err, store.ErrNotFound) { // only a duplicate so far
		return asked{}, nil
	}
	messages, err2 := ledger.Messages(key)
	if err := cmp.Or(err, err2); err != nil {
		return asked{}, err
	}
	a := asked{Store: ledger, row: row}
	if len(messages) > 0 {
		a.recipient = messages[0].Recipient.Hash
	}
	return a, nil
}
