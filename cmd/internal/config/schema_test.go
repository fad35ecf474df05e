package config

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/invopop/jsonschema"
	validator "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"tidings/streams/event"
)

var update = flag.Bool("update", false, "write docs/config.schema.json")

var schemaFile = filepath.Join("..", "..", "..", "docs", "config.schema.json")

// forms are the sections of channels by kind.
func forms() map[string]any {
	return map[string]any{KindEmail: emailForm{}, KindWebhook: webhookForm{}}
}

func TestEveryKindHasAForm(t *testing.T) {
	for kind, form := range forms() {
		got, _ := (&Channel{Kind: kind}).form()
		require.Equal(t, reflect.TypeOf(form), reflect.TypeOf(got).Elem())
	}
}

// schemaMaker makes the schema of a file from the types that it is read into.
type schemaMaker struct {
	*jsonschema.Reflector
	defs jsonschema.Definitions
}

func newSchemaMaker(t *testing.T) *schemaMaker {
	t.Helper()
	m := &schemaMaker{defs: jsonschema.Definitions{}}
	m.Reflector = &jsonschema.Reflector{
		Anonymous: true, ExpandedStruct: true, FieldNameTag: "yaml", RequiredFromJSONSchemaTags: true, Mapper: m.special,
	}
	for _, dir := range []string{".", "../../../dispatcher/plan", "../../../bridge", "../../../streams/event"} {
		require.NoError(t, m.AddGoComments("tidings/cmd/internal/config", dir, jsonschema.WithFullComment()))
	}
	for name, comment := range m.CommentMap {
		m.CommentMap[name] = strings.Join(strings.Fields(comment), " ")
	}
	return m
}

func text(description string) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Description: description}
}

func pattern(expression, example string) *jsonschema.Schema {
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "string", Pattern: expression}, {Const: 0}}, Examples: []any{example}}
}

// special returns the schemas of what is not written as its type is.
func (m *schemaMaker) special(t reflect.Type) *jsonschema.Schema {
	ref := func(name string) *jsonschema.Schema { return &jsonschema.Schema{Ref: "#/$defs/" + name} }
	switch t {
	case reflect.TypeFor[Duration]():
		return pattern(`^-?([0-9.]+(ns|us|µs|ms|s|m|h))+$`, "5m")
	case reflect.TypeFor[Size]():
		return &jsonschema.Schema{Type: "string", Pattern: `(?i)^[0-9.]+ *([kmgt]i?)?b?$`, Examples: []any{"8GiB"}}
	case reflect.TypeFor[Rate]():
		return &jsonschema.Schema{Type: "string", Pattern: `^[0-9.]+/[smh]$`, Examples: []any{"50/s"}}
	case reflect.TypeFor[Secret](), reflect.TypeFor[URL]():
		return text("")
	case reflect.TypeFor[event.OnUnknown]():
		return &jsonschema.Schema{Type: "string", Enum: []any{event.Resend, event.Hold}}
	case reflect.TypeFor[Channel]():
		return ref("Channel")
	case reflect.TypeFor[Override]():
		return ref("Override")
	case reflect.TypeFor[[]any](): // recipients
		return &jsonschema.Schema{Type: "array", Items: ref("Recipient")}
	}
	return nil
}

// document returns the whole schema.
func (m *schemaMaker) document(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc := m.Reflect(Config{})
	doc.ID, doc.Title, doc.Description = "urn:tidings:config:1", "Configuration of Tidings", "One file, which tidings serve --config reads."
	channel := &jsonschema.Schema{Description: "One way to send.", Type: "object", Required: []string{"kind"}}
	override := &jsonschema.Schema{Description: "Keys that take the place of those of the channel."}
	for _, kind := range []string{KindEmail, KindWebhook} {
		name := strings.ToUpper(kind[:1]) + kind[1:] + "Channel"
		form := m.Reflect(forms()[kind])
		for of, def := range form.Definitions {
			doc.Definitions[of] = def
		}
		form.Version, form.ID, form.Definitions = "", "", nil
		of, found := form.Properties.Get("kind")
		require.True(t, found)
		*of = jsonschema.Schema{Const: kind}
		form.Required = []string{"kind"}
		channel.OneOf = append(channel.OneOf, &jsonschema.Schema{Ref: "#/$defs/" + name})
		doc.Definitions[name] = form

		loose := *form
		loose.Required, loose.Properties = nil, jsonschema.NewProperties()
		loose.Properties.Set("name", text("Of a provider."))
		for p := form.Properties.Oldest(); p != nil; p = p.Next() {
			loose.Properties.Set(p.Key, p.Value)
		}
		doc.Definitions[name+"Override"] = &loose
		override.AnyOf = append(override.AnyOf, &jsonschema.Schema{Ref: "#/$defs/" + name + "Override"})
	}
	doc.Definitions["Channel"], doc.Definitions["Override"] = channel, override
	recipient := jsonschema.NewProperties()
	for _, key := range []string{"address", "locale", "timezone", "name"} {
		recipient.Set(key, text(""))
	}
	doc.Definitions["Recipient"] = &jsonschema.Schema{
		Description: "An address, or an object with one.",
		OneOf:       []*jsonschema.Schema{{Type: "string"}, {Type: "object", Properties: recipient, Required: []string{"address"}}},
	}
	for _, name := range []string{"Route"} {
		if def := doc.Definitions[name]; def != nil {
			def.Required = []string{"name", "event", "channel"}
		}
	}
	return doc
}

func TestTheSchemaInDocsIsThatOfTheTypes(t *testing.T) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	require.NoError(t, enc.Encode(newSchemaMaker(t).document(t)))
	if *update {
		require.NoError(t, os.WriteFile(schemaFile, b.Bytes(), 0o644))
	}
	have, err := os.ReadFile(schemaFile)
	require.NoError(t, err)
	require.Equal(t, b.String(), string(have), "go test ./cmd/internal/config -update writes it anew")
}

// compiled reads the schema as an editor would.
func compiled(t *testing.T) *validator.Schema {
	t.Helper()
	data, err := os.ReadFile(schemaFile)
	require.NoError(t, err)
	doc, err := validator.UnmarshalJSON(bytes.NewReader(data))
	require.NoError(t, err)
	c := validator.NewCompiler()
	require.NoError(t, c.AddResource("config", doc))
	s, err := c.Compile("config")
	require.NoError(t, err)
	return s
}

func bySchema(t *testing.T, s *validator.Schema, text string) error {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	require.NoError(t, err)
	doc, err := validator.UnmarshalJSON(bytes.NewReader(data))
	require.NoError(t, err)
	return s.Validate(doc)
}

func TestTheSchemaTakesWhatIsShown(t *testing.T) {
	s := compiled(t)
	top := filepath.Join("..", "..", "..")
	examples, err := filepath.Glob(filepath.Join(top, "examples", "*", "tidings.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, examples)
	for _, file := range examples {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, bySchema(t, s, string(data)), file)
		require.True(t, strings.HasPrefix(string(data), "# yaml-language-server: $schema=../../docs/config.schema.json\n"), "the first line of %s names the schema", file)
	}
	block := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")
	for _, page := range []string{"README.md", "docs/configuration.md"} {
		data, err := os.ReadFile(filepath.Join(top, filepath.FromSlash(page)))
		require.NoError(t, err)
		for _, b := range block.FindAllStringSubmatch(string(data), -1) {
			require.NoError(t, bySchema(t, s, b[1]), b[1])
		}
	}
	c, err := Load(filepath.Join(top, "examples", "shop", "tidings.yaml"), nil)
	require.NoError(t, err)
	var printed bytes.Buffer
	require.NoError(t, c.Print(&printed))
	require.NoError(t, bySchema(t, s, printed.String()), "what tidings config print shows")
}

func TestTheSchemaRefuses(t *testing.T) {
	s := compiled(t)
	for name, text := range map[string]string{
		"an unknown key":                    "plugins: []\n",
		"an unknown key of a section":       "api: {lissten: x}\n",
		"a key of another kind of channel":  "channels: {h: {kind: webhook, host: h}}\n",
		"a channel without kind":            "channels: {m: {host: h}}\n",
		"an unknown kind":                   "channels: {m: {kind: carrier-pigeon}}\n",
		"an unknown key of a provider":      "channels: {m: {kind: email, providers: [{name: a, hots: b}]}}\n",
		"an unknown key of a tenant's":      "tenants: {a: {channels: {m: {hots: b}}}}\n",
		"an unknown key of a route":         "routes: [{name: a, event: b, channel: c, recipient: d}]\n",
		"a route without a channel":         "routes: [{name: a, event: b}]\n",
		"a duration without unit":           "horizon: 30\n",
		"a text where a number belongs":     "max_waiting: many\n",
		"a rate without a time":             "channels: {m: {kind: email, rate: 50}}\n",
		"a secret that YAML makes a number": "api: {token: 0123}\n",
	} {
		require.Error(t, bySchema(t, s, text), name)
	}
}
