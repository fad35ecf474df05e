package event

import (
	"encoding/json"
	"time"
	"unicode/utf8"
)

// LetterKind says what a dead letter holds.
type LetterKind string

// The kinds of letters.
const (
	LetterEvent    LetterKind = "event"    // an event with a history
	LetterDelivery LetterKind = "delivery" // a delivery that could not become an event, and has no history
)

// Letter is a dead letter: what an operator needs to see, mend and requeue. It
// is the only entry besides EVENTS that holds a payload.
type Letter struct {
	Schema     int        `json:"schema"`
	Kind       LetterKind `json:"kind"`
	Key        Key        `json:"key"`
	Tenant     string     `json:"tenant"`
	Cause      Cause      `json:"cause"`
	Stage      Stage      `json:"stage"`
	Detail     string     `json:"detail,omitempty"` // what went wrong, in words
	Generation int        `json:"generation"`
	At         time.Time  `json:"at"`
	Event      *Ref       `json:"event,omitempty"`    // of an event
	Envelope   *Envelope  `json:"envelope,omitempty"` // its attributes, where they could be read
	State      *State     `json:"state,omitempty"`    // of an event, before it became a dead letter
	Delivery   *Delivery  `json:"delivery,omitempty"` // of a raw delivery
	Data       []byte     `json:"data_base64"`        // the payload, byte for byte
	// Edit is the payload that an operator put in its place. It counts once the
	// history says so ([Requeued]): until then it is a draft.
	Edit *LetterEdit `json:"edit,omitempty"`
	// Drafts are edits that were begun before that one. The history says which of
	// them counts, if any.
	Drafts []LetterEdit `json:"drafts,omitempty"`
	// PayloadObject is where the payload is that is too large for a letter;
	// data_base64 is empty then.
	PayloadObject *Object `json:"payload_object,omitempty"`
	// LetterObject is where the whole letter is, without its payload, as JSON,
	// that is too large itself, such as for its headers. What is here then is
	// the beginning of it.
	LetterObject *Object `json:"letter_object,omitempty"`
}

// LetterEdit is an edited payload and who edited it.
type LetterEdit struct {
	Operator string    `json:"operator"`
	Reason   string    `json:"reason,omitempty"`
	At       time.Time `json:"at"`
	Data     []byte    `json:"data_base64"`
	// Tenant and Event are what a delivery was about to come in as: if the event has a
	// history, it did.
	Tenant string `json:"tenant,omitempty"`
	Event  Key    `json:"event,omitempty"`
	// Replay is the plan that was about to do it, if it was one.
	Replay string `json:"replay,omitempty"`
}

// Payload returns the payload of that digest, which is the letter's own or an
// edited one.
func (l Letter) Payload(digest string) (data []byte, ok bool) {
	if l.Edit != nil && Digest(l.Edit.Data) == digest {
		return l.Edit.Data, true
	}
	for _, d := range l.Drafts {
		if Digest(d.Data) == digest {
			return d.Data, true
		}
	}
	if l.Data != nil && Digest(l.Data) == digest {
		return l.Data, true
	}
	return nil, false
}

// Object is something too large for a message of the log: an object in a NATS
// object store.
type Object struct {
	Bucket string `json:"bucket"`
	Name   string `json:"name"`
	Size   int64  `json:"size"`   // in bytes
	Digest string `json:"digest"` // "SHA-256=" and the hash in base64url, as object stores have it
}

// Shorten cuts a text that has more than most bytes, between characters, and ends
// it with an ellipsis then.
func Shorten(s string, most int) string {
	if len(s) <= most {
		return s
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

// Delivery is a raw AMQP delivery or HTTP request as it came in, without its body.
type Delivery struct {
	Broker      string            `json:"broker,omitempty"` // host and vhost, or "http"; never credentials
	Queue       string            `json:"queue,omitempty"`
	Exchange    string            `json:"exchange,omitempty"`
	RoutingKey  string            `json:"routing_key,omitempty"`
	Redelivered bool              `json:"redelivered,omitempty"`
	Properties  map[string]string `json:"properties,omitempty"`
	// Headers are the AMQP headers with their types, so that they can be
	// published again as they were: see the bridge's typed form.
	Headers json.RawMessage `json:"headers,omitempty"`
}
