package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/goccy/go-yaml/ast"
)

// kindInWords names what a key wants for the person who writes the file.
func kindInWords(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64, reflect.Uint, reflect.Uint64:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.String:
		return "a text"
	case reflect.Slice:
		return "a list"
	case reflect.Map, reflect.Struct:
		return "keys with values"
	default:
		return "something else"
	}
}

func nodeInWords(t ast.NodeType) string {
	switch t {
	case ast.MappingType, ast.MappingValueType:
		return "keys with values"
	case ast.SequenceType:
		return "a list"
	case ast.StringType, ast.LiteralType:
		return "a text"
	case ast.IntegerType, ast.FloatType:
		return "a number"
	case ast.BoolType:
		return "true or false"
	case ast.NullType:
		return "nothing"
	default:
		return "something else"
	}
}

// didYouMean returns a hint for a name that is close to a known one, or nothing.
func didYouMean(name string, known []string) string {
	best, limit := "", min(3, len(name)/3+1)
	for _, k := range known {
		if d := distance(name, k); d < limit {
			best, limit = k, d
		}
	}
	if best == "" || best == name { // a key of another place is no hint
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", best)
}

// distance returns how many letters must be put in, taken out or changed to
// make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}

// knownKeys lists the keys of a file, whatever section they belong to.
func knownKeys() []string {
	keys := map[string]bool{}
	for _, form := range []any{Config{}, emailForm{}, webhookForm{}} {
		nameKeys(keys, reflect.TypeOf(form))
	}
	return slices.Sorted(maps.Keys(keys))
}

func nameKeys(keys map[string]bool, t reflect.Type) {
	if t == reflect.TypeFor[Override]() { // has those of its channel
		return
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Map, reflect.Pointer:
		nameKeys(keys, t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if name, _ := yamlName(t.Field(i)); name != "" && name != "-" {
				keys[name] = true
			}
			nameKeys(keys, t.Field(i).Type)
		}
	}
}
