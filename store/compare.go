package store

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"go.etcd.io/bbolt"

	"tidings/streams/event"
)

// Difference is one thing that two ledgers say differently.
type Difference struct {
	What string    `json:"what"` // "row", "messages", "entry", "letter" or "count"
	Key  event.Key `json:"key,omitempty"`
	Name string    `json:"name"` // what it is about, in words
	// Ours and Theirs are what the ledgers say, as far as they differ; empty: it is
	// not there.
	Ours   string `json:"ours,omitempty"`
	Theirs string `json:"theirs,omitempty"`
	// Letter is the sequence of the dead letter that is different, ours or else
	// theirs, so that one can see whether it has been removed meanwhile.
	Letter uint64 `json:"letter,omitempty"`
}

// String says it for people, where ours is the live ledger, and theirs what the log
// gives.
func (d Difference) String() string {
	said := func(by, what string) string {
		if what == "" {
			return by + " has none"
		}
		return by + " says " + what
	}
	return fmt.Sprintf("%s: %s, %s", d.Name, said("live", d.Ours), said("the log", d.Theirs))
}

// Compare calls found for everything that the two ledgers say differently, until it
// returns false. It reads both wholly, each as of one moment, and takes the time of
// that. s may be a [Store.Snapshot].
func (s *Store) Compare(other *Store, found func(Difference) bool) error {
	return s.view(func(ours *bbolt.Tx) error {
		return other.view(func(theirs *bbolt.Tx) error {
			for pair := range merged(compared(ours), compared(theirs)) {
				if !bytes.Equal(pair[0].value, pair[1].value) || (pair[0].key == nil) != (pair[1].key == nil) {
					if !found(difference(pair[0], pair[1])) {
						return nil
					}
				}
			}
			return nil
		})
	})
}

// merged walks two orders side by side. What only one has is paired with nothing.
func merged(ours, theirs iter.Seq[content]) iter.Seq[[2]content] {
	return func(yield func([2]content) bool) {
		nextOurs, stopOurs := iter.Pull(ours)
		defer stopOurs()
		nextTheirs, stopTheirs := iter.Pull(theirs)
		defer stopTheirs()
		a, moreA := nextOurs()
		b, moreB := nextTheirs()
		for moreA || moreB {
			var pair [2]content
			first, second := moreA && (!moreB || !b.before(a)), moreB && (!moreA || !a.before(b))
			if first {
				pair[0] = a
			}
			if second {
				pair[1] = b
			}
			if !yield(pair) {
				return
			}
			if first {
				a, moreA = nextOurs()
			}
			if second {
				b, moreB = nextTheirs()
			}
		}
	}
}

func difference(ours, theirs content) Difference {
	some := ours
	if some.key == nil {
		some = theirs
	}
	d := Difference{}
	switch string(some.bucket) {
	case string(bucketLedger):
		d.What, d.Key = "row", keyIn(some.key)
		d.Name = "ledger row of event " + named(some.value, string(d.Key))
	case string(contentMessages):
		d.What, d.Key = "messages", keyIn(some.key)
		d.Name = "messages of event " + string(d.Key)
	case string(bucketAudit):
		d.What, d.Name = "entry", fmt.Sprintf("entry %d of OUTCOMES", binary.BigEndian.Uint64(some.key))
	case string(bucketLetters):
		d.What, d.Key, d.Name = "letter", event.Key(some.key), "dead letter "+named(some.value, string(some.key))
		d.Letter = letterSequence(some.value)
	case string(bucketHours):
		c := hourCount(some.key, some.value)
		d.What, d.Name = "count", fmt.Sprintf("events of tenant %s with outcome %q in the hour of %s", c.Tenant, c.Outcome, c.Hour.Format("2006-01-02 15:04"))
	default:
		d.What, d.Name = "count", fmt.Sprintf("count of %s", some.key)
	}
	d.Ours, d.Theirs = d.words(ours, theirs)
	return d
}

// named returns an id and a tenant for people, and the key for machines.
func named(value []byte, key string) string {
	var of struct {
		EventID string `json:"event_id"`
		Tenant  string `json:"tenant"`
	}
	_ = json.Unmarshal(value, &of) // what cannot be read has no name
	if of.EventID == "" {
		return fmt.Sprintf("%s of tenant %q", key, of.Tenant)
	}
	return fmt.Sprintf("%s (id %q, tenant %q)", key, of.EventID, of.Tenant)
}

func letterSequence(value []byte) uint64 {
	var l Letter
	_ = json.Unmarshal(value, &l)
	return l.Sequence
}

// words says how two contents differ, of a row by its fields.
func (d Difference) words(ours, theirs content) (string, string) {
	if d.What == "count" {
		return number(ours), number(theirs)
	}
	a, b := fields(ours.value), fields(theirs.value)
	if a == nil || b == nil {
		return shown(ours), shown(theirs)
	}
	var left, right []string
	for _, name := range slices.Sorted(maps.Keys(union(a, b))) {
		if !bytes.Equal(a[name], b[name]) {
			left, right = append(left, field(name, a)), append(right, field(name, b))
		}
	}
	return strings.Join(left, ", "), strings.Join(right, ", ")
}

// shownMax is how much is shown of what has no fields to compare.
const shownMax = 200

func shown(c content) string {
	if of := fields(c.value); bytes.Equal(c.bucket, bucketLedger) && of != nil {
		var about []string
		for _, name := range []string{"type", "phase", "outcome", "record_sequence"} {
			if _, there := of[name]; there {
				about = append(about, field(name, of))
			}
		}
		return strings.Join(about, ", ")
	}
	if len(c.value) > shownMax {
		return fmt.Sprintf("%.*s… (%d bytes)", shownMax, c.value, len(c.value))
	}
	return string(c.value)
}

func number(c content) string {
	if c.key == nil {
		return "0"
	}
	return fmt.Sprint(countIn(c.value))
}

// fields returns the members of a JSON object, nil if it is none.
func fields(value []byte) map[string]json.RawMessage {
	var of map[string]json.RawMessage
	_ = json.Unmarshal(value, &of)
	return of
}

func union(a, b map[string]json.RawMessage) map[string]json.RawMessage {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

func field(name string, of map[string]json.RawMessage) string {
	value, there := of[name]
	if !there {
		return "no " + name
	}
	text := strings.Trim(string(value), `"`)
	if len(text) > shownMax {
		text = text[:shownMax] + "…"
	}
	return name + "=" + text
}
