package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	amqp "github.com/rabbitmq/amqp091-go"

	"tidings/bridge"
	"tidings/streams"
	"tidings/streams/event"
)

// Accepted says what became of an event that was taken in.
type Accepted struct {
	Key       event.Key `json:"key"`       // of the event, or of the dead letter
	Sequence  uint64    `json:"sequence"`  // in EVENTS, or in DEADLETTERS
	Duplicate bool      `json:"duplicate"` // it was there before
	// Quarantined is why it became a dead letter; empty for an event.
	Quarantined event.Cause `json:"quarantined,omitempty"`
}

// acceptTimeout bounds how long an event waits for the log.
const acceptTimeout = 20 * time.Second

// registerPublish registers the endpoint beside the library, whose buffer for
// bodies is used again as soon as the request ends, when a commit may still
// hold what is in it.
func (s *Server) registerPublish(mux *http.ServeMux, spec *huma.OpenAPI) {
	mux.HandleFunc("POST /v1/events", s.publish)
	binary := &huma.Schema{Type: "string", Format: "binary"}
	accepted := huma.SchemaFromType(spec.Components.Schemas, reflect.TypeFor[Accepted]())
	spec.AddOperation(&huma.Operation{
		OperationID: "publish-event", Method: http.MethodPost, Path: "/v1/events", Tags: []string{"events"},
		Summary: "Take in one event, or a batch of them",
		Description: "A CloudEvent in binary mode (ce- headers) or structured mode (application/cloudevents+json), or any body " +
			"with the headers event-id, event-type, event-source, tenant-id, correlation-id and occurred-at, all optional but the type. " +
			"What cannot be an event is kept as a dead letter, and the answer says so.\n\n" +
			fmt.Sprintf("A batch (%s) is a list of up to %d CloudEvents as in structured mode. Each is taken in as if it had come alone, ", bridge.TypeBatch, maxBatch) +
			"and the answer is a list of what became of each, in their order; a body that is no list is one dead letter. " +
			"After any answer but 202 some of them may be stored: the whole batch may be sent again, and those are duplicates then.",
		RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
			bridge.TypeStructured: {Schema: &huma.Schema{Type: "object"}},
			bridge.TypeBatch: {Schema: &huma.Schema{
				Type: "array", Items: &huma.Schema{Type: "object"}, MinItems: new(1), MaxItems: new(maxBatch),
			}},
			"application/json": {Schema: &huma.Schema{}},
			"*/*":              {Schema: binary},
		}},
		Responses: map[string]*huma.Response{
			"202": {
				Description: "It is stored; of a batch, each of its events",
				Content: map[string]*huma.MediaType{"application/json": {
					Schema: &huma.Schema{OneOf: []*huma.Schema{accepted, {Type: "array", Items: accepted}}},
				}},
			},
			"400": problemResponse(spec, "The batch is empty, or the body did not arrive whole"),
			"413": problemResponse(spec, "The body is too large, or the batch has too many events"),
			"503": problemResponse(spec, "The log is down or full, or too many large bodies are in hand: send it again after Retry-After"),
		},
	})
}

func problemResponse(spec *huma.OpenAPI, description string) *huma.Response {
	return &huma.Response{
		Description: description,
		Content: map[string]*huma.MediaType{"application/problem+json": {
			Schema: huma.SchemaFromType(spec.Components.Schemas, reflect.TypeFor[huma.ErrorModel]()),
		}},
	}
}

func (s *Server) publish(w http.ResponseWriter, r *http.Request) {
	leave, err := s.room.enter(r)
	if err != nil {
		w.Header().Set("Retry-After", retryAfter)
		writeProblem(w, problem(http.StatusServiceUnavailable, "busy", "too many large bodies are in hand: send the event again"))
		return
	}
	defer leave()
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.MaxBody))
	if err != nil {
		writeProblem(w, s.unread(err))
		return
	}
	if bridge.IsBatch(r.Header.Get("Content-Type")) {
		s.publishBatch(w, r, body)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), acceptTimeout)
	defer cancel()
	receipt, err := s.Door.Accept(ctx, arrival(r.Header, body))
	if err != nil {
		s.Logger.Warn("an event was not taken in", "error", err)
		writeProblem(w, refused(w.Header(), "the event", err))
		return
	}
	writeAccepted(w, Accepted(receipt))
}

func writeAccepted(w http.ResponseWriter, answer any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusAccepted)
	_ = json.NewEncoder(w).Encode(answer) // nobody is left to tell
}

func (s *Server) unread(err error) *huma.ErrorModel {
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return problem(http.StatusRequestEntityTooLarge, "too-large",
			fmt.Sprintf("the body has more than %s, the most that an event, or a batch of them, may have", streams.Bytes(int(s.MaxBody))))
	}
	return problem(http.StatusBadRequest, "unread", "the body did not arrive whole")
}

// refused says why the door did not take what came: it is the log, and never what came.
func refused(answer http.Header, what string, err error) *huma.ErrorModel {
	answer.Set("Retry-After", retryAfter)
	detail := "the log cannot take events now: send " + what + " again"
	if errors.Is(err, streams.ErrFull) {
		detail = full(err) + "; then send " + what + " again"
	}
	return problem(http.StatusServiceUnavailable, "unavailable", detail)
}

// arrival is what the request brings to the door. Its body is not used again.
func arrival(header http.Header, body []byte) bridge.Arrival {
	envelope, err := envelopeOf(header, body)
	return bridge.Arrival{
		Envelope: envelope, Err: err, Body: body, Where: "http", Stage: event.StageHTTP,
		Delivery: event.Delivery{Broker: "http", Properties: kept(header)},
	}
}

// envelopeOf reads a CloudEvent, and anything else as if it had come over AMQP
// with the same headers.
func envelopeOf(header http.Header, body []byte) (event.Envelope, error) {
	contentType := header.Get("Content-Type")
	if header.Get("Ce-Specversion") != "" || strings.HasPrefix(strings.ToLower(contentType), "application/cloudevents") {
		return bridge.FromHTTP(header, body)
	}
	plain := amqp.Delivery{ContentType: contentType, Headers: amqp.Table{}, Body: body}
	for _, name := range plainHeaders() {
		if v := header.Get(name); v != "" {
			plain.Headers[name] = v
		}
	}
	envelope, err := bridge.Mapping{}.FromAMQP(plain)
	if err == nil && envelope.Type == "" {
		err = errors.New("this is no CloudEvent, and the header event-type is missing")
	}
	return envelope, err
}

// plainHeaders are the headers that describe an event that is no CloudEvent.
func plainHeaders() []string {
	return []string{
		"event-id", "event-type", "event-source", "tenant-id", "correlation-id", "occurred-at",
		"traceparent", "tracestate",
	}
}

// kept returns the headers that a dead letter keeps: those that describe the
// event, and none that may hold a credential.
func kept(header http.Header) map[string]string {
	properties := map[string]string{}
	for name, values := range header {
		if name = strings.ToLower(name); strings.HasPrefix(name, "ce-") {
			properties[name] = bridge.EscapeText(strings.Join(values, ", "))
		}
	}
	for _, name := range plainHeaders() {
		if v := header.Get(name); v != "" {
			properties[name] = bridge.EscapeText(v)
		}
	}
	if v := header.Get("Content-Type"); v != "" {
		properties["content_type"] = bridge.EscapeText(v)
	}
	return properties
}
