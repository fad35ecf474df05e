package bridge

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"

	"tidings/streams/event"
)

// FromAMQP returns the event that a delivery carries: a structured CloudEvent
// if the content type says so, a binary CloudEvent if the header specversion is
// there (as cloudEvents:specversion, cloudEvents_specversion or
// ce-specversion), else a plain event made of properties and headers. An id may
// be missing; [event.Envelope.Identify] gives it one.
//
// It returns an error that says in words why the delivery is no event, never
// with a piece of the body, and what could be read of the envelope until then.
func (m Mapping) FromAMQP(d amqp.Delivery) (e event.Envelope, err error) {
	err = m.fill(&e, &d)
	return e, err
}

// fill is FromAMQP by reference.
func (m *Mapping) fill(e *event.Envelope, d *amqp.Delivery) error {
	ce, data, err := attributesOf(d)
	return m.envelope(d, ce, data, err, e)
}

// attributesOf returns the attributes of a CloudEvent and its data; nil and the
// body for a plain delivery.
func attributesOf(d *amqp.Delivery) (ce map[string]string, data []byte, err error) {
	switch {
	case isCloudEvents(d.ContentType):
		return parseStructured(d.ContentType, d.Body)
	case hasSpecVersion(d.Headers):
		ce, err := binaryAttributes(d.Headers)
		if ce != nil {
			ce["datacontenttype"] = d.ContentType
		}
		return ce, d.Body, err
	}
	return nil, d.Body, nil
}

// envelope puts the attributes together in e and checks them. ce is nil for a
// plain delivery.
func (m *Mapping) envelope(d *amqp.Delivery, ce map[string]string, data []byte, readErr error, e *event.Envelope) error {
	f := &finder{d: d, ce: ce, err: readErr}
	isEvent := ce != nil
	if isEvent {
		f.fail(checkRequired(ce), "CloudEvent")
	}
	e.Data, e.ContentType = data, d.ContentType
	e.Tenant, _ = f.find(m.Tenant, place{header: "tenant-id"})
	e.Source, _ = f.find(m.Source, place{attribute: "source", property: d.AppId, header: "event-source"})
	e.CorrelationID, _ = f.find(m.CorrelationID, place{property: d.CorrelationId, header: "correlation-id"})
	e.Traceparent, _ = f.find(Attribute{}, place{header: "traceparent"})
	e.Tracestate, _ = f.find(Attribute{}, place{header: "tracestate"})
	m.identify(e, f, isEvent)
	m.typeOf(e, f)
	m.occurred(e, f)
	if isEvent {
		delete(ce, "specversion")
		e.Subject, e.DataSchema = take(ce, "subject"), take(ce, "dataschema")
		e.ContentType = take(ce, "datacontenttype")
		e.Extensions = extensions(ce, d, e)
	}
	return cmp.Or(f.err, checkText(e), checkData(e, d.ContentEncoding), checkType(e))
}

// checkType refuses what no route could ever be for.
func checkType(e *event.Envelope) error {
	if e.Type != "" {
		return nil
	}
	return errors.New("it has no type: set the AMQP property type, the header event-type, or a routing key")
}

// identify fills in the id. A CloudEvent has its own or none.
func (m *Mapping) identify(e *event.Envelope, f *finder, isEvent bool) {
	if isEvent {
		e.ID, e.IDSource = take(f.ce, "id"), event.IDCloudEvents
		return
	}
	id, where := f.find(m.ID, place{attribute: "id", property: f.d.MessageId, header: "event-id"})
	e.ID = id
	switch where {
	case inProperty:
		e.IDSource = event.IDMessageID
	case inHeader, inRoutingKey:
		e.IDSource = event.IDHeader
	case nowhere, inConstant, inCloudEvent:
	}
}

func (m *Mapping) typeOf(e *event.Envelope, f *finder) {
	var where found
	e.Type, where = f.find(m.Type, place{attribute: "type", property: f.d.Type, header: "event-type"})
	if where == nowhere && f.ce == nil {
		e.Type = f.d.RoutingKey
	}
}

func (m *Mapping) occurred(e *event.Envelope, f *finder) {
	var property string
	if !f.d.Timestamp.IsZero() {
		property = formatTimestamp(f.d.Timestamp)
	}
	at, _ := f.find(m.OccurredAt, place{attribute: "time", property: property, header: "occurred-at"})
	if at == "" {
		return
	}
	var err error
	e.OccurredAt, err = parseTime(at)
	f.fail(err, "time of the event")
}

// parseTime reads RFC 3339. A number is an AMQP timestamp that it cannot
// express, and the usual reason for one is a producer that counts milliseconds.
func parseTime(s string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339Nano, s)
	switch {
	case err == nil && at.UTC().Year() >= 0 && at.UTC().Year() <= 9999:
		return at.UTC(), nil
	case strings.Trim(s, "-0123456789") == "":
		return time.Time{}, fmt.Errorf("%s seconds since 1970 are beyond the years 0 to 9999: "+
			"AMQP timestamps count seconds, not milliseconds", s)
	}
	return time.Time{}, errors.New("it is not a time in RFC 3339")
}

// extensions returns the CloudEvents extensions that are left. Where the AMQP
// message-id differs from the CloudEvents id, it is kept beside them.
func extensions(ce map[string]string, d *amqp.Delivery, e *event.Envelope) map[string]string {
	if d.MessageId != "" && d.MessageId != e.ID {
		ce[event.ExtensionMessageID], _ = text([]byte(d.MessageId)) // it may be no UTF-8
	}
	if len(ce) == 0 {
		return nil
	}
	return ce
}

// maxTenant is how long a tenant may be, in bytes: who owns a dead letter must
// fit beside it.
const maxTenant = 255

// checkText refuses attributes that are not UTF-8: no protocol behind this one
// could carry them.
func checkText(e *event.Envelope) error {
	if len(e.Tenant) > maxTenant {
		return fmt.Errorf("the tenant has %d bytes, more than %d", len(e.Tenant), maxTenant)
	}
	for _, a := range []struct{ name, value string }{
		{"tenant", e.Tenant},
		{"source", e.Source},
		{"id", e.ID},
		{"type", e.Type},
		{"subject", e.Subject},
		{"correlation id", e.CorrelationID},
		{"content type", e.ContentType},
		{"data schema", e.DataSchema},
		{"traceparent", e.Traceparent},
		{"tracestate", e.Tracestate},
	} {
		if !utf8.ValidString(a.value) {
			return fmt.Errorf("the %s is not UTF-8", a.name)
		}
	}
	for name, value := range e.Extensions {
		if !utf8.ValidString(value) {
			return fmt.Errorf("the extension %s is not UTF-8", name)
		}
	}
	return nil
}

// checkData refuses a body that is not the JSON its content type promises: no
// template could make anything of it. An empty body is an event without data.
func checkData(e *event.Envelope, encoding string) error {
	if len(e.Data) == 0 || !isJSON(e.ContentType) || json.Valid(e.Data) {
		return nil
	}
	if encoding != "" {
		return fmt.Errorf("the content type is %s and the body is not JSON: content encoding %q is not understood",
			e.ContentType, encoding)
	}
	return fmt.Errorf("the content type is %s and the body is not JSON", e.ContentType)
}

func isJSON(contentType string) bool {
	t := mediaType(contentType)
	return t == "application/json" || t == "text/json" || strings.HasSuffix(t, "+json")
}

// mediaType returns the type without parameters, in lower case, also where the
// parameters are malformed.
func mediaType(contentType string) string {
	t, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(t))
}
