package bridge

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"tidings/streams/event"
)

// Changes are what an operator changes about a delivery that could not come in.
type Changes struct {
	// Set holds attributes by name: see [ChangeNames].
	Set map[string]string
	// Body takes the place of the body; nil: as it came.
	Body []byte
}

// ChangeNames are the names of the attributes that can be changed. The content type
// is that of the delivery: it decides how the body is read.
func ChangeNames() []string {
	return []string{"id", "type", "source", "tenant", "subject", "correlation_id", "occurred_at", "content_type"}
}

// From reports whether a delivery came from the queue that c is about.
func (c Config) From(d event.Delivery) bool {
	c = c.withDefaults()
	where, err := broker(c.URL)
	return err == nil && c.Queue == d.Queue && where == d.Broker
}

// Again returns the delivery that a dead letter holds as it would stand at the door
// now, with changes: read by the mapping m if it came by AMQP. It is no event where
// [Arrival.Err] says so.
func Again(l event.Letter, m Mapping, c Changes) Arrival {
	a := Arrival{Body: l.Data, Where: "dead letter " + string(l.Key), Stage: l.Stage, Again: true}
	if c.Body != nil {
		a.Body = c.Body
	}
	if l.Delivery != nil {
		a.Delivery = *l.Delivery
	}
	a.Envelope, a.Err = readAgain(l, m, c.Set, a.Body)
	if c.Set["id"] != "" {
		a.Envelope.IDSource = event.IDOperator
	}
	return a
}

func readAgain(l event.Letter, m Mapping, set map[string]string, body []byte) (event.Envelope, error) {
	if err := checkChanges(set); err != nil {
		return event.Envelope{}, err
	}
	switch {
	case l.Delivery == nil && l.Envelope == nil:
		return event.Envelope{}, errors.New("the dead letter holds neither a delivery nor an event")
	case l.Delivery == nil:
		return changed(*l.Envelope, set, body)
	}
	d, err := amqpDelivery(*l.Delivery, body)
	if err != nil {
		return event.Envelope{}, err
	}
	if l.Stage == event.StageHTTP {
		m = Mapping{}
	}
	return m.with(set).read(&d, set)
}

func checkChanges(set map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(set)) {
		switch {
		case !slices.Contains(ChangeNames(), name):
			return fmt.Errorf("there is no attribute %q to change: there are %s", name, strings.Join(ChangeNames(), ", "))
		case set[name] == "":
			return fmt.Errorf("the attribute %s is changed to nothing: give it a value", name)
		}
	}
	return nil
}

// with returns the mapping that finds the attributes in set before all others.
func (m Mapping) with(set map[string]string) Mapping {
	for name, attribute := range map[string]*Attribute{
		"tenant": &m.Tenant, "source": &m.Source, "id": &m.ID, "type": &m.Type,
		"correlation_id": &m.CorrelationID, "occurred_at": &m.OccurredAt,
	} {
		if v := set[name]; v != "" {
			attribute.Constant = v
		}
	}
	return m
}

// read is FromAMQP with attributes that an operator set. A CloudEvent has its own
// names for them, and must have some.
func (m Mapping) read(d *amqp.Delivery, set map[string]string) (event.Envelope, error) {
	if v := set["content_type"]; v != "" {
		d.ContentType = v
	}
	ce, data, err := attributesOf(d)
	if ce != nil {
		for name, attribute := range map[string]string{"id": "id", "type": "type", "source": "source", "occurred_at": "time"} {
			if v := set[name]; v != "" {
				ce[attribute] = v
			}
		}
	}
	var e event.Envelope
	err = m.envelope(d, ce, data, err, &e)
	if v := set["subject"]; v != "" {
		e.Subject = v
	}
	return e, err
}

// changed returns an event of which some attributes, and the body, were changed.
func changed(e event.Envelope, set map[string]string, body []byte) (event.Envelope, error) {
	for name, field := range map[string]*string{
		"tenant": &e.Tenant, "source": &e.Source, "id": &e.ID, "type": &e.Type, "subject": &e.Subject,
		"correlation_id": &e.CorrelationID, "content_type": &e.ContentType,
	} {
		if v := set[name]; v != "" {
			*field = v
		}
	}
	e.Data = body
	if v := set["occurred_at"]; v != "" {
		var err error
		if e.OccurredAt, err = parseTime(v); err != nil {
			return e, fmt.Errorf("time of the event: %w", err)
		}
	}
	return e, errors.Join(checkText(&e), checkData(&e, ""), checkType(&e))
}

// amqpDelivery returns a delivery as it came. A request is a delivery with the same
// headers.
func amqpDelivery(desc event.Delivery, body []byte) (amqp.Delivery, error) {
	if desc.Broker != "http" {
		return restore(desc, body)
	}
	d := amqp.Delivery{Headers: amqp.Table{}, Body: body}
	for name, text := range desc.Properties {
		value, err := unescapeText(text)
		if err != nil {
			return d, fmt.Errorf("restore a request: header %s: %w", name, err)
		}
		switch {
		case name == "content_type":
			d.ContentType = value
		case strings.HasPrefix(name, "ce-"):
			if plain, err := url.PathUnescape(unquote(value)); err == nil {
				value = plain
			}
			d.Headers[name] = value
		default:
			d.Headers[name] = value
		}
	}
	return d, nil
}
