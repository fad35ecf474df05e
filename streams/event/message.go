package event

import "time"

// MessageState is where one message stands.
type MessageState string

// The states of a message.
const (
	MessagePending    MessageState = "pending"
	MessageDelivered  MessageState = "delivered"
	MessageFailed     MessageState = "failed"
	MessageSuppressed MessageState = "suppressed"
	MessageUncertain  MessageState = "uncertain" // it may have been sent: the answer was lost
)

// OnUnknown is what a channel wants done with a message whose fate is unknown.
type OnUnknown string

// The policies for an unknown fate.
const (
	Resend OnUnknown = "resend" // try again with the same idempotency key
	Hold   OnUnknown = "hold"   // leave it to an operator
)

// Message is one notification of one event to one recipient on one channel by
// one route, as it stands in a State.
type Message struct {
	ID        string    `json:"id"`
	Route     string    `json:"route"`
	Channel   string    `json:"channel"`
	Template  string    `json:"template,omitempty"`
	Version   string    `json:"template_version,omitempty"` // content hash of the template when planned
	Locale    string    `json:"locale,omitempty"`
	Recipient Recipient `json:"recipient"`
	OnUnknown OnUnknown `json:"on_unknown"`
	Category  string    `json:"category,omitempty"`
	Degraded  string    `json:"degraded,omitempty"`

	State MessageState `json:"state"`
	// Done means that no further try follows in this generation. It tells an
	// uncertain message that waits for a resend from one that is given up.
	Done bool `json:"done,omitempty"`
	// Tries counts provider calls over all generations; RoundTries those of the
	// current round that count against its budget (a rate limit does not).
	Tries      int       `json:"tries"`
	RoundTries int       `json:"round_tries,omitempty"`
	Code       string    `json:"code,omitempty"`       // result of the last try, such as "smtp_550_5.1.1" or "http_503"
	Via        string    `json:"via,omitempty"`        // the channel's provider that took it, or may have; empty: it has the one
	Reason     string    `json:"reason,omitempty"`     // why it is suppressed or given up
	ChangedAt  time.Time `json:"changed_at,omitzero"`  // of the last fact about it
	RetryAfter time.Time `json:"retry_after,omitzero"` // the provider asked not to be called before
}

// Open reports whether the message still wants a try in this generation.
func (m Message) Open() bool {
	if m.Done {
		return false
	}
	return m.State == MessagePending || m.State == MessageUncertain && m.OnUnknown == Resend
}

// Counts are the numbers of an event's messages by state.
type Counts struct {
	Created    int `json:"created"`
	Delivered  int `json:"delivered"`
	Failed     int `json:"failed"`
	Suppressed int `json:"suppressed"`
	Uncertain  int `json:"uncertain"`
}
