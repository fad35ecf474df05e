package plan

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"mime"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr/types"

	"tidings/streams/event"
)

// environmentTypes is what expressions are checked against.
func environmentTypes(vars map[string]string, groups map[string][]any) types.Map {
	known, named := types.Map{}, types.Map{}
	for name := range vars {
		known[name] = types.String
	}
	for name := range groups {
		named[name] = types.TypeOf([]any{})
	}
	return types.Map{
		"id": types.String, "source": types.String, "type": types.String, "tenant": types.String,
		"subject": types.String, "correlation_id": types.String,
		"occurred_at": types.TypeOf(event.Envelope{}.OccurredAt),
		dataName:      types.Any,
		"extensions":  types.TypeOf(map[string]string{}),
		"vars":        known,
		"groups":      named,
		meterName:     types.TypeOf(&meter{}),
	}
}

// environment is one event as expressions and templates see it. Its payload is
// decoded when something asks for it.
type environment struct {
	event   event.Envelope
	values  map[string]any // for expressions
	decoded bool
	meter   meter
}

func newEnvironment(e event.Envelope, vars map[string]string, groups map[string][]any) *environment {
	env := &environment{event: e}
	extensions := e.Extensions
	if extensions == nil {
		extensions = map[string]string{}
	}
	env.values = map[string]any{
		"id": e.ID, "source": e.Source, "type": e.Type, "tenant": e.Tenant,
		"subject": e.Subject, "correlation_id": e.CorrelationID, "occurred_at": e.OccurredAt,
		"extensions": extensions, "vars": vars, "groups": groups, meterName: &env.meter,
	}
	return env
}

func (env *environment) decode() {
	if !env.decoded {
		env.values[dataName], env.decoded = forExpressions(decodeData(env.event)), true
	}
}

// forTemplates returns what templates see, in a new map. A time that is not
// given is an empty text there, as the other attributes are, since a template
// takes every time for true.
func (env *environment) forTemplates() map[string]any {
	env.decode()
	out := maps.Clone(env.values)
	delete(out, meterName)
	out[dataName] = forTemplates(out[dataName])
	if env.event.OccurredAt.IsZero() {
		out["occurred_at"] = ""
	}
	return out
}

// dataName is how expressions and templates call the payload.
const dataName = "data"

// decodeData returns the payload as a JSON tree whose numbers are json.Number,
// as text, or nil if it is empty or neither.
func decodeData(e event.Envelope) any {
	if isJSON(e.ContentType, e.Data) {
		if value, ok := decodeJSON(e.Data); ok {
			return value
		}
	}
	if len(e.Data) > 0 && utf8.Valid(e.Data) {
		return string(e.Data)
	}
	return nil
}

// isJSON reports whether a payload is JSON if it can be decoded: it is declared
// as JSON, or looks like an object or a list.
func isJSON(contentType string, data []byte) bool {
	start := bytes.TrimLeft(data, " \t\r\n")
	return declaresJSON(contentType) || len(start) > 0 && (start[0] == '{' || start[0] == '[')
}

func decodeJSON(data []byte) (any, bool) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var value any
	if d.Decode(&value) != nil {
		return nil, false
	}
	_, err := d.Token()
	return value, err == io.EOF
}

func declaresJSON(contentType string) bool {
	if contentType == "application/json" {
		return true
	}
	media, _, _ := mime.ParseMediaType(contentType)
	return media == "application/json" || media == "text/json" || strings.HasSuffix(media, "+json")
}

// forExpressions returns a JSON tree with numbers that can be computed with. A
// number that neither an int nor a float64 holds stays text.
func forExpressions(value any) any {
	switch value := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(value))
		for name, member := range value {
			out[name] = forExpressions(member)
		}
		return out
	case []any:
		out := make([]any, len(value))
		for i, element := range value {
			out[i] = forExpressions(element)
		}
		return out
	case json.Number:
		if whole, err := strconv.Atoi(string(value)); err == nil {
			return whole
		}
		if float, err := value.Float64(); err == nil {
			return float
		}
		return string(value)
	}
	return value
}

// forTemplates returns a tree in which what is null is absent, so that it is an
// error where it is needed and not the text "<no value>", and numbers print as
// a person writes them.
func forTemplates(value any) any {
	switch value := value.(type) {
	case nil:
		return ""
	case map[string]any:
		out := make(map[string]any, len(value))
		for name, member := range value {
			if member != nil {
				out[name] = forTemplates(member)
			}
		}
		return out
	case []any:
		out := make([]any, len(value))
		for i, element := range value {
			out[i] = forTemplates(element)
		}
		return out
	case float64:
		return decimal(value)
	}
	return value
}

// decimal is a number that prints without an exponent as long as that is legible.
type decimal float64

func (d decimal) String() string {
	if d > -1e21 && d < 1e21 {
		return strconv.FormatFloat(float64(d), 'f', -1, 64)
	}
	return strconv.FormatFloat(float64(d), 'g', -1, 64)
}

// MarshalJSON implements json.Marshaler: the number, also where a template
// prints it into a script.
func (d decimal) MarshalJSON() ([]byte, error) { return json.Marshal(float64(d)) }
