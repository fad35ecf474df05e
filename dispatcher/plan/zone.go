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
