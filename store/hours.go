package store

import (
	"bytes"
	"encoding/binary"
	"strings"
	"time"

	"go.etcd.io/bbolt"

	"tidings/streams/event"
)

// HourQuery chooses counts of events by hour. Every field that is set must fit;
// the zero HourQuery is all, newest first.
type HourQuery struct {
	Tenant  string
	Outcome event.Outcome
	Since   time.Time // the hour that it is in, or later
	Until   time.Time // hours that began before
	Limit   int       // 0 means DefaultLimit; at most MaxLimit
	Cursor  string    // Next of the page before, of the same query
}

// HourCount is how many events of a tenant EVENTS stored in an hour and have, by
// now, an outcome.
type HourCount struct {
	Hour    time.Time     `json:"hour"` // its beginning, in UTC
	Tenant  string        `json:"tenant"`
	Outcome event.Outcome `json:"outcome"` // empty: of events that have not ended
	Events  int           `json:"events"`  // never 0; without tests
}

// Hours returns a page of the numbers of events by hour, outcome and tenant. It
// reads counters, not rows. It returns [ErrCursor] for a cursor of another query.
func (s *Store) Hours(q HourQuery) (Page[HourCount], error) {
	p := Page[HourCount]{Items: []HourCount{}}
	from, end := q.bounds()
	limit, cursor := search{limit: q.Limit}.size(), q.Cursor
	q.Limit, q.Cursor = 0, ""
	if cursor != "" {
		var err error
		if from, err = decodeCursor(q, cursor); err != nil {
			return p, err
		}
	}
	err := s.view(func(tx *bbolt.Tx) error {
		steps := 0
		return scan(tx.Bucket(bucketHours).Cursor(), from, nil, func(k, v []byte) (bool, error) {
			if end != nil && bytes.Compare(k, end) >= 0 {
				return false, nil
			}
			c := hourCount(k, v)
			fit := fits(q.Tenant, c.Tenant) && fits(q.Outcome, c.Outcome)
			if steps++; steps > s.steps || fit && len(p.Items) == limit {
				p.Next = encodeCursor(q, k)
				return false, nil
			}
			if fit {
				p.Items = append(p.Items, c)
			}
			return true, nil
		})
	})
	return p, err
}

// bounds returns the first key and, if there is one, that before which to end.
func (q HourQuery) bounds() (from, end []byte) {
	if !q.Until.IsZero() {
		from = appendHour(nil, q.Until.Add(-1)) // the hour before, if one begins then
	}
	if !q.Since.IsZero() {
		end = appendHour(nil, q.Since.Add(-time.Hour))
	}
	return from, end
}

// hourKey is the key of a counter: the hour, so that a later one comes first, the
// outcome, a zero byte, and the tenant.
func hourKey(at time.Time, outcome event.Outcome, tenant string) string {
	return string(appendHour(nil, at)) + string(outcome) + "\x00" + tenant
}

const (
	hourSize    = 8
	hourSeconds = 3600
)

func appendHour(b []byte, at time.Time) []byte {
	hour := at.Unix() / hourSeconds
	if at.Unix()%hourSeconds < 0 {
		hour--
	}
	return binary.BigEndian.AppendUint64(b, ^(uint64(hour) ^ 1<<63))
}

func hourCount(k, v []byte) HourCount {
	hour := int64(^binary.BigEndian.Uint64(k) ^ 1<<63)
	outcome, tenant, _ := strings.Cut(string(k[hourSize:]), "\x00")
	return HourCount{
		Hour: time.Unix(hour*hourSeconds, 0).UTC(), Tenant: tenant, Outcome: event.Outcome(outcome), Events: countIn(v),
	}
}
