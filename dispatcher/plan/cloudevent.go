package plan

import (
	"bytes"
	"encoding/json"
	"maps"
	"time"
	"unicode/utf8"

	"tidings/streams/event"
)

// CloudEventType is the content type of a webhook without a template.
const CloudEventType = "application/cloudevents+json"

// cloudEventJSON is the JSON format of CloudEvents 1.0, without extensions that
// have no meaning here.
type cloudEventJSON struct {
	SpecVersion     string          `json:"specversion"`
	ID              string          `json:"id"`
	Source          string          `json:"source"`
	Type            string          `json:"type"`
	Subject         string          `json:"subject,omitempty"`
	Time            string          `json:"time,omitempty"`
	DataContentType string          `json:"datacontenttype,omitempty"`
	DataSchema      string          `json:"dataschema,omitempty"`
	Tenant          string          `json:"tenant,omitempty"`
	CorrelationID   string          `json:"correlationid,omitempty"`
	Traceparent     string          `json:"traceparent,omitempty"`
	Tracestate      string          `json:"tracestate,omitempty"`
	Data            json.RawMessage `json:"data,omitempty"`
	DataBase64      []byte          `json:"data_base64,omitempty"`
}

// ownMembers are the names above: no extension may take them.
var ownMembers = []string{
	"specversion", "id", "source", "type", "subject", "time", "datacontenttype", "dataschema",
	"tenant", "correlationid", "traceparent", "tracestate", "data", "data_base64",
}

// cloudEvent returns the event in the JSON format of CloudEvents 1.0.
func cloudEvent(e event.Envelope) []byte {
	c := cloudEventJSON{
		SpecVersion: "1.0", ID: e.ID, Source: e.Source, Type: e.Type, Subject: e.Subject,
		DataContentType: e.ContentType, DataSchema: e.DataSchema,
		Tenant: e.Tenant, CorrelationID: e.CorrelationID, Traceparent: e.Traceparent, Tracestate: e.Tracestate,
	}
	if c.Source == "" {
		c.Source = "/" // CloudEvents wants one
	}
	if !e.OccurredAt.IsZero() {
		c.Time = e.OccurredAt.Format(time.RFC3339Nano)
	}
	switch {
	case len(e.Data) == 0:
	case isJSON(e.ContentType, e.Data) && json.Valid(e.Data):
		c.Data = e.Data
	case utf8.Valid(e.Data):
		c.Data = encode(string(e.Data))
	default:
		c.DataBase64 = e.Data
	}
	return withExtensions(encode(c), e.Extensions)
}

func withExtensions(object []byte, extensions map[string]string) []byte {
	more := maps.Clone(extensions)
	for _, name := range ownMembers {
		delete(more, name)
	}
	if len(more) == 0 {
		return object
	}
	return append(append(object[:len(object)-1], ','), encode(more)[1:]...)
}

// encode returns a value as JSON on one line, with < and > as they are.
func encode(value any) []byte {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(err) // texts, and JSON that was checked
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}
