package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Print writes the configuration in force as YAML, without its secrets. Behind each
// value stands where it comes from: default, the file with its line, or the variable.
func (c Config) Print(w io.Writer) error {
	text, ends, err := c.encode()
	if err != nil {
		return fmt.Errorf("print the configuration: %w", err)
	}
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if key, ok := ends[i+1]; ok {
			line += "  # " + c.source(key)
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

// Explained is the configuration in force for programs, without its secrets.
type Explained struct {
	Config  json.RawMessage   `json:"config"`
	Sources map[string]string `json:"sources"` // of each value, by its key
}

// Explain returns the configuration in force and where each value comes from.
func (c Config) Explain() (Explained, error) {
	text, ends, err := c.encode()
	if err != nil {
		return Explained{}, fmt.Errorf("print the configuration: %w", err)
	}
	out := Explained{Sources: map[string]string{}}
	if out.Config, err = yaml.YAMLToJSON([]byte(text)); err != nil {
		return Explained{}, fmt.Errorf("print the configuration: %w", err)
	}
	for _, key := range ends {
		out.Sources[key] = c.source(key)
	}
	return out, nil
}

// encode returns the configuration as YAML, and the keys of values by their lines.
func (c Config) encode() (text string, ends map[int]string, err error) {
	var b bytes.Buffer
	if err := yaml.NewEncoder(&b, yaml.IndentSequence(true)).Encode(c); err != nil {
		return "", nil, err
	}
	file, err := parser.ParseBytes(b.Bytes(), 0)
	if err != nil {
		return "", nil, err
	}
	ends = map[int]string{}
	eachValue("", file.Docs[0].Body, func(key string, line int) { ends[line] = key })
	return b.String(), ends, nil
}

// eachValue calls visit for everything below a node that is no keys with values, with
// the line where it begins.
func eachValue(key string, node ast.Node, visit func(key string, line int)) {
	switch n := node.(type) {
	case *ast.MappingNode:
		if len(n.Values) == 0 {
			visit(key, n.GetToken().Position.Line)
		}
		for _, entry := range n.Values {
			eachValue(key, entry, visit)
		}
	case *ast.MappingValueNode:
		of := n.Key.GetToken()
		if key != "" {
			key += "."
		}
		key += of.Value
		switch value := n.Value.(type) {
		case *ast.MappingNode, *ast.MappingValueNode:
			eachValue(key, value, visit)
		case *ast.SequenceNode:
			if value.IsFlowStyle || len(value.Values) == 0 {
				visit(key, of.Position.Line)
			}
			eachValue(key, value, visit)
		default:
			visit(key, of.Position.Line)
		}
	case *ast.SequenceNode:
		if n.IsFlowStyle {
			return
		}
		for i, item := range n.Values {
			element := fmt.Sprintf("%s[%d]", key, i)
			switch item.(type) {
			case *ast.MappingNode, *ast.MappingValueNode, *ast.SequenceNode:
				eachValue(element, item, visit)
			default:
				visit(element, item.GetToken().Position.Line)
			}
		}
	}
}

// source says where the value of a key comes from.
func (c Config) source(key string) string {
	for _, k := range []string{key, key + "_file"} {
		if by, ok := c.set[k]; ok {
			return by
		}
	}
	if c.where == nil {
		return "default"
	}
	for _, k := range []string{key, key + "_file"} {
		if at, ok := c.where.lines[k]; ok {
			return fmt.Sprintf("%s:%d", c.where.file, at.line)
		}
	}
	for above := key; above != ""; {
		above = above[:max(0, strings.LastIndexAny(above, ".["))]
		if by, ok := c.set[above]; ok {
			return by
		}
	}
	if strings.Contains(key, ".providers[") || strings.HasPrefix(key, "tenants.") && strings.Contains(key, ".channels.") {
		return "of the channel"
	}
	return "default"
}
