package event_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/invopop/jsonschema"
	validator "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"tidings/streams/event"
)

const later = " Later versions may add to these."

// schemas are the documents that docs/<name>.schema.json holds.
func schemas(t *testing.T) map[string]*jsonschema.Schema {
	t.Helper()
	g := newGenerator(t)
	record := g.document("record", event.Record{})
	g.addFacts(record.Definitions)

	duplicate := g.document("duplicate", event.Duplicate{})
	property(t, duplicate, "kind").Const = event.KindDuplicate

	replay := g.document("replay", event.Replay{})
	property(t, replay, "kind").Const = event.KindReplay

	operation := g.document("operation", event.Operation{})
	property(t, operation, "kind").Const = event.KindOperation

	skip := g.document("skip", event.Skip{})
	property(t, skip, "kind").Const = event.KindSkip

	letter := g.document("letter", event.Letter{})
	data := property(t, letter, "data_base64")
	data.Type, data.AnyOf = "", []*jsonschema.Schema{{Type: "string"}, {Type: "null"}} // null: there was no body
	return map[string]*jsonschema.Schema{"record": record, "duplicate": duplicate, "operation": operation, "replay": replay, "skip": skip, "letter": letter}
}

type generator struct {
	t         *testing.T
	constants map[string][]constant
	reflector *jsonschema.Reflector
	named     map[string]*jsonschema.Schema // definitions that this test writes, as far as they are used
}

func newGenerator(t *testing.T) *generator {
	t.Helper()
	g := &generator{t: t, constants: constants(t), named: map[string]*jsonschema.Schema{}}
	g.reflector = &jsonschema.Reflector{
		Anonymous: true, ExpandedStruct: true, AllowAdditionalProperties: true, Mapper: g.mapType,
	}
	require.NoError(t, g.reflector.AddGoComments("tidings/streams/event", ".", jsonschema.WithFullComment()))
	for name, comment := range g.reflector.CommentMap {
		g.reflector.CommentMap[name] = oneLine(comment)
	}
	return g
}

// document returns the schema of one JSON document.
func (g *generator) document(name string, v any) *jsonschema.Schema {
	g.named = map[string]*jsonschema.Schema{}
	s := g.reflector.Reflect(v)
	s.ID = jsonschema.ID("urn:tidings:" + name + ":1")
	s.Title = "Tidings " + name
	for name, def := range g.named {
		s.Definitions[name] = def
	}
	return s
}

// mapType gives the types with a JSON form of their own a definition.
func (g *generator) mapType(t reflect.Type) *jsonschema.Schema {
	name := t.Name()
	switch {
	case t == reflect.TypeFor[event.Facts]():
		return &jsonschema.Schema{Type: "array", Items: ref("Fact"), Description: "What happened, in order."}
	case t == reflect.TypeFor[event.Key]():
		g.named[name] = &jsonschema.Schema{Type: "string", Pattern: "^[A-Za-z0-9_-]{22}$", Description: g.comment(name)}
	case t.Kind() == reflect.String && len(g.constants[name]) > 0:
		g.named[name] = g.openEnum(name)
	default:
		return nil
	}
	return ref(name)
}

// openEnum lists the known values of a type. A reader must bear others.
func (g *generator) openEnum(name string) *jsonschema.Schema {
	s := &jsonschema.Schema{Description: g.comment(name) + later}
	for _, c := range g.constants[name] {
		s.AnyOf = append(s.AnyOf, &jsonschema.Schema{Const: c.value, Description: c.doc})
	}
	s.AnyOf = append(s.AnyOf, &jsonschema.Schema{Type: "string", Description: "a value of a later version"})
	return s
}

// addFacts defines Fact as one of all facts, or of a kind that is not known yet.
func (g *generator) addFacts(defs jsonschema.Definitions) {
	fact := &jsonschema.Schema{
		Type:        "object",
		Description: "One thing that happened to the event; its member fact says which." + later,
	}
	var kinds []any
	for _, f := range event.FactKinds() {
		name := reflect.TypeOf(f).Name()
		g.define(defs, name, f)
		fact.OneOf = append(fact.OneOf, ref(name))
		kinds = append(kinds, f.FactKind())
	}
	fact.OneOf = append(fact.OneOf, ref("UnknownFact"))
	defs["Fact"] = fact
	defs["UnknownFact"] = withFirst(&jsonschema.Schema{
		Type: "object", Properties: jsonschema.NewProperties(),
		Description: "A fact of a kind that this version does not know. Readers skip it: State tells what follows.",
	}, "fact", &jsonschema.Schema{Type: "string", Not: &jsonschema.Schema{Enum: kinds}})
}

func (g *generator) define(defs jsonschema.Definitions, name string, f event.Fact) {
	s := g.document(name, f)
	for name, def := range s.Definitions {
		defs[name] = def
	}
	s.Version, s.ID, s.Title, s.Definitions = "", "", "", nil
	defs[name] = withFirst(s, "fact", &jsonschema.Schema{Const: f.FactKind()})
}

func (g *generator) comment(typ string) string {
	return g.reflector.CommentMap["tidings/streams/event."+typ]
}

func ref(name string) *jsonschema.Schema { return &jsonschema.Schema{Ref: "#/$defs/" + name} }

// withFirst puts a required property before all others.
func withFirst(s *jsonschema.Schema, name string, first *jsonschema.Schema) *jsonschema.Schema {
	properties := jsonschema.NewProperties()
	properties.Set(name, first)
	for p := s.Properties.Oldest(); p != nil; p = p.Next() {
		properties.Set(p.Key, p.Value)
	}
	s.Properties, s.Required = properties, append([]string{name}, s.Required...)
	return s
}

func property(t *testing.T, s *jsonschema.Schema, name string) *jsonschema.Schema {
	t.Helper()
	p, found := s.Properties.Get(name)
	require.True(t, found, name)
	return p
}

func schemaFile(name string) string {
	return filepath.Join("..", "..", "docs", name+".schema.json")
}

func TestSchemasInDocsAreThoseOfTheTypes(t *testing.T) {
	for name, s := range schemas(t) {
		t.Run(name, func(t *testing.T) { compareWithFile(t, schemaFile(name), plain(t, s)+"\n") })
	}
}

// plain is encode with < and > as they are.
func plain(t *testing.T, v any) string {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	require.NoError(t, enc.Encode(v))
	return strings.TrimSpace(b.String())
}

// compile reads the schema as a reader of docs/ would.
func compile(t fataler, name string) *validator.Schema {
	t.Helper()
	data, err := os.ReadFile(schemaFile(name))
	require.NoError(t, err)
	doc, err := validator.UnmarshalJSON(bytes.NewReader(data))
	require.NoError(t, err)
	c := validator.NewCompiler()
	c.AssertFormat()
	c.AssertContent()
	require.NoError(t, c.AddResource(name, doc))
	s, err := c.Compile(name)
	require.NoError(t, err)
	return s
}

func validate(t fataler, s *validator.Schema, text string) error {
	t.Helper()
	doc, err := validator.UnmarshalJSON(strings.NewReader(text))
	require.NoError(t, err)
	return s.Validate(doc)
}

func TestGoldenFilesFollowTheirSchema(t *testing.T) {
	for name, g := range goldens() {
		if g.schema == "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(goldenFile(name))
			require.NoError(t, err)
			require.NoError(t, validate(t, compile(t, g.schema), string(text)))
		})
	}
	t.Run("every fact, in a record", func(t *testing.T) {
		r := event.NewRecord(orderRef(), event.State{}, t0, sampleFacts()...)
		require.NoError(t, validate(t, compile(t, "record"), encode(t, r)))
	})
	t.Run("a letter without a body", func(t *testing.T) {
		l := sampleDeliveryLetter()
		l.Data = nil
		require.NoError(t, validate(t, compile(t, "letter"), encode(t, l)))
	})
}

func TestSchemasAcceptWhatLaterVersionsAdd(t *testing.T) {
	record := compile(t, "record")
	text := encode(t, sampleRecords()[1])
	for name, edit := range map[string][2]string{
		"a member of the record":  {`"schema": 1`, `"schema": 2, "new": {"a": [1]}`},
		"a member of the event":   {`"tenant": "acme"`, `"tenant": "acme", "new": 1`},
		"a member of a fact":      {`"fact": "planned"`, `"fact": "planned", "new": 1`},
		"a member of the state":   {`"phase": "waiting"`, `"phase": "waiting", "new": 1`},
		"a member of a message":   {`"on_unknown": "hold"`, `"on_unknown": "hold", "new": 1`},
		"a kind of record":        {`"kind": "waiting"`, `"kind": "sleeping"`},
		"a kind of fact":          {`"fact": "waiting"`, `"fact": "sleeping"`},
		"a phase":                 {`"phase": "waiting"`, `"phase": "sleeping"`},
		"a result of a try":       {`"result": "transient"`, `"result": "puzzling"`},
		"a policy for the unkown": {`"on_unknown": "hold"`, `"on_unknown": "ask"`},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, validate(t, record, replace(t, text, edit)))
		})
	}
}

func TestSchemasRefuseWhatIsBroken(t *testing.T) {
	record := encode(t, sampleRecords()[1])
	cases := map[string]struct {
		schema, text string
		edit         [2]string
	}{
		"a record without an id":          {"record", record, [2]string{`"id":`, `"ID":`}},
		"a key that is no subject token":  {"record", record, [2]string{`"key": "`, `"key": "a.b`}},
		"a time that is none":             {"record", record, [2]string{`"due": "`, `"due": "on `}},
		"a fact without its kind":         {"record", record, [2]string{`"fact": "waiting"`, `"Fact": "waiting"`}},
		"a known fact without its fields": {"record", record, [2]string{`"fact": "waiting"`, `"fact": "claimed"`}},
		"a state that is text":            {"record", record, [2]string{`"state": {`, `"state": "x", "was": {`}},
		"a message without its state":     {"record", record, [2]string{`"state": "pending"`, `"State": "pending"`}},
		"a duplicate of another kind":     {"duplicate", encode(t, sampleDuplicate()), [2]string{`"kind": "duplicate"`, `"kind": "late"`}},
		"an operation of nobody":          {"operation", encode(t, sampleOperation()), [2]string{`"operator":`, `"Operator":`}},
		"a letter without a cause":        {"letter", encode(t, sampleEventLetter()), [2]string{`"cause":`, `"Cause":`}},
		"a letter whose data is no text":  {"letter", encode(t, sampleEventLetter()), [2]string{`"data_base64": "`, `"data_base64": 7, "was": "`}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			require.Error(t, validate(t, compile(t, c.schema), replace(t, c.text, c.edit)))
		})
	}
}

func replace(t *testing.T, text string, edit [2]string) string {
	t.Helper()
	require.Contains(t, text, edit[0])
	return strings.Replace(text, edit[0], edit[1], 1)
}
