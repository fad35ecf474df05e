package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
)

// Rate is how often something is done in a time, as it was written: 50/s, 300/m or
// 1000/h. Empty is no bound.
type Rate string

// PerSecond returns the rate in calls a second; 0 is no bound.
func (r Rate) PerSecond() float64 {
	n, err := perSecond(string(r))
	if err != nil {
		return 0
	}
	return n
}

func perSecond(text string) (float64, error) {
	count, unit, _ := strings.Cut(text, "/")
	seconds, ok := map[string]float64{"s": 1, "m": 60, "h": 3600}[unit]
	n, err := strconv.ParseFloat(count, 64)
	if !ok || err != nil || !(n > 0) || math.IsInf(n, 0) {
		return 0, fmt.Errorf("%q is not a rate: write it like 50/s, 300/m or 1000/h", text)
	}
	return n / seconds, nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *Rate) UnmarshalText(text []byte) error {
	*r = Rate(text)
	if len(text) == 0 {
		return nil
	}
	_, err := perSecond(string(text))
	return err
}

// UnmarshalYAML takes a text such as 50/s.
func (r *Rate) UnmarshalYAML(node ast.Node) error {
	text, err := textOf(node)
	if err == nil {
		err = r.UnmarshalText([]byte(text))
	}
	if err != nil {
		return &yaml.SyntaxError{Message: "want a rate such as 50/s, 300/m or 1000/h", Token: node.GetToken()}
	}
	return nil
}
