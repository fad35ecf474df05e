package config

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// place is where in a file something stands, from 1.
type place struct{ line, column int }

func placeOf(t *token.Token) place { return place{t.Position.Line, t.Position.Column} }

// places are the lines on which the keys of a file stand. It holds no value,
// which may be a secret.
type places struct {
	file  string
	sum   [sha256.Size]byte // of the file as it was read
	lines map[string]place  // by key, such as routes[2].recipients
}

func newPlaces(file string, data []byte, body ast.Node) *places {
	p := &places{file: file, sum: sha256.Sum256(data), lines: map[string]place{}}
	p.walk("", body)
	return p
}

func (p *places) walk(key string, node ast.Node) {
	switch n := node.(type) {
	case *ast.AnchorNode:
		p.walk(key, n.Value)
	case *ast.MappingNode:
		for _, entry := range n.Values {
			p.walk(key, entry)
		}
	case *ast.MappingValueNode:
		name := n.Key.GetToken()
		if key != "" {
			key += "."
		}
		p.lines[key+name.Value] = placeOf(name)
		p.walk(key+name.Value, n.Value)
	case *ast.SequenceNode:
		for i, item := range n.Values {
			element := fmt.Sprintf("%s[%d]", key, i)
			p.lines[element] = placeOf(item.GetToken())
			p.walk(element, item)
		}
	}
}

// of returns file, line and column of a key; of one that is missing in an entry of a
// list, in a channel or in a tenant, those of the entry. It is empty for what the file does
// not say.
func (p *places) of(key string) (where string, column int) {
	if p == nil {
		return "", 0
	}
	at, found := p.lines[key]
	for !found {
		key = key[:max(0, strings.LastIndexByte(key, '.'))]
		if !strings.HasPrefix(key, "channels.") && !strings.HasPrefix(key, "tenants.") && !strings.Contains(key, "]") {
			return "", 0
		}
		at, found = p.lines[key]
	}
	return fmt.Sprintf("%s:%d", p.file, at.line), at.column
}

// forget drops a key that a variable or a flag has set, and the one that it is
// a file of: what the file says there does not count.
func (p *places) forget(key string) {
	if p == nil {
		return
	}
	whole := strings.TrimSuffix(key, "_file")
	maps.DeleteFunc(p.lines, func(k string, _ place) bool {
		return k == key || k == whole || strings.HasPrefix(k, key+"[") // with the elements of a list
	})
}

// Outdated returns the path of the configuration's file if that has other contents by
// now than those that were read, or is gone. It reads the file.
func (c Config) Outdated() string {
	if c.where == nil {
		return ""
	}
	if data, err := readFile(c.where.file); err == nil && sha256.Sum256(data) == c.where.sum {
		return ""
	}
	return c.where.file
}
