package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Report is what there is to say of a configuration before it is put in force.
type Report struct {
	Valid    bool     `json:"valid"`
	Problems Problems `json:"problems"`
	// Warnings are what is allowed but hardly meant.
	Warnings []string `json:"warnings"`
	// Revision is that of which claims will tell, if it is valid.
	Revision string `json:"revision,omitempty"`
	Routes   int    `json:"routes"`
	Channels int    `json:"channels"`
	Tenants  int    `json:"tenants"`
}

// Check looks at everything that can be looked at without starting anything: keys and
// values, templates, contracts, expressions, secrets in files, senders.
func (c Config) Check() Report {
	r := Report{
		Problems: Problems{}, Warnings: []string{},
		Routes: len(c.Rules.Routes), Channels: len(c.Channels), Tenants: len(c.Tenants),
	}
	err := c.Validate()
	if err == nil {
		p, planErr := c.Planner([]byte("any"))
		if err = planErr; err == nil {
			r.Valid, r.Revision = true, p.Revision()
			r.Warnings = append(r.Warnings, p.Warnings()...)
		}
	}
	r.fail(err)
	if len(c.Rules.Routes) == 0 && r.Valid {
		r.Warnings = append(r.Warnings, "there are no routes: every event ends with the outcome no_template")
	}
	for _, name := range c.unused() {
		r.Warnings = append(r.Warnings, fmt.Sprintf("channel %q is used by no route", name))
	}
	return r
}

// Unreadable returns the report about a configuration that could not be loaded.
func Unreadable(err error) Report {
	r := Report{Problems: Problems{}, Warnings: []string{}}
	r.fail(err)
	return r
}

func (r *Report) fail(err error) {
	switch problems, ok := errors.AsType[Problems](err); {
	case err == nil:
	case ok:
		r.Problems = problems
	default:
		r.Problems = Problems{{Message: err.Error()}}
	}
}

// unused returns the channels that no route names, sorted.
func (c Config) unused() []string {
	used := map[string]bool{}
	for _, r := range c.Rules.Routes {
		used[r.Channel] = true
	}
	for _, t := range c.Tenants {
		if t == nil {
			continue
		}
		for _, r := range t.Routes {
			used[r.Channel] = true
		}
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(c.Channels)) {
		if !used[name] {
			names = append(names, name)
		}
	}
	return names
}
