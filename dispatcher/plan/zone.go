package plan

import (
	"strings"
	"sync"
	"time"
)

// zones are the time zones that were asked for so far. There are some 600 names.
type zones struct{ known sync.Map }

// of returns a zone by its name in the IANA database. Local is none: it is another one
// on every machine.
func (z *zones) of(name string) (*time.Location, bool) {
	name = strings.TrimSpace(name)
	if name == "" || name == "Local" {
		return nil, false
	}
	if known, ok := z.known.Load(name); ok {
		return known.(*time.Location), true
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, false
	}
	z.known.Store(name, zone)
	return zone, true
}

// first returns the first of the zones that there is, or the last resort.
func (z *zones) first(fallback *time.Location, names ...string) *time.Location {
	for _, name := range names {
		if zone, ok := z.of(name); ok {
			return zone
		}
	}
	return fallback
}

// in returns a time, or a text that is one, as the clocks of a zone show it.
func (z *zones) in(name string, value any) (time.Time, error) {
	zone, ok := z.of(name)
	if !ok {
		return time.Time{}, wrong("in: want a time zone such as Europe/Berlin")
	}
	t, err := instant("in", value)
	return t.In(zone), err
}

// local writes a time as the clocks of a zone show it, to the minute, and the zone: of the
// hour that comes twice in autumn, that tells one from the other.
func (z *zones) local(name string, value any) (string, error) {
	t, err := z.in(name, value)
	return t.Format("2006-01-02 15:04 MST"), err
}
