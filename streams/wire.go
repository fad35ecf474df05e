package streams

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"tidings/streams/event"
)

// An event in EVENTS is a CloudEvent in the binary content mode of the NATS
// protocol binding: one ce- header per attribute, the payload untouched as the
// body. What CloudEvents has no word for is under Tidings-. Values are
// percent-encoded as the binding says; bytes that are not UTF-8 are carried the
// same way, because AMQP strings need not be.
//
// An event without a source has no ce-source, although CloudEvents wants one.
const (
	ceSpecVersion     = "ce-specversion"
	ceID              = "ce-id"
	ceSource          = "ce-source"
	ceType            = "ce-type"
	ceSubject         = "ce-subject"
	ceTime            = "ce-time"
	ceDataContentType = "ce-datacontenttype"
	ceDataSchema      = "ce-dataschema"
	ceTraceparent     = "ce-traceparent"
	ceTracestate      = "ce-tracestate"
	cePrefix          = "ce-"
)

// Headers of Tidings, in all streams.
const (
	HeaderKey         = "Tidings-Key"
	HeaderContentHash = "Tidings-Content-Hash" // instead of the key, where it needs the sequence
	HeaderDigest      = "Tidings-Digest"
	HeaderNonce       = "Tidings-Nonce"
	HeaderIDSource    = "Tidings-Id-Source"
	HeaderTenant      = "Tidings-Tenant"
	HeaderCorrelation = "Tidings-Correlation-Id"
	HeaderAMQPHeaders = "Tidings-Amqp-Headers"
	HeaderKind        = "Tidings-Kind"
	HeaderType        = "Tidings-Type"
	HeaderOutcome     = "Tidings-Outcome"
	HeaderSource      = "Tidings-Source"
	HeaderGeneration  = "Tidings-Generation"
	HeaderRecordID    = "Tidings-Record-Id"
	HeaderFinal       = "Tidings-Final"
	HeaderCause       = "Tidings-Cause"
	HeaderStage       = "Tidings-Stage"
	HeaderSequence    = "Tidings-Sequence"
	HeaderObject      = "Tidings-Object" // once for each object of a letter
	HeaderTraceparent = "traceparent"

	// extensionPrefix carries the extensions whose names would not do as, or
	// would be taken for, a ce- header. The name is percent-encoded.
	extensionPrefix = "Tidings-Extension-"
)

// Limits of one event.
const (
	// MaxHeaders is the size of all headers of an event together. The server's
	// own limit is 64 KiB, and it adds some.
	MaxHeaders = 48 << 10
	// MaxData is the size of an event's payload, if the server takes messages
	// large enough: its dead letter carries it in base64, see [Events.MaxData].
	MaxData = 8 << 20
)

// eventHeaders returns the headers of an event for EVENTS, and its message id.
func eventHeaders(in Incoming, identity event.Identity) (nats.Header, string, error) {
	e := in.Envelope
	h := nats.Header{ceSpecVersion: {"1.0"}}
	for name, value := range map[string]string{
		ceID: e.ID, ceSource: e.Source, ceType: e.Type, ceSubject: e.Subject,
		ceDataContentType: e.ContentType, ceDataSchema: e.DataSchema,
		ceTraceparent: e.Traceparent, ceTracestate: e.Tracestate,
		HeaderTenant: e.Tenant, HeaderIDSource: string(e.IDSource),
		HeaderCorrelation: e.CorrelationID, HeaderNonce: in.Nonce,
		HeaderDigest: event.Digest(e.Data),
	} {
		setHeader(h, name, value)
	}
	if !e.OccurredAt.IsZero() {
		text, err := e.OccurredAt.UTC().MarshalText()
		if err != nil {
			return nil, "", fmt.Errorf("occurred_at: %w", err)
		}
		setHeader(h, ceTime, string(text))
	}
	for name, value := range e.Extensions {
		h[extensionHeader(name)] = []string{percentEncode(value, plainInHeader)}
	}
	if err := setAMQPHeaders(h, in.Headers); err != nil {
		return nil, "", err
	}
	if e.IDSource == event.IDContent {
		setHeader(h, HeaderContentHash, e.ID)
		return h, e.ID, nil
	}
	key := string(identity.Key(e))
	setHeader(h, HeaderKey, key)
	return h, key, nil
}

// encodeJSON is json.Marshal without the escapes for HTML, which would only
// make it longer.
func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// setAMQPHeaders takes the typed headers as they are: JSON without blanks is
// readable in every tool, and in ASCII it is a valid header value.
func setAMQPHeaders(h nats.Header, raw json.RawMessage) error {
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
	h[HeaderAMQPHeaders] = []string{b.String()}
	return nil
}

// extensionHeader returns the name of the header for an extension.
func extensionHeader(name string) string {
	h := cePrefix + name
	if name != "" && percentEncode(name, plainInName) == name && !slices.Contains(attributeHeaders[:], h) {
		return h
	}
	return extensionPrefix + percentEncode(name, plainInName)
}

// attributeHeaders are the ce- headers that are fields of an envelope.
var attributeHeaders = [...]string{
	ceSpecVersion, ceID, ceSource, ceType, ceSubject, ceTime,
	ceDataContentType, ceDataSchema, ceTraceparent, ceTracestate,
}

func plainInName(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' }

// plainInHeader follows the protocol binding: printable ASCII but blank, quote
// and percent.
func plainInHeader(c byte) bool { return c > ' ' && c <= '~' && c != '"' && c != '%' }

// setHeader sets a header unless its value is empty.
func setHeader(h nats.Header, name, value string) {
	if value != "" {
		h[name] = []string{percentEncode(value, plainInHeader)}
	}
}

func getHeader(h nats.Header, name string) string { return percentDecode(h.Get(name)) }

func headerSize(h nats.Header) int {
	n := len("NATS/1.0\r\n\r\n")
	for name, values := range h {
		for _, v := range values {
			n += len(name) + len(": \r\n") + len(v)
		}
	}
	return n
}

// decodeEvent reads a message of EVENTS.
func decodeEvent(h nats.Header, data []byte, sequence uint64, at time.Time) (StoredEvent, error) {
	ref, err := decodeRef(h, sequence, at)
	if err != nil {
		return StoredEvent{}, err
	}
	s := StoredEvent{Ref: ref, Nonce: getHeader(h, HeaderNonce), Envelope: event.Envelope{
		Tenant: ref.Tenant, Source: ref.Source, ID: ref.ID, IDSource: ref.IDSource, Type: ref.Type,
		CorrelationID: ref.CorrelationID, OccurredAt: ref.OccurredAt, Traceparent: ref.Traceparent,
		Subject: getHeader(h, ceSubject), ContentType: getHeader(h, ceDataContentType),
		DataSchema: getHeader(h, ceDataSchema), Tracestate: getHeader(h, ceTracestate),
		Extensions: decodeExtensions(h), Data: data,
	}}
	if raw := h.Get(HeaderAMQPHeaders); raw != "" {
		s.Headers = json.RawMessage(raw)
	}
	return s, nil
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
	ref := event.Ref{
		Key: key, Tenant: tenant, Source: getHeader(h, ceSource), ID: getHeader(h, ceID),
		IDSource: event.IDSource(getHeader(h, HeaderIDSource)), Type: getHeader(h, ceType),
		CorrelationID: getHeader(h, HeaderCorrelation), ReceivedAt: at.UTC(), Sequence: sequence,
		Digest: getHeader(h, HeaderDigest), Traceparent: getHeader(h, ceTraceparent),
	}
	if text := getHeader(h, ceTime); text != "" {
		if err := ref.OccurredAt.UnmarshalText([]byte(text)); err != nil {
			return event.Ref{}, fmt.Errorf("message %d in %s: ce-time: %w: %w", sequence, EventsStream, ErrForeign, err)
		}
	}
	return ref, nil
}

func decodeKey(h nats.Header, sequence uint64) (event.Key, string) {
	tenant := getHeader(h, HeaderTenant)
	if hash := getHeader(h, HeaderContentHash); hash != "" {
		return event.ContentKey(hash, sequence), tenant
	}
	return event.Key(getHeader(h, HeaderKey)), tenant
}

// recordHeaders returns what followers route records by.
func recordHeaders(r event.Record) nats.Header {
	h := nats.Header{
		HeaderKey:        {string(r.Event.Key)},
		HeaderGeneration: {strconv.Itoa(r.State.Generation)},
		HeaderFinal:      {strconv.FormatBool(r.Final())},
	}
	setHeader(h, HeaderRecordID, r.ID)
	setHeader(h, HeaderKind, string(r.Kind))
	setHeader(h, HeaderOutcome, string(r.State.Outcome))
	setRefHeaders(h, r.Event)
	return h
}

func setRefHeaders(h nats.Header, ref event.Ref) {
	setHeader(h, HeaderTenant, ref.Tenant)
	setHeader(h, HeaderSource, ref.Source)
	setHeader(h, HeaderType, ref.Type)
	setHeader(h, HeaderTraceparent, ref.Traceparent)
}

func duplicateHeaders(d event.Duplicate) nats.Header {
	h := nats.Header{HeaderKey: {string(d.Event.Key)}}
	setHeader(h, HeaderRecordID, d.ID)
	setHeader(h, HeaderKind, string(event.KindDuplicate))
	setHeader(h, HeaderOutcome, string(event.DuplicateOutcome))
	setHeader(h, HeaderStage, string(d.Stage))
	setRefHeaders(h, d.Event)
	return h
}

func letterHeaders(l event.Letter, nonce string) nats.Header {
	h := nats.Header{
		HeaderKey:        {string(l.Key)},
		HeaderGeneration: {strconv.Itoa(l.Generation)},
		HeaderNonce:      {nonce},
	}
	setHeader(h, HeaderTenant, l.Tenant)
	setHeader(h, HeaderKind, string(l.Kind))
	setHeader(h, HeaderCause, string(l.Cause))
	setHeader(h, HeaderStage, string(l.Stage))
	if l.Event != nil {
		setHeader(h, HeaderSource, l.Event.Source)
		setHeader(h, HeaderType, l.Event.Type)
		setHeader(h, HeaderTraceparent, l.Event.Traceparent)
	}
	for _, o := range []*event.Object{l.PayloadObject, l.LetterObject} {
		if o != nil {
			h.Add(HeaderObject, o.Name)
		}
	}
	return h
}

func wakeupHeaders(w Wakeup) nats.Header {
	h := nats.Header{
		HeaderKey:      {string(w.Key)},
		HeaderSequence: {strconv.FormatUint(w.Sequence, 10)},
	}
	setHeader(h, HeaderTenant, w.Tenant)
	return h
}

func decodeWakeup(h nats.Header) Wakeup {
	sequence, _ := strconv.ParseUint(h.Get(HeaderSequence), 10, 64)
	return Wakeup{Tenant: getHeader(h, HeaderTenant), Key: event.Key(getHeader(h, HeaderKey)), Sequence: sequence}
}
