package store

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"tidings/streams/event"
)

// Rows and the entries of records are nearly all that is written. Their JSON is put
// together here, byte for byte what encoding/json makes of them, in a fifth of the
// time.

// object is a JSON object in the making.
type object struct {
	b   []byte
	err error
}

func (o *object) name(name string) {
	if o.b[len(o.b)-1] != '{' {
		o.b = append(o.b, ',')
	}
	o.b = append(append(append(o.b, '"'), name...), '"', ':')
}

// raw adds a member that is encoded.
func (o *object) raw(name, value string) {
	o.name(name)
	o.b = append(o.b, value...)
}

func (o *object) text(name, value string) {
	o.name(name)
	o.b = append(o.b, '"')
	for i := range len(value) {
		if c := value[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			o.escaped(len(o.b)-i, value)
			return
		}
		o.b = append(o.b, value[i])
	}
	o.b = append(o.b, '"')
}

// escaped writes a string again from its quotation mark on, by encoding/json.
func (o *object) escaped(from int, value string) {
	data, err := json.Marshal(value)
	if err != nil {
		o.err = err
	}
	o.b = append(o.b[:from-1], data...)
}

func (o *object) textIf(name, value string) {
	if value != "" {
		o.text(name, value)
	}
}

func (o *object) number(name string, value int) {
	o.name(name)
	o.b = strconv.AppendInt(o.b, int64(value), 10)
}

func (o *object) numberIf(name string, value int) {
	if value != 0 {
		o.number(name, value)
	}
}

func (o *object) sequence(name string, value uint64) {
	o.name(name)
	o.b = strconv.AppendUint(o.b, value, 10)
}

func (o *object) time(name string, value time.Time) {
	o.name(name)
	b, err := value.AppendText(append(o.b, '"'))
	if err != nil {
		o.err = err
		return
	}
	o.b = append(b, '"')
}

func (o *object) timeIf(name string, value time.Time) {
	if !value.IsZero() {
		o.time(name, value)
	}
}

// end closes the object.
func (o *object) end() ([]byte, error) { return append(o.b, '}'), o.err }

// appendRow appends the JSON of a row.
func appendRow(b []byte, r *Row) ([]byte, error) {
	o := &object{b: append(b, '{')}
	o.text("key", string(r.Key))
	o.text("tenant", r.Tenant)
	o.textIf("source", r.Source)
	if r.Test {
		o.raw("test", "true")
	}
	o.text("event_id", r.EventID)
	o.text("id_source", string(r.IDSource))
	o.text("type", r.Type)
	o.textIf("correlation_id", r.CorrelationID)
	o.textIf("amqp_message_id", r.AMQPMessageID)
	o.textIf("outcome", string(r.Outcome))
	o.text("phase", string(r.Phase))
	o.textIf("cause", string(r.Cause))
	o.counts(r.Messages)
	o.number("tries", r.Tries)
	o.number("duplicates", r.Duplicates)
	o.number("generation", r.Generation)
	o.number("round", r.Round)
	o.number("crashes", r.Crashes)
	o.number("revision", r.Revision)
	o.timeIf("due", r.Due)
	o.timeIf("occurred_at", r.OccurredAt)
	o.time("received_at", r.ReceivedAt)
	o.time("started_at", r.StartedAt)
	o.time("changed_at", r.ChangedAt)
	o.sequence("sequence", r.Sequence)
	o.sequence("record_sequence", r.RecordSequence)
	return o.end()
}

func (o *object) counts(c event.Counts) {
	o.raw("messages", "{")
	o.number("created", c.Created)
	o.number("delivered", c.Delivered)
	o.number("failed", c.Failed)
	o.number("suppressed", c.Suppressed)
	o.number("uncertain", c.Uncertain)
	o.b = append(o.b, '}')
}

// appendRecordEntry appends the JSON of the entry of a record, whose facts are
// encoded.
func appendRecordEntry(b []byte, e Entry, facts string) ([]byte, error) {
	o := &object{b: append(b, '{')}
	o.sequence("sequence", e.Sequence)
	o.time("stored_at", e.StoredAt)
	o.textIf("key", string(e.Key))
	o.textIf("kind", string(e.Kind))
	o.textIf("id", e.ID)
	o.timeIf("at", e.At)
	o.numberIf("revision", e.Revision)
	o.numberIf("generation", e.Generation)
	o.textIf("phase", string(e.Phase))
	o.textIf("outcome", string(e.Outcome))
	if len(facts) > len("[]") {
		o.raw("facts", facts)
	}
	return o.end()
}

// encodeJSON is json.Marshal without the escapes for HTML, so that it does not
// matter whether something comes encoded.
func encodeJSON(v any) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return "", err
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}
