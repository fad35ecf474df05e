package streams

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tidings/streams/event"
)

// attributeNames are the headers of an event's attributes, in the order in which
// eventHeaders has their values.
var attributeNames = [...]string{
	ceSpecVersion, ceID, ceSource, ceType, ceSubject, ceTime, ceDataContentType, ceDataSchema,
	ceTraceparent, ceTracestate, HeaderTenant, HeaderCorrelation, jetstream.MsgIDHeader,
}

// eventHeaders returns the headers of an event for EVENTS, with room to
// spare, and its message id.
func eventHeaders(in *Incoming, identity event.Identity, spare int) (headers, string, error) {
	e := &in.Envelope
	id := e.ID // of an event whose key needs the sequence
	if e.IDSource != event.IDContent {
		id = string(identity.KeyOf(e.Tenant, e.Source, e.ID))
	}
	at, err := formatTime(e.OccurredAt)
	if err != nil {
		return headers{}, "", fmt.Errorf("occurred_at: %w", err)
	}
	values := [len(attributeNames)]string{
		"1.0", e.ID, e.Source, e.Type, e.Subject, at, e.ContentType, e.DataSchema,
		e.Traceparent, e.Tracestate, e.Tenant, e.CorrelationID, id,
	}
	n := 1 + len(e.Extensions) + spare
	for i := range values {
		if values[i] != "" {
			n++
		}
	}
	h := newHeaders(n)
	for i := range values {
		h.set(attributeNames[i], values[i])
	}
	h.add(HeaderDoor, door{event.Digest(e.Data), e.IDSource, in.Nonce}.encode())
	for name, value := range e.Extensions {
		h.add(extensionHeader(name), percentEncode(value, &plainInHeader))
	}
	return h, id, addAMQPHeaders(&h, in.Headers)
}

func formatTime(at time.Time) (string, error) {
	if at.IsZero() {
		return "", nil
	}
	text, err := at.UTC().MarshalText()
	return string(text), err
}

// door is what the door knows of an event beyond the envelope. It is one header,
// for what an event costs on its way depends on how many it has.
type door struct {
	digest   string // of the payload
	idSource event.IDSource
	nonce    string
}

func (d door) encode() string {
	return d.digest + " " + percentEncode(string(d.idSource), &plainInHeader) + " " + percentEncode(d.nonce, &plainInHeader)
}

func decodeDoor(h nats.Header) door {
	digest, rest, _ := strings.Cut(h.Get(HeaderDoor), " ")
	source, nonce, _ := strings.Cut(rest, " ")
	return door{digest, event.IDSource(percentDecode(source)), percentDecode(nonce)}
}

// addAMQPHeaders takes the typed headers as they are: JSON without blanks is
// readable in every tool, and in ASCII it is a valid header value.
func addAMQPHeaders(h *headers, raw json.RawMessage) error {
	if len(raw) == 0 {
		return nil
	}
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return fmt.Errorf("AMQP headers: %w", err)
	}
	if slices.ContainsFunc(b.Bytes(), func(c byte) bool { return c < ' ' || c > '~' }) {
		return errors.New("AMQP headers: not ASCII; escape the rest as \\u")
	}
	h.add(HeaderAMQPHeaders, b.String())
	return nil
}

// extensionHeader returns the name of the header for an extension.
func extensionHeader(name string) string {
	h := cePrefix + name
	if name != "" && percentEncode(name, &plainInName) == name && !slices.Contains(attributeHeaders[:], h) {
		return h
	}
	return extensionPrefix + percentEncode(name, &plainInName)
}

// attributeHeaders are the ce- headers that are fields of an envelope.
var attributeHeaders = [...]string{
	ceSpecVersion, ceID, ceSource, ceType, ceSubject, ceTime,
	ceDataContentType, ceDataSchema, ceTraceparent, ceTracestate,
}

// decodeEvent reads a message of EVENTS.
func decodeEvent(h nats.Header, data []byte, sequence uint64, at time.Time) (StoredEvent, error) {
	ref, err := decodeRef(h, sequence, at)
	if err != nil {
		return StoredEvent{}, err
	}
	return storedEvent(ref, h, data), nil
}

// storedEvent adds to what is known of an event what else the message holds.
func storedEvent(ref event.Ref, h nats.Header, data []byte) StoredEvent {
	s := StoredEvent{Ref: ref, Nonce: decodeDoor(h).nonce, Envelope: event.Envelope{
		Tenant: ref.Tenant, Source: ref.Source, ID: ref.ID, IDSource: ref.IDSource, Type: ref.Type,
		CorrelationID: ref.CorrelationID, OccurredAt: ref.OccurredAt, Traceparent: ref.Traceparent,
		Subject: getHeader(h, ceSubject), ContentType: getHeader(h, ceDataContentType),
		DataSchema: getHeader(h, ceDataSchema), Tracestate: getHeader(h, ceTracestate),
		Extensions: decodeExtensions(h), Data: data,
	}}
	if raw := h.Get(HeaderAMQPHeaders); raw != "" {
		s.Headers = json.RawMessage(raw)
	}
	return s
}

func decodeExtensions(h nats.Header) map[string]string {
	var ext map[string]string
	for name := range h {
		short, ok := strings.CutPrefix(name, extensionPrefix)
		if !ok {
			if short, ok = strings.CutPrefix(name, cePrefix); !ok || slices.Contains(attributeHeaders[:], name) {
				continue
			}
		}
		if ext == nil {
			ext = map[string]string{}
		}
		ext[percentDecode(short)] = getHeader(h, name)
	}
	return ext
}

// decodeRef reads what the headers of a message in EVENTS say about its event.
func decodeRef(h nats.Header, sequence uint64, at time.Time) (event.Ref, error) {
	key, tenant := decodeKey(h, sequence)
	if !key.Valid() || tenant == "" {
		return event.Ref{}, fmt.Errorf("message %d in %s: no key or no tenant in its headers: %w", sequence, EventsStream, ErrForeign)
	}
	door := decodeDoor(h)
	ref := event.Ref{
		Key: key, Tenant: tenant, Source: getHeader(h, ceSource), ID: getHeader(h, ceID),
		IDSource: door.idSource, Type: getHeader(h, ceType),
		CorrelationID: getHeader(h, HeaderCorrelation), ReceivedAt: at.UTC(), Sequence: sequence,
		Digest: door.digest, Traceparent: getHeader(h, ceTraceparent),
		AMQPMessageID: getHeader(h, cePrefix+event.ExtensionMessageID),
	}
	if text := getHeader(h, ceTime); text != "" {
		if err := ref.OccurredAt.UnmarshalText([]byte(text)); err != nil {
			return event.Ref{}, fmt.Errorf("message %d in %s: ce-time: %w: %w", sequence, EventsStream, ErrForeign, err)
		}
	}
	return ref, nil
}

func decodeKey(h nats.Header, sequence uint64) (event.Key, string) {
	id := getHeader(h, jetstream.MsgIDHeader)
	return keyOf(id, decodeDoor(h).idSource, sequence), getHeader(h, HeaderTenant)
}

// keyOf returns the key of the event with a message id. It is not known before
// the event is stored if the id is but a hash of its content.
func keyOf(id string, source event.IDSource, sequence uint64) event.Key {
	if source == event.IDContent {
		return event.ContentKey(id, sequence)
	}
	return event.Key(id)
}
