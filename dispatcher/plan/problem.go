package plan

import (
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing that is wrong with rules or templates.
type Problem struct {
	Key   string // in the rules, such as "routes[2].recipients"; empty for a template
	Route string // the route's name, if it is about a route
	File  string // the template's file, with its folder; empty for a key
	// Line and Column count from 1 within the file, or within the expression that
	// the key holds. 0 means the whole of it.
	Line, Column int
	Text         string // what is wrong and what to do

	template string // the template of a file that it is in
}

// String names the place and the problem in one line.
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.File + p.Key)
	if p.Route != "" {
		fmt.Fprintf(&b, " (route %q)", p.Route)
	}
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d", p.Line)
	}
	if p.Column > 0 {
		fmt.Fprintf(&b, ":%d", p.Column)
	}
	return b.String() + ": " + p.Text
}

// Problems are everything that is wrong, and an error.
type Problems []Problem

// Error lists the problems, one a line.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// unique leaves out what was said before, such as of a file that several share.
func (ps Problems) unique() Problems {
	var out Problems
	for _, p := range ps {
		if !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// err returns nil if there is no problem.
func (ps Problems) err() error {
	if len(ps) == 0 {
		return nil
	}
	return slices.Clip(ps)
}
