package plan

import (
	"errors"
	"strings"
)

// pattern matches types of events.
type pattern struct {
	segments []string
	rest     bool // ends with **: one or more segments follow
}

func parsePattern(s string) (pattern, error) {
	if s == "" {
		return pattern{}, errors.New("is empty: give a type of event, such as order.placed, order.* or **")
	}
	p := pattern{segments: strings.Split(s, ".")}
	if last := len(p.segments) - 1; p.segments[last] == "**" {
		p.segments, p.rest = p.segments[:last], true
	}
	for _, segment := range p.segments {
		if segment == "**" {
			return pattern{}, errors.New("** stands only at the end")
		}
		if segment != "*" && strings.Contains(segment, "*") {
			return pattern{}, errors.New("* stands for a whole segment between dots")
		}
	}
	return p, nil
}

func (p pattern) matches(typ string) bool {
	more := true
	for _, want := range p.segments {
		if !more {
			return false
		}
		var segment string
		segment, typ, more = strings.Cut(typ, ".")
		if want != "*" && want != segment {
			return false
		}
	}
	return more == p.rest
}
