package event

import "time"

// IDSource says where an event's id came from, in the order of preference.
type IDSource string

// The places an id comes from.
const (
	IDCloudEvents IDSource = "cloudevents" // the CloudEvents attribute id
	IDMessageID   IDSource = "message_id"  // the AMQP property message-id
	IDHeader      IDSource = "header"      // a header such as event-id
	IDOperator    IDSource = "operator"    // an operator, who sent a dead letter again
	IDDerived     IDSource = "derived"     // none given: hash over tenant, source, type, timestamp and body
	IDContent     IDSource = "content"     // none given and no timestamp: hash over the content alone
)

// ExtensionMessageID is the extension that keeps the AMQP message-id of a
// CloudEvent whose id is another one. The CloudEvent's own id counts.
const ExtensionMessageID = "amqpmessageid"

// DefaultTenant is the tenant of events that name none.
const DefaultTenant = "default"

// Envelope is an event as a producer published it: the CloudEvents 1.0
// attributes, the extensions Tidings gives a meaning (tenant, correlation id,
// trace context), and the payload, byte for byte.
type Envelope struct {
	Tenant        string    `json:"tenant"`
	Source        string    `json:"source,omitempty"`
	ID            string    `json:"id"`
	IDSource      IDSource  `json:"id_source"`
	Type          string    `json:"type"`
	Subject       string    `json:"subject,omitempty"`
	CorrelationID string    `json:"correlation_id,omitempty"`
	OccurredAt    time.Time `json:"occurred_at,omitzero"` // zero: the producer did not say
	ContentType   string    `json:"content_type,omitempty"`
	DataSchema    string    `json:"data_schema,omitempty"`
	Traceparent   string    `json:"traceparent,omitempty"`
	Tracestate    string    `json:"tracestate,omitempty"`
	// Extensions are the CloudEvents extensions without a field above, by
	// lower-case name.
	Extensions map[string]string `json:"extensions,omitempty"`
	Data       []byte            `json:"-"`
}

// Identify fills in the id of an event that came without one, and the default
// tenant. It changes nothing where both are given.
func (e *Envelope) Identify() {
	if e.Tenant == "" {
		e.Tenant = DefaultTenant
	}
	switch {
	case e.ID != "":
	case e.OccurredAt.IsZero():
		e.ID, e.IDSource = ContentHash(e.Tenant, e.Source, e.Type, e.Data), IDContent
	default:
		e.ID, e.IDSource = DerivedID(e.Tenant, e.Source, e.Type, e.OccurredAt, e.Data), IDDerived
	}
}

// Ref is what a history says of its event: enough to route, list and find it
// by, and where its stored copy is. It holds no payload.
type Ref struct {
	Key           Key       `json:"key"`
	Tenant        string    `json:"tenant"`
	Source        string    `json:"source,omitempty"`
	ID            string    `json:"id"`
	IDSource      IDSource  `json:"id_source"`
	Type          string    `json:"type"`
	CorrelationID string    `json:"correlation_id,omitempty"`
	OccurredAt    time.Time `json:"occurred_at,omitzero"`
	ReceivedAt    time.Time `json:"received_at"` // when EVENTS stored it
	Sequence      uint64    `json:"sequence"`    // of the stored copy in EVENTS
	Digest        string    `json:"digest"`      // of the payload, see [Digest]
	Traceparent   string    `json:"traceparent,omitempty"`
	// AMQPMessageID is the AMQP message-id of a CloudEvent whose id is another
	// one: the two contradict each other, and the CloudEvent's own id counts.
	AMQPMessageID string `json:"amqp_message_id,omitempty"`
}

// Age returns how long before now the event occurred; where the producer did
// not say, how long ago it was stored.
func (r Ref) Age(now time.Time) time.Duration {
	if r.OccurredAt.IsZero() {
		return now.Sub(r.ReceivedAt)
	}
	return now.Sub(r.OccurredAt)
}
