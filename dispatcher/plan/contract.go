package plan

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"tidings/streams/event"
)

// contract is what the payloads of a type of event must be like: a JSON Schema, of
// draft 2020-12 unless it names another (https://json-schema.org/draft/2020-12).
type contract struct {
	pattern pattern
	event   string // the pattern as configured
	file    string
	schema  *jsonschema.Schema
}

// contracts compiles the contracts of a section, each file once.
func (c *compiler) contracts(key string, files map[string]string) []contract {
	var all []contract
	for _, of := range slices.Sorted(maps.Keys(files)) {
		at := key + "." + of
		p, err := parsePattern(of)
		if err != nil {
			c.add(Problem{Key: at, Text: err.Error()})
			continue
		}
		schema, err := c.schema(files[of])
		if err != nil {
			c.add(Problem{Key: at, Text: fmt.Sprintf("%s: %v", files[of], err)})
			continue
		}
		all = append(all, contract{p, of, files[of], schema})
	}
	return all
}

// schema reads a schema, and notes what is in it for the revision.
func (c *compiler) schema(file string) (*jsonschema.Schema, error) {
	if known := c.schemas[file]; known != nil {
		return known, nil
	}
	if c.o.Read == nil {
		return nil, errors.New("contracts are not read here")
	}
	data, err := c.o.Read(file)
	if err != nil {
		return nil, errors.New(reason(err))
	}
	schema, err := compileSchema(data)
	if err == nil {
		c.schemas[file], c.contents[file] = schema, event.Digest(data)
	}
	return schema, err
}

// schemaURL is where a schema is, as far as it knows: it refers to nothing else.
const schemaURL = "contract:///schema.json"

func compileSchema(data []byte) (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("it is no JSON: %w", err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	c.UseLoader(alone{})
	if err := c.AddResource(schemaURL, doc); err != nil {
		return nil, fmt.Errorf("it is no JSON Schema: %w", err)
	}
	schema, err := c.Compile(schemaURL)
	if outside, ok := errors.AsType[*jsonschema.LoadURLError](err); ok {
		return nil, outside.Err
	}
	if err != nil {
		return nil, fmt.Errorf("it is no JSON Schema: %s", strings.ReplaceAll(strings.ReplaceAll(err.Error(), schemaURL, ""), "\n", "; "))
	}
	return schema, nil
}

// alone loads nothing: what a contract says must not depend on a network.
type alone struct{}

// Load implements jsonschema.URLLoader.
func (alone) Load(url string) (any, error) {
	return nil, fmt.Errorf("it refers to %s: put that into its own $defs, nothing is fetched", strings.TrimPrefix(url, "contract:///"))
}

// keeps returns nil if an event is as all contracts for its type say, else an *[Error].
func (r *ruleset) keeps(e event.Envelope) error {
	for _, c := range r.contracts {
		if !c.pattern.matches(e.Type) {
			continue
		}
		if broken := c.broken(e); broken != "" {
			return &Error{event.CauseContractViolated, fmt.Sprintf("the contract for %s (%s): %s", c.event, c.file, broken)}
		}
	}
	return nil
}

// broken says where an event is not as the contract says, and what is wanted there,
// never what is there. It is empty for one that is.
func (c contract) broken(e event.Envelope) string {
	value, ok := decodeJSON(e.Data)
	if !ok {
		return "the payload is no JSON"
	}
	err := c.schema.Validate(value)
	if err == nil {
		return ""
	}
	violation, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return "the payload cannot be checked"
	}
	found := complaints(violation)
	slices.Sort(found) // the members of an object come in any order
	return strings.Join(found[:min(len(found), maxViolations)], "; ")
}

// maxViolations is how many places of one event are named.
const maxViolations = 5

// complaints are about the violations that have no cause of their own.
func complaints(v *jsonschema.ValidationError) []string {
	if len(v.Causes) == 0 {
		return []string{placeOf(v) + " " + complaint(v.ErrorKind)}
	}
	var all []string
	for _, cause := range v.Causes {
		all = append(all, complaints(cause)...)
	}
	return all
}

// placeOf is the JSON Pointer (RFC 6901) of a value, without names that may be about a
// person.
func placeOf(v *jsonschema.ValidationError) string {
	if len(v.InstanceLocation) == 0 {
		return "the payload"
	}
	return cut("/"+strings.Join(masked(v.InstanceLocation), "/"), maxSaid)
}

// complaint says what the schema wants of a value.
func complaint(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Required:
		return "lacks " + strings.Join(k.Missing, ", ")
	case *kind.Type:
		return fmt.Sprintf("is of type %s, want %s", k.Got, strings.Join(k.Want, " or "))
	case *kind.Format:
		return "is no " + k.Want
	case *kind.Enum, *kind.Const:
		return "is none of the values that are allowed"
	case *kind.AdditionalProperties:
		return fmt.Sprintf("has %d members that are not allowed", len(k.Properties))
	}
	if path := k.KeywordPath(); len(path) > 0 {
		return "is not what the schema says by " + path[len(path)-1]
	}
	return "is not what the schema says"
}
