package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"tidings/streams/event"
)

// Bounds of a page.
const (
	DefaultLimit = 50
	MaxLimit     = 1000
)

// Query chooses ledger rows. Every field that is set must fit; the zero Query
// is the newest rows of all.
type Query struct {
	ID            string // that the producer gave; several events may have it
	Tenant        string
	Type          string
	Outcome       event.Outcome
	Phase         event.Phase
	Source        string
	CorrelationID string
	Recipient     string    // of one of its messages: [event.Recipient.Hash]
	Text          string    // in its id, type, source, correlation id or cause, in any case
	Since         time.Time // EVENTS stored it then or later
	Until         time.Time // EVENTS stored it before
	Limit         int       // 0 means DefaultLimit; at most MaxLimit
	Cursor        string    // Next of the page before, of the same query
}

// LetterQuery chooses dead letters. Every field that is set must fit.
type LetterQuery struct {
	Tenant string
	Cause  event.Cause
	Kind   event.LetterKind
	Type   string
	Text   string    // in the detail, the id of the event or its type, in any case
	Since  time.Time // written then or later
	Until  time.Time // written before
	Limit  int       // 0 means DefaultLimit; at most MaxLimit
	Cursor string    // Next of the page before, of the same query
}

// Page is a part of an answer, newest first. Next is the cursor of the next
// page, empty after the last.
type Page[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next,omitempty"`
}

// Events returns a page of ledger rows, by the time at which EVENTS stored
// their events. It returns [ErrCursor] for a cursor of another query.
func (s *Store) Events(q Query) (Page[Row], error) {
	limit, cursor := q.Limit, q.Cursor
	q.Limit, q.Cursor = 0, ""
	return page(s, search{
		query: q, since: q.Since, until: q.Until, limit: limit, cursor: cursor, text: textOf(q.Text),
		index:  conditions{byTenant: q.Tenant, byType: q.Type, bySource: q.Source, byOutcome: string(q.Outcome), byPhase: string(q.Phase)},
		lookup: conditions{byEventID: q.ID, byCorrelation: q.CorrelationID, byRecipient: q.Recipient},
	}, readRow, q.fits)
}

// fits looks at what is in the row. That one of its messages goes to the recipient
// is known from the hash in the lookup, which is half of that of the address.
func (q Query) fits(r Row) bool {
	return fits(q.ID, r.EventID) && fits(q.Tenant, r.Tenant) && fits(q.Type, r.Type) &&
		fits(q.Outcome, r.Outcome) && fits(q.Phase, r.Phase) &&
		fits(q.Source, r.Source) && fits(q.CorrelationID, r.CorrelationID) &&
		(q.Text == "" || mentions(q.Text, r.EventID, r.Type, r.Source, r.CorrelationID, string(r.Cause)))
}

// DeadLetters returns a page of the dead-letter list, by the time at which the
// letters were written. It returns [ErrCursor] for a cursor of another query.
func (s *Store) DeadLetters(q LetterQuery) (Page[Letter], error) {
	limit, cursor := q.Limit, q.Cursor
	q.Limit, q.Cursor = 0, ""
	index := conditions{lettersByTenant: q.Tenant, lettersByCause: string(q.Cause)}
	if q.Tenant == "" && q.Cause == "" {
		index[lettersByTime] = anything
	}
	return page(s, search{
		query: q, since: q.Since, until: q.Until, limit: limit, cursor: cursor, text: textOf(q.Text), index: index,
	}, readLetter, q.fits)
}

func (q LetterQuery) fits(l Letter) bool {
	return fits(q.Tenant, l.Tenant) && fits(q.Cause, l.Cause) && fits(q.Kind, l.Kind) && fits(q.Type, l.Type) &&
		(q.Text == "" || mentions(q.Text, l.Detail, l.EventID, l.Type))
}

// conditions are values of dimensions; an empty one is no condition.
type conditions map[dimension]string

// anything is the value of a dimension that has none.
const anything = "*"

// spans returns the ranges of the conditions that are set, and the whole ledger if
// none is.
func (q search) spans(tx *bbolt.Tx) (spans []span) {
	for d, value := range q.index {
		if value != "" && d.indexed(value) {
			spans = append(spans, &keyRange{cursor: tx.Bucket(bucketIndex).Cursor(), prefix: d.prefix(value)})
		}
	}
	for d, value := range q.lookup {
		if value == "" {
			continue
		}
		var u keyRanges
		for _, part := range parts(tx) {
			r := keyRange{cursor: tx.Bucket(bucketLookup).Cursor(), prefix: d.appendPrefix(bytes.Clone(part), value)}
			u = append(u, openRange{keyRange: r})
		}
		spans = append(spans, u)
	}
	if len(spans) == 0 {
		spans = []span{&keyRange{cursor: tx.Bucket(bucketLedger).Cursor()}}
	}
	return spans
}

// readRow returns the JSON of the row at a place.
func readRow(tx *bbolt.Tx, place []byte) ([]byte, error) {
	value := tx.Bucket(bucketLedger).Get(place)
	if value == nil {
		return nil, nil
	}
	s, err := splitStored(value)
	return s.row, err
}

// readLetter returns the JSON of the letter at a place.
func readLetter(tx *bbolt.Tx, place []byte) ([]byte, error) {
	return tx.Bucket(bucketLetters).Get([]byte(keyIn(place))), nil
}

func fits[T ~string](want, have T) bool { return want == "" || want == have }

// search is what the queries have in common.
type search struct {
	query        any // without limit and cursor: what the cursor belongs to
	index        conditions
	lookup       conditions
	since, until time.Time
	limit        int
	cursor       string
	text         text // found nowhere in what is stored: it does not fit
}

// bounds returns where the search begins and ends.
func (q search) bounds() (bound, floor []byte, err error) {
	bound = []byte{0xff}
	if !q.until.IsZero() {
		bound = orderOf(q.until)
	}
	if !q.since.IsZero() {
		floor = orderOf(q.since)
	}
	if q.cursor != "" {
		bound, err = decodeCursor(q.query, q.cursor)
	}
	return bound, floor, err
}

// size returns the number of items on a page.
func (q search) size() int {
	if q.limit <= 0 {
		return DefaultLimit
	}
	return min(q.limit, MaxLimit)
}

// page collects the values at the places that all conditions have in common.
func page[T any](
	s *Store, q search, read func(tx *bbolt.Tx, place []byte) ([]byte, error), fits func(T) bool,
) (Page[T], error) {
	p := Page[T]{Items: []T{}}
	bound, floor, err := q.bounds()
	if err != nil {
		return p, err
	}
	err = s.view(func(tx *bbolt.Tx) error {
		reads := 0
		next, err := join(q.spans(tx), bound, floor, s.steps, func(place []byte) (bool, error) {
			if reads++; reads > s.reads {
				return false, nil
			}
			value, err := read(tx, place)
			if err != nil || value == nil || !q.text.maybeIn(value) {
				return true, err
			}
			var item T
			if err := decode(value, &item); err != nil {
				return false, fmt.Errorf("decode %s: %w", keyIn(place), err)
			}
			if !fits(item) {
				reads += misfit - 1
				return true, nil
			}
			if len(p.Items) == q.size() {
				return false, nil
			}
			p.Items = append(p.Items, item)
			return true, nil
		})
		p.Next = encodeCursor(q.query, next)
		return err
	})
	return p, err
}

// Event returns the row of an event, or [ErrNotFound].
func (s *Store) Event(key event.Key) (Row, error) {
	var row Row
	err := s.view(func(tx *bbolt.Tx) error {
		r, found, err := rowOf(tx, key)
		if row = r; err == nil && !found {
			err = notFound("event", key)
		}
		return err
	})
	return row, err
}

// DeadLetter returns a letter of the list, or [ErrNotFound].
func (s *Store) DeadLetter(key event.Key) (Letter, error) {
	var letter Letter
	err := s.view(func(tx *bbolt.Tx) error {
		found, err := getJSON(tx.Bucket(bucketLetters), []byte(key), &letter)
		if err == nil && !found {
			err = notFound("dead letter", key)
		}
		return err
	})
	return letter, err
}

func notFound(what string, key event.Key) error {
	return fmt.Errorf("%s %s: %w", what, key, ErrNotFound)
}

// Messages returns the messages of an event in the order of its plan, none
// before it is planned. It returns [ErrNotFound] for an event without a row.
func (s *Store) Messages(key event.Key) ([]event.Message, error) {
	var messages []event.Message
	err := s.view(func(tx *bbolt.Tx) error {
		stored, found, err := find(tx, key)
		switch {
		case err != nil:
			return err
		case !found:
			return notFound("event", key)
		case len(stored.messages) == 0:
			return nil
		}
		if err := decode(stored.messages, &messages); err != nil {
			return fmt.Errorf("decode messages of %s: %w", key, err)
		}
		return nil
	})
	return messages, err
}

// FindID returns the events that a producer gave the id eventID, newest first:
// several where tenants or sources use the same. An empty tenant means all. It
// returns [ErrNotFound] if there is none.
func (s *Store) FindID(eventID, tenant string) ([]Row, error) {
	found, err := page(s, search{
		index: conditions{byTenant: tenant}, lookup: conditions{byEventID: eventID}, limit: MaxLimit,
	}, readRow, func(r Row) bool { return r.EventID == eventID && fits(tenant, r.Tenant) })
	if err == nil && len(found.Items) == 0 {
		err = fmt.Errorf("event with id %q: %w", eventID, ErrNotFound)
	}
	return found.Items, err
}

// History returns the entries of one event with a sequence above after, in
// order; limit 0 means and never exceeds MaxLimit. Ask again after the last
// sequence for more. It returns [ErrNotFound] for a key that was never seen.
func (s *Store) History(key event.Key, after uint64, limit int) ([]Entry, error) {
	var entries []Entry
	known := false
	if !key.Valid() {
		return nil, fmt.Errorf("history of %q: %w", key, ErrNotFound)
	}
	err := s.view(func(tx *bbolt.Tx) error {
		sequences, any, err := history(tx, key, after, entryLimit(limit))
		known = any
		for _, sequence := range sequences {
			var e Entry
			found, err := getJSON(tx.Bucket(bucketAudit), sequenceKey(sequence), &e)
			if err != nil {
				return err
			}
			if found && len(entries) < entryLimit(limit) {
				entries = append(entries, e)
			}
		}
		return err
	})
	if err == nil && !known {
		err = notFound("history of", key)
	}
	return entries, err
}

// history returns the sequences of an event's entries above after, in order, some of
// which may be gone, and whether there is any: at least the first most that are
// there.
func history(tx *bbolt.Tx, key event.Key, after uint64, most int) (sequences []uint64, known bool, err error) {
	stored, known, err := find(tx, key)
	if err != nil {
		return nil, false, err
	}
	for _, sequence := range stored.sequences() {
		if sequence > after {
			sequences = append(sequences, sequence)
		}
	}
	cursor, prefix, n := tx.Bucket(bucketHistory).Cursor(), []byte(key), 0
	if first, _ := cursor.Seek(prefix); bytes.HasPrefix(first, prefix) {
		known = true
	}
	err = scan(cursor, next(historyKey(key, after)), prefix, func(k, _ []byte) (bool, error) {
		sequences = append(sequences, binary.BigEndian.Uint64(k[len(prefix):]))
		n++
		return n < most, nil
	})
	slices.Sort(sequences)
	return sequences, known, err
}

// Audit returns the entries of all events with a sequence above after, in
// order; limit 0 means and never exceeds MaxLimit. A duplicate that was
// appended again moves to its later sequence.
func (s *Store) Audit(after uint64, limit int) ([]Entry, error) {
	entries := []Entry{}
	err := s.view(func(tx *bbolt.Tx) error {
		return scan(tx.Bucket(bucketAudit).Cursor(), next(sequenceKey(after)), nil, func(_, v []byte) (bool, error) {
			var e Entry
			if err := decode(v, &e); err != nil {
				return false, fmt.Errorf("decode entry: %w", err)
			}
			entries = append(entries, e)
			return len(entries) < entryLimit(limit), nil
		})
	})
	return entries, err
}

func entryLimit(limit int) int {
	if limit <= 0 {
		return MaxLimit
	}
	return min(limit, MaxLimit)
}
