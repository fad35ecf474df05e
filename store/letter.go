package store

import (
	"time"

	"tidings/streams/event"
)

// Letter is a dead letter in the list: what an operator chooses by. Its payload
// stays in the stream, at Sequence. The JSON is the one of API and CLI.
type Letter struct {
	Key        event.Key        `json:"key"`
	Tenant     string           `json:"tenant"`
	Kind       event.LetterKind `json:"kind"`
	Cause      event.Cause      `json:"cause"`
	Stage      event.Stage      `json:"stage"`
	Detail     string           `json:"detail,omitempty"`
	Type       string           `json:"type,omitempty"`     // where it could be read
	EventID    string           `json:"event_id,omitempty"` // where it could be read
	Generation int              `json:"generation"`
	At         time.Time        `json:"at"`
	Size       int64            `json:"size"`     // of the payload in bytes
	Sequence   uint64           `json:"sequence"` // in DEADLETTERS
	// Over says that an operator has ended the letter of a delivery, so that it is
	// about to be removed.
	Over bool `json:"over,omitempty"`
}

// NewLetter returns the line of the list for the letter l at sequence.
func NewLetter(sequence uint64, l event.Letter) Letter {
	line := Letter{
		Key: l.Key, Tenant: l.Tenant, Kind: l.Kind, Cause: l.Cause, Stage: l.Stage, Detail: l.Detail,
		Generation: l.Generation, At: utc(l.At), Size: int64(len(l.Data)), Sequence: sequence,
	}
	if l.PayloadObject != nil {
		line.Size = l.PayloadObject.Size
	}
	switch {
	case l.Event != nil:
		line.Type, line.EventID = l.Event.Type, l.Event.ID
	case l.Envelope != nil:
		line.Type, line.EventID = l.Envelope.Type, l.Envelope.ID
	}
	return line
}
