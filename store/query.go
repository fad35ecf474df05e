package store

import (
	"bytes"
	"encoding/json"
	"fmt"
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
	ranges := rangesOf(byTime, map[dimension]string{
		byTenant: q.Tenant, byType: q.Type, byOutcome: string(q.Outcome), byPhase: string(q.Phase),
		bySource: q.Source, byCorrelation: q.CorrelationID, byRecipient: q.Recipient,
	})
	limit, cursor := q.Limit, q.Cursor
	q.Limit, q.Cursor = 0, ""
	return page(s, bucketLedger, search{
		query: q, ranges: ranges, since: q.Since, until: q.Until, limit: limit, cursor: cursor, text: textOf(q.Text),
	}, q.fits)
}

// fits looks at what is in the row. That it has the recipient is known from the
// index.
func (q Query) fits(r Row) bool {
	return fits(q.Tenant, r.Tenant) && fits(q.Type, r.Type) &&
		fits(q.Outcome, r.Outcome) && fits(q.Phase, r.Phase) &&
		fits(q.Source, r.Source) && fits(q.CorrelationID, r.CorrelationID) &&
		(q.Text == "" || mentions(q.Text, r.EventID, r.Type, r.Source, r.CorrelationID, string(r.Cause)))
}

// DeadLetters returns a page of the dead-letter list, by the time at which the
// letters were written. It returns [ErrCursor] for a cursor of another query.
func (s *Store) DeadLetters(q LetterQuery) (Page[Letter], error) {
	ranges := rangesOf(lettersByTime, map[dimension]string{lettersByTenant: q.Tenant, lettersByCause: string(q.Cause)})
	limit, cursor := q.Limit, q.Cursor
	q.Limit, q.Cursor = 0, ""
	return page(s, bucketLetters, search{
		query: q, ranges: ranges, since: q.Since, until: q.Until, limit: limit, cursor: cursor, text: textOf(q.Text),
	}, q.fits)
}

func (q LetterQuery) fits(l Letter) bool {
	return fits(q.Tenant, l.Tenant) && fits(q.Cause, l.Cause) && fits(q.Kind, l.Kind) && fits(q.Type, l.Type) &&
		(q.Text == "" || mentions(q.Text, l.Detail, l.EventID, l.Type))
}

// rangesOf returns the ranges of the index for the conditions that are set, and
// that of everything if none is.
func rangesOf(all dimension, conditions map[dimension]string) [][]byte {
	var ranges [][]byte
	for d, value := range conditions {
		if value != "" && d.indexed(value) {
			ranges = append(ranges, d.prefix(value))
		}
	}
	if len(ranges) == 0 {
		return [][]byte{all.prefix("")}
	}
	return ranges
}

func fits[T ~string](want, have T) bool { return want == "" || want == have }

// search is what the queries have in common.
type search struct {
	query        any // without limit and cursor: what the cursor belongs to
	ranges       [][]byte
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

// page collects the values in bucket whose keys are in all ranges of the index.
func page[T any](s *Store, bucket []byte, q search, fits func(T) bool) (Page[T], error) {
	p := Page[T]{Items: []T{}}
	bound, floor, err := q.bounds()
	if err != nil {
		return p, err
	}
	err = s.view(func(tx *bbolt.Tx) error {
		index, values := tx.Bucket(bucketIndex), tx.Bucket(bucket)
		spans := make([]span, len(q.ranges))
		for i, prefix := range q.ranges {
			spans[i] = span{cursor: index.Cursor(), prefix: prefix}
		}
		reads := 0
		next, err := join(spans, bound, floor, s.steps, func(suffix []byte) (bool, error) {
			if reads++; reads > s.reads {
				return false, nil
			}
			key := []byte(keyIn(suffix))
			stored := values.Get(key)
			if stored == nil || !q.text.maybeIn(stored) {
				return true, nil
			}
			var item T
			if err := json.Unmarshal(stored, &item); err != nil {
				return false, fmt.Errorf("decode %s: %w", key, err)
			}
			if !fits(item) {
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
	return get[Row](s, bucketLedger, "event", key)
}

// DeadLetter returns a letter of the list, or [ErrNotFound].
func (s *Store) DeadLetter(key event.Key) (Letter, error) {
	return get[Letter](s, bucketLetters, "dead letter", key)
}

// Messages returns the messages of an event in the order of its plan, none
// before it is planned. It returns [ErrNotFound] for an event without a row.
func (s *Store) Messages(key event.Key) ([]event.Message, error) {
	if _, err := s.Event(key); err != nil {
		return nil, err
	}
	var messages []event.Message
	err := s.view(func(tx *bbolt.Tx) error {
		_, err := getJSON(tx.Bucket(bucketMessages), []byte(key), &messages)
		return err
	})
	return messages, err
}

func get[T any](s *Store, bucket []byte, what string, key event.Key) (T, error) {
	var value T
	found := false
	err := s.view(func(tx *bbolt.Tx) error {
		var err error
		found, err = getJSON(tx.Bucket(bucket), []byte(key), &value)
		return err
	})
	if err == nil && !found {
		err = fmt.Errorf("%s %s: %w", what, key, ErrNotFound)
	}
	return value, err
}

// FindID returns the events that a producer gave the id eventID, newest first:
// several where tenants or sources use the same. An empty tenant means all. It
// returns [ErrNotFound] if there is none.
func (s *Store) FindID(eventID, tenant string) ([]Row, error) {
	ranges := [][]byte{byEventID.prefix(eventID)}
	if tenant != "" {
		ranges = append(ranges, byTenant.prefix(tenant))
	}
	found, err := page(s, bucketLedger, search{ranges: ranges, limit: MaxLimit}, func(r Row) bool {
		return r.EventID == eventID && fits(tenant, r.Tenant)
	})
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
		audit, cursor, prefix := tx.Bucket(bucketAudit), tx.Bucket(bucketHistory).Cursor(), []byte(key)
		first, _ := cursor.Seek(prefix)
		known = bytes.HasPrefix(first, prefix)
		return scan(cursor, next(historyKey(key, after)), prefix, func(k, _ []byte) (bool, error) {
			var e Entry
			if _, err := getJSON(audit, k[len(prefix):], &e); err != nil {
				return false, err
			}
			entries = append(entries, e)
			return len(entries) < entryLimit(limit), nil
		})
	})
	if err == nil && !known {
		err = fmt.Errorf("history of %s: %w", key, ErrNotFound)
	}
	return entries, err
}

// Audit returns the entries of all events with a sequence above after, in
// order; limit 0 means and never exceeds MaxLimit. A duplicate that was
// appended again moves to its later sequence.
func (s *Store) Audit(after uint64, limit int) ([]Entry, error) {
	entries := []Entry{}
	err := s.view(func(tx *bbolt.Tx) error {
		return scan(tx.Bucket(bucketAudit).Cursor(), next(sequenceKey(after)), nil, func(_, v []byte) (bool, error) {
			var e Entry
			if err := json.Unmarshal(v, &e); err != nil {
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
