package streams

import (
	"bytes"
	"encoding/json"
	"strconv"

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
	HeaderDoor        = "Tidings-Door" // see door
	HeaderNonce       = "Tidings-Nonce"
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

// recordHeaders returns what followers route records by, with room to spare for
// what an append adds.
func recordHeaders(r event.Record) nats.Header {
	h := newHeaders(10 + 1 + batchHeaders)
	h.add(HeaderKey, string(r.Event.Key))
	h.add(HeaderGeneration, strconv.Itoa(r.State.Generation))
	h.add(HeaderFinal, strconv.FormatBool(r.Final()))
	h.set(HeaderRecordID, r.ID)
	h.set(HeaderKind, string(r.Kind))
	h.set(HeaderOutcome, string(r.State.Outcome))
	h.setRef(r.Event)
	return h.Header
}

func (h *headers) setRef(ref event.Ref) {
	h.set(HeaderTenant, ref.Tenant)
	h.set(HeaderSource, ref.Source)
	h.set(HeaderType, ref.Type)
	h.set(HeaderTraceparent, ref.Traceparent)
}

func duplicateHeaders(d event.Duplicate) nats.Header {
	h := newHeaders(9 + batchHeaders)
	h.add(HeaderKey, string(d.Event.Key))
	h.set(HeaderRecordID, d.ID)
	h.set(HeaderKind, string(event.KindDuplicate))
	h.set(HeaderOutcome, string(event.DuplicateOutcome))
	h.set(HeaderStage, string(d.Stage))
	h.setRef(d.Event)
	return h.Header
}

func operationHeaders(op event.Operation) nats.Header {
	h := nats.Header{HeaderKey: {string(op.Letter.Key)}}
	setHeader(h, HeaderRecordID, op.ID)
	setHeader(h, HeaderKind, string(event.KindOperation))
	setHeader(h, HeaderTenant, op.Tenant)
	setHeader(h, HeaderCause, string(op.Letter.Cause))
	return h
}

func skipHeaders(s event.Skip) nats.Header {
	h := nats.Header{}
	setHeader(h, HeaderKey, string(s.Event))
	setHeader(h, HeaderRecordID, s.ID)
	setHeader(h, HeaderKind, string(event.KindSkip))
	setHeader(h, HeaderTenant, s.Tenant)
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
