package streams

import (
	"fmt"
	"slices"
	"time"

	"tidings/streams/event"
)

// How duplicates are thinned: of one event, recognised by one part.
const (
	ownEntries = 10               // in a minute have an entry each; the others share one
	thinFor    = time.Minute      // from the first of them on
	maxFloods  = 32 << 10         // events with duplicates in a minute; beyond them each has its entry
	flushWait  = 10 * time.Second // for the shared entries, when the log closes
)

// thinner decides which duplicates get an entry of their own, and holds the
// entries that the others share until their minute is over. The zero value works.
type thinner struct {
	floods map[floodKey]*flood
	made   uint64 // floods so far
}

type floodKey struct {
	event event.Key
	stage event.Stage
}

// flood is the duplicates of an event within a minute.
type flood struct {
	number uint64
	until  time.Time
	own    []string         // ids of those with an entry of their own
	shared *event.Duplicate // of the others; nil: there are none
}

// take reports whether a duplicate gets an entry of its own. If not, it is
// counted. The same duplicate again gets the same answer, as long as its minute
// lasts and it was not counted.
func (t *thinner) take(d event.Duplicate, now time.Time) (own bool) {
	key := floodKey{d.Event.Key, d.Stage}
	f := t.floods[key]
	if f == nil || f.shared == nil && !now.Before(f.until) {
		f = t.begin(key, now)
	}
	switch {
	case f == nil || slices.Contains(f.own, d.ID):
		return true
	case len(f.own) < ownEntries:
		f.own = append(f.own, d.ID)
		return true
	}
	f.count(d)
	return false
}

// begin returns a new minute for an event, nil if there are too many.
func (t *thinner) begin(key floodKey, now time.Time) *flood {
	if t.floods == nil {
		t.floods = map[floodKey]*flood{}
	}
	if t.floods[key] == nil && len(t.floods) >= maxFloods {
		return nil
	}
	t.made++
	f := &flood{number: t.made, until: now.Add(thinFor)}
	t.floods[key] = f
	return f
}

// count adds a duplicate to the shared entry, which tells of the last one.
func (f *flood) count(d event.Duplicate) {
	shared := d
	if f.shared == nil {
		shared.ID = string(event.NewKey("duplicates", d.ID, fmt.Sprint(f.number)))
		shared.Since = d.At
	} else {
		shared.ID, shared.Since, shared.Count = f.shared.ID, f.shared.Since, f.shared.Count+1
	}
	f.shared = &shared
}

// due returns the shared entries whose minute is over, all of them if last. Their
// duplicates are counted on in them until they are done.
func (t *thinner) due(now time.Time, last bool) []event.Duplicate {
	var due []event.Duplicate
	for key, f := range t.floods {
		switch {
		case !last && now.Before(f.until):
		case f.shared == nil:
			delete(t.floods, key)
		default:
			due = append(due, *f.shared)
		}
	}
	return due
}

// done says that a shared entry is stored. If more were counted since, it is due
// once more, and takes the place of the one that is stored.
func (t *thinner) done(d event.Duplicate) {
	key := floodKey{d.Event.Key, d.Stage}
	if f := t.floods[key]; f != nil && f.shared != nil && f.shared.ID == d.ID && f.shared.Count == d.Count {
		delete(t.floods, key)
	}
}
