package streams_test

import (
	"compress/gzip"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/nats-io/nats.go"
	validator "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"tidings/streams"
	"tidings/streams/event"
	"tidings/streams/streamstest"
)

// planID is the id of a replay plan.
const planID = "m5d_-8DKcDuWCM9xSLB2_g"

// document is docs/asyncapi.yaml.
type document struct {
	testing.TB
	root map[string]any
}

func asyncAPI(t *testing.T) document {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "docs", "asyncapi.yaml"))
	require.NoError(t, err)
	asJSON, err := yaml.YAMLToJSON(data)
	require.NoError(t, err)
	d := document{TB: t}
	require.NoError(t, json.Unmarshal(asJSON, &d.root))
	return d
}

// at returns what a path such as #/channels/outcomes leads to, references followed.
func (d document) at(path string) map[string]any {
	d.Helper()
	var v any = d.root
	for _, name := range strings.Split(path, "/")[1:] {
		v = d.resolve(v)[name]
		require.NotNil(d, v, "%s: there is no %s", path, name)
	}
	return d.resolve(v)
}

func (d document) resolve(v any) map[string]any {
	d.Helper()
	m, ok := v.(map[string]any)
	require.True(d, ok, "%v", v)
	if ref, ok := m["$ref"].(string); ok && strings.HasPrefix(ref, "#") {
		return d.at(ref)
	}
	return m
}

// headers returns the names of the headers of a message, and those of them that
// are always there.
func (d document) headers(schema map[string]any) (names, required []string) {
	d.Helper()
	properties, _ := schema["properties"].(map[string]any)
	names = slices.Collect(maps.Keys(properties))
	for _, r := range list(schema["required"]) {
		required = append(required, r.(string))
	}
	for _, part := range list(schema["allOf"]) {
		n, r := d.headers(d.resolve(part))
		names, required = append(names, n...), append(required, r...)
	}
	slices.Sort(names)
	return slices.Compact(names), required
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}

func TestAsyncAPIIsAsTheSpecificationWantsIt(t *testing.T) {
	f, err := os.Open(filepath.Join("testdata", "asyncapi", "3.0.0.json.gz"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	unpacked, err := gzip.NewReader(f)
	require.NoError(t, err)
	specification, err := validator.UnmarshalJSON(unpacked)
	require.NoError(t, err)
	c := validator.NewCompiler()
	require.NoError(t, c.AddResource("asyncapi.json", specification))
	schema, err := c.Compile("asyncapi.json")
	require.NoError(t, err)
	d := asyncAPI(t)
	require.NoError(t, schema.Validate(d.root))
	t.Run("and a mistake would show", func(t *testing.T) {
		d.root["operations"].(map[string]any)["takeDelivery"].(map[string]any)["action"] = "take"
		require.Error(t, schema.Validate(d.root))
	})
}

func TestAsyncAPIRefersToWhatIsThere(t *testing.T) {
	d := asyncAPI(t)
	files := map[string]bool{}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			ref, _ := v["$ref"].(string)
			switch {
			case strings.HasPrefix(ref, "#"):
				d.at(ref)
			case ref != "":
				require.FileExists(t, filepath.Join("..", "docs", ref))
				files[ref] = true
			}
			for _, e := range v {
				walk(e)
			}
		}
	}
	walk(d.root)
	schemas, err := filepath.Glob(filepath.Join("..", "docs", "*.schema.json"))
	require.NoError(t, err)
	require.NotEmpty(t, schemas)
	schemas = slices.DeleteFunc(schemas, func(path string) bool { return filepath.Base(path) == "config.schema.json" }) // of no message
	for _, path := range schemas {
		require.True(t, files[filepath.Base(path)], "nothing refers to %s", path)
	}
	require.Len(t, files, len(schemas))
}

func TestAsyncAPIHasTheSubjectsOfTheStreams(t *testing.T) {
	key := ref("1").Key
	subject := func(s string, err error) string {
		require.NoError(t, err)
		return s
	}
	want := map[string]string{
		"events":      streams.EventSubject("acme", "order.placed"),
		"outcomes":    subject(streams.OutcomeSubject("acme", key)),
		"audit":       streams.AuditSubject("acme"),
		"plans":       replayed(t, streamstest.New(t)).Subject,
		"deadLetters": subject(streams.LetterSubject("acme", key)),
	}
	d := asyncAPI(t)
	for name, channel := range d.at("#/channels") {
		if name == "deliveries" {
			continue // of RabbitMQ
		}
		address := d.resolve(channel)["address"].(string)
		filled := strings.NewReplacer("{tenant}", "acme", "{type}", "order.placed", "{key}", string(key), "{id}", planID).Replace(address)
		require.Equal(t, want[name], filled, name)
		delete(want, name)
		for parameter := range d.resolve(channel)["parameters"].(map[string]any) {
			require.Contains(t, address, "{"+parameter+"}")
		}
	}
	require.Empty(t, want, "without a channel")
}

func TestFollowersAreOfferedWhatTheyMayRead(t *testing.T) {
	d := asyncAPI(t)
	var offered []string
	for name, channel := range d.at("#/channels") {
		for _, server := range list(d.resolve(channel)["servers"]) {
			if server.(map[string]any)["$ref"] == "#/servers/followers" {
				offered = append(offered, name)
			}
		}
	}
	require.ElementsMatch(t, []string{"outcomes", "audit", "plans"}, offered, "the subjects of OUTCOMES")
}

// Every header that the log writes is in the document, and no other, and those
// that are required are there when everything that may be empty is.
func TestAsyncAPIHasTheHeadersOfTheStreams(t *testing.T) {
	l := streamstest.New(t)
	d := asyncAPI(t)
	full, bare := ref("full"), event.Ref{Key: ref("bare").Key}
	full.Traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for name, entries := range map[string][]streams.Entry{
		"settled":   {recorded(t, l, settle(full, event.State{})), recorded(t, l, claim(bare, event.State{}))},
		"duplicate": {doubled(t, l, full, event.StageBridge), doubled(t, l, bare, "")},
		"operation": {operated(t, l, event.Operation{ID: "a", Tenant: "acme", Letter: event.OperationLetter{Key: full.Key, Cause: event.CauseCrashes}}), operated(t, l, event.Operation{ID: "b", Letter: event.OperationLetter{Key: full.Key}})},
		"skip":      {skipped(t, l, event.Skip{ID: "a", Tenant: "acme", Event: full.Key}), skipped(t, l, event.Skip{ID: "b"})},
		"replay":    {replayed(t, l)},
		"letter":    {buried(t, l, full), buried(t, l, bare)},
		"event":     {taken(t, l)},
	} {
		t.Run(name, func(t *testing.T) {
			names, required := d.headers(d.resolve(d.at("#/components/messages/" + name)["headers"]))
			var written []string
			if name != "event" { // those that were imported have it
				written = append(written, streams.HeaderStoredAt)
			}
			for i, e := range entries {
				own := ownHeaders(e.Header)
				require.Subset(t, own, required, "entry %d", i)
				written = append(written, own...)
			}
			slices.Sort(written)
			require.Equal(t, names, slices.Compact(written))
		})
	}
}

// ownHeaders leaves out those for the server, and the attributes that a producer
// made up.
func ownHeaders(h nats.Header) []string {
	var names []string
	for name := range h {
		if !strings.HasPrefix(name, "Nats-") && name != "ce-custom" {
			names = append(names, name)
		}
	}
	return names
}

func recorded(t *testing.T, l *streams.Log, r event.Record) streams.Entry {
	t.Helper()
	p, err := l.Outcomes.Append(t.Context(), r, 0)
	require.NoError(t, err)
	e, err := l.Outcomes.Entry(t.Context(), p.Sequence)
	require.NoError(t, err)
	return e
}

func doubled(t *testing.T, l *streams.Log, r event.Ref, stage event.Stage) streams.Entry {
	t.Helper()
	require.NoError(t, l.Outcomes.AppendDuplicate(t.Context(), event.NewDuplicate(r, stage, "EVENTS", 1, "n", "", time.Now())))
	return lastOfOutcomes(t, l)
}

func skipped(t *testing.T, l *streams.Log, s event.Skip) streams.Entry {
	t.Helper()
	_, err := l.Outcomes.AppendSkip(t.Context(), s)
	require.NoError(t, err)
	return lastOfOutcomes(t, l)
}

func operated(t *testing.T, l *streams.Log, op event.Operation) streams.Entry {
	t.Helper()
	_, err := l.Outcomes.AppendOperation(t.Context(), op)
	require.NoError(t, err)
	return lastOfOutcomes(t, l)
}

func replayed(t *testing.T, l *streams.Log) streams.Entry {
	t.Helper()
	_, err := l.Outcomes.AppendReplay(t.Context(), event.Replay{ID: "a", Kind: event.KindReplay, Replay: planID}, 0)
	require.NoError(t, err)
	return lastOfOutcomes(t, l)
}

func lastOfOutcomes(t *testing.T, l *streams.Log) streams.Entry {
	t.Helper()
	info, err := l.Outcomes.Info(t.Context())
	require.NoError(t, err)
	e, err := l.Outcomes.Entry(t.Context(), info.Last)
	require.NoError(t, err)
	return e
}

func buried(t *testing.T, l *streams.Log, r event.Ref) streams.Entry {
	t.Helper()
	letter := event.Letter{Kind: event.LetterEvent, Key: r.Key, Cause: event.CauseCrashes, At: time.Now().UTC()}
	if r.Tenant != "" {
		letter.Tenant, letter.Event, letter.Stage = r.Tenant, &r, event.StageDispatcher
		letter.PayloadObject = &event.Object{Name: "dead.acme.x", Size: 1}
	}
	sequence, _, err := l.DeadLetters.Put(t.Context(), letter)
	require.NoError(t, err)
	e, err := l.DeadLetters.Entry(t.Context(), sequence)
	require.NoError(t, err)
	return e
}

func taken(t *testing.T, l *streams.Log) streams.Entry {
	t.Helper()
	e := order("full")
	e.Subject, e.DataSchema, e.CorrelationID = "s", "urn:x", "c"
	e.Traceparent, e.Tracestate = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "a=b"
	e.Extensions = map[string]string{"custom": "x"}
	got, err := l.Events.Publish(t.Context(), streams.Incoming{Envelope: e, Nonce: "n", Headers: []byte(`{"a": 1}`)})
	require.NoError(t, err)
	entry, err := l.Events.Entry(t.Context(), got.Sequence)
	require.NoError(t, err)
	return entry
}
