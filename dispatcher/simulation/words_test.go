package simulation

import (
	"encoding/json"
	"fmt"
	"strings"

	"tidings/streams"
	"tidings/streams/event"
)

// describe says in words what is asked of the log. It says the same in every run
// of a seed.
func (w *world) describe(r *request) string {
	name := r.stream.cfg.Name
	switch r.kind {
	case asksAppend:
		after := headers(r.header).Get("Nats-Expected-Last-Subject-Sequence")
		if after != "" {
			after = " after " + after
		}
		return fmt.Sprintf("appends to %s%s: %s %s", name, after, w.name(r.subject, r.header), contents(r))
	case asksRead:
		if r.subject != "" {
			return fmt.Sprintf("reads %s: %s after %d", name, w.nameOf(w.keyIn(r.subject)), r.sequence)
		}
		return fmt.Sprintf("reads %s: entry %d", name, r.sequence)
	case asksDelete:
		return fmt.Sprintf("deletes entry %d of %s", r.sequence, name)
	case asksAck:
		return fmt.Sprintf("acknowledges entry %d of %s", r.sequence, name)
	}
	return string(r.kind)
}

// contents says what is to be stored.
func contents(r *request) string {
	switch h := headers(r.header); {
	case r.stream.cfg.Name == streams.RetriesStream:
		return strings.TrimSpace("wake-up " + h.Get("Nats-Schedule"))
	case r.stream.cfg.Name == streams.DeadLettersStream:
		return fmt.Sprintf("letter %s of generation %s", h.Get(streams.HeaderCause), h.Get(streams.HeaderGeneration))
	case r.stream.cfg.Name == streams.EventsStream:
		return string(r.data)
	case strings.HasPrefix(r.subject, "audit."):
		return "audit: " + h.Get(streams.HeaderKind)
	}
	rec, err := event.DecodeRecord(r.data)
	if err != nil {
		return err.Error()
	}
	return inFacts(rec)
}

// inFacts returns the facts of a record in words.
func inFacts(rec event.Record) string {
	var facts []string
	for _, f := range rec.Facts {
		text := string(f.FactKind())
		switch f := f.(type) {
		case event.Claimed:
			text += fmt.Sprint(f.Messages)
		case event.Tried:
			text += fmt.Sprintf("(%s %s)", f.Code, f.Result)
		case event.GaveUp:
			text += fmt.Sprintf("(%s %s)", f.Message, f.Reason)
		case event.Withheld:
			text += fmt.Sprintf("(%s)", f.Message)
		case event.Crashed:
			text += fmt.Sprintf("(%s%s %s)", f.Owner.Instance, f.Owner.Boot, f.Reason)
		case event.Waiting:
			text += fmt.Sprintf("(%s)", f.Reason)
		case event.Dead:
			text += fmt.Sprintf("(%s)", f.Cause)
		case event.Requeued:
			text += fmt.Sprintf("(%d)", f.Generation)
		}
		facts = append(facts, text)
	}
	return string(rec.Kind) + ": " + strings.Join(facts, " ")
}

// inWords says what the server answered.
func inWords(r *request, a answer) string {
	var said struct {
		Seq     uint64 `json:"seq"`
		Dup     bool   `json:"duplicate"`
		Message *struct {
			Seq uint64 `json:"seq"`
		} `json:"message"`
		Error *struct {
			Description string `json:"description"`
		} `json:"error"`
	}
	if json.Unmarshal(a.data, &said) == nil {
		switch {
		case said.Error != nil:
			return said.Error.Description
		case said.Message != nil:
			return fmt.Sprint(said.Message.Seq)
		case said.Dup:
			return fmt.Sprintf("%d, a duplicate", said.Seq)
		case said.Seq > 0 && r.kind == asksAppend:
			return fmt.Sprint(said.Seq)
		}
	}
	if seq := headers(a.header).Get("Nats-Sequence"); seq != "" {
		return seq
	}
	if r.kind == asksRead {
		return "nothing"
	}
	return ""
}
