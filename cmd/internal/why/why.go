// Package why tells the history of one event in words: every record and every
// duplicate in order, each fact with its reason.
//
// # What to believe
//
//   - [Tell] is pure. It leaves nothing out: what this version does not know is
//     shown as it stands in the history.
//   - The words hold what the history holds: no address, no payload, no words
//     of a provider.
package why

import (
	"fmt"
	"strings"
	"time"

	"tidings/store"
	"tidings/streams/event"
)

// Story is the history of one event in words. Its JSON is what the commands print.
type Story struct {
	Event store.Row `json:"event"`
	Title string    `json:"title"`
	Lines []Line    `json:"lines"`
}

// Line is one thing that happened. Lines with the same sequence were recorded
// together.
type Line struct {
	Sequence uint64    `json:"sequence,omitempty"` // in OUTCOMES; 0 for the arrival
	At       time.Time `json:"at"`
	What     string    `json:"what"` // the kind of the fact, or received, duplicate, unknown
	Text     string    `json:"text"`
	Details  []string  `json:"details,omitempty"`
	// Needed is what it would have taken, where the event came to nothing.
	Needed []string `json:"needed,omitempty"`
}

// Tell returns the story of the event in row. history holds all its entries, in order.
func Tell(row store.Row, history []store.Entry) Story {
	t := teller{row: row, messages: map[string]event.PlannedMessage{}}
	t.received()
	if len(history) > 0 && history[0].Revision > 1 {
		t.line("forgotten", fmt.Sprintf("the first %d records are beyond the horizon", history[0].Revision-1))
	}
	for _, e := range history {
		t.entry(e)
	}
	return Story{Event: row, Title: title(row), Lines: t.lines}
}

// TellOn is Tell for a part of the history that is not the first: it begins with
// what the entries say. messages are those of the event, by which they are named.
func TellOn(row store.Row, messages []event.Message, history []store.Entry) Story {
	t := teller{row: row, messages: map[string]event.PlannedMessage{}}
	for _, m := range messages {
		t.messages[m.ID] = event.PlannedMessage{
			ID: m.ID, Route: m.Route, Channel: m.Channel, Template: m.Template, Locale: m.Locale, Recipient: m.Recipient,
		}
	}
	for _, e := range history {
		t.entry(e)
	}
	return Story{Event: row, Title: title(row), Lines: t.lines}
}

func title(row store.Row) string {
	if row.Test {
		return fmt.Sprintf("test %q of %s by an operator of tenant %q: %s", row.EventID, row.Type, row.Tenant, standing(row))
	}
	return fmt.Sprintf("%s %q of tenant %q%s: %s", row.Type, row.EventID, row.Tenant, from(row.Source), standing(row))
}

func from(source string) string {
	if source == "" {
		return ""
	}
	return fmt.Sprintf(" from %q", source)
}

// standing says where the event stands now.
func standing(row store.Row) string {
	switch row.Phase {
	case event.PhaseWaiting:
		return "waiting until " + clock(row.Due)
	case event.PhaseDead:
		return fmt.Sprintf("%s, a dead letter (%s)", row.Outcome, row.Cause)
	case event.PhaseSettled:
		return string(row.Outcome)
	case event.PhaseClaimed:
		return "being worked on"
	case event.PhaseOpen:
	}
	return "to be claimed"
}

// teller collects the lines of one story.
type teller struct {
	row      store.Row
	messages map[string]event.PlannedMessage
	current  store.Entry
	lines    []Line
}

func (t *teller) line(what, text string, details ...string) {
	t.lines = append(t.lines, Line{
		Sequence: t.current.Sequence, At: t.at(), What: what, Text: text, Details: details,
	})
}

// at is when the current entry was written; the arrival has no entry.
func (t *teller) at() time.Time {
	switch {
	case !t.current.At.IsZero():
		return t.current.At
	case !t.current.StoredAt.IsZero():
		return t.current.StoredAt
	}
	return t.row.ReceivedAt
}

func (t *teller) received() {
	details := []string{idInWords(t.row.IDSource)}
	if t.row.Test {
		details = []string{"a test: its id was given by an operator, and its messages go to one address only"}
	}
	if other := t.row.AMQPMessageID; other != "" {
		details = append(details, fmt.Sprintf("its AMQP message-id is another, %q: the one of the CloudEvent counts", other))
	}
	if t.row.OccurredAt.IsZero() {
		details = append(details, "the producer did not say when it occurred, so its age counts from here")
	} else {
		details = append(details, "occurred at "+clock(t.row.OccurredAt)+", "+span(t.row.ReceivedAt.Sub(t.row.OccurredAt))+" before")
	}
	t.line("received", fmt.Sprintf("stored in EVENTS at %d", t.row.Sequence), details...)
}

func (t *teller) entry(e store.Entry) {
	t.current = e
	switch {
	case e.Unknown != nil:
		t.line("unknown", "an entry that this version does not understand: "+e.Unknown.Problem, "subject "+e.Unknown.Subject)
	case e.Skip != nil:
		t.line("skip", fmt.Sprintf("entry %d, which cannot be folded, is skipped by %s: %s", e.Skip.Sequence, e.Skip.Operator, e.Skip.Reason), e.Skip.Problem)
	case e.Redelivery != nil:
		t.duplicate(*e.Redelivery)
	case e.Operation != nil:
		t.operation(*e.Operation)
	case e.Kind == event.KindLate && (e.Phase == event.PhaseSettled || e.Phase == event.PhaseDead):
		t.facts("late, after the event had ended: ")
	case e.Kind == event.KindLate:
		t.facts("late, after its claim was taken over: ")
	default:
		t.facts("")
	}
}

// facts tells the facts of the current record, each with the preface.
func (t *teller) facts(preface string) {
	for _, f := range t.current.Facts {
		text, details := t.fact(f)
		t.line(string(f.FactKind()), preface+text, details...)
		t.lines[len(t.lines)-1].Needed = t.needed(f)
	}
}

func (t *teller) duplicate(r store.Redelivery) {
	times := "again"
	switch {
	case r.Count > 1 && !r.Since.IsZero():
		times = fmt.Sprintf("again %d times from %s to %s", r.Count, clock(r.Since), clock(t.current.At))
	case r.Count > 1:
		times = fmt.Sprintf("again %d times", r.Count)
	}
	by := ""
	if r.Delivery != "" {
		by = " by " + r.Delivery
	}
	t.line("duplicate", fmt.Sprintf("came %s%s: known already, so nothing was done", times, by),
		fmt.Sprintf("recognised by %s, at %d in %s", part(r.Stage), r.Sequence, r.Stream))
}

// operation tells how the event came of a dead letter.
func (t *teller) operation(op event.Operation) {
	changed := ""
	if len(op.Changed) > 0 {
		changed = ", with another " + strings.Join(op.Changed, ", ")
	}
	if op.Duplicate {
		changed += "; it was this event, which was known already"
	}
	t.line("operation", fmt.Sprintf("%s handed in a dead letter (%s) again%s: %s",
		op.Operator, op.Letter.Cause, changed, or(op.Reason, "no reason is given")), "dead letter "+string(op.Letter.Key))
}

// clock writes a time as people compare times: in UTC, to the millisecond.
func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000Z") }

// span writes a duration rounded to what matters at its size, without the
// zeros behind.
func span(d time.Duration) string {
	switch {
	case d >= time.Minute:
		d = d.Round(time.Second)
	case d >= time.Second:
		d = d.Round(time.Millisecond)
	default:
		d = d.Round(time.Microsecond)
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func count(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
