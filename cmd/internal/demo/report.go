package demo

import (
	"fmt"
	"strings"

	"tidings/cmd/internal/api"
	"tidings/store"
	"tidings/streams/event"
)

// Report is what became of the samples. Its JSON is what demo --json prints.
type Report struct {
	Events          []Event  `json:"events"`
	DeadLetters     []Letter `json:"dead_letters"`
	SMTPReceived    int      `json:"smtp_received"`    // mails that the catcher took
	WebhookReceived int      `json:"webhook_received"` // requests that the sink got, whatever it answered
	OK              bool     `json:"ok"`               // every row is as expected
	// Problems says what is not as expected, in words.
	Problems []string `json:"-"`
}

// Event is one row of the ledger.
type Event struct {
	Tenant     string         `json:"tenant"`
	Source     string         `json:"source"`
	EventID    string         `json:"event_id"`
	IDSource   event.IDSource `json:"id_source"`
	Type       string         `json:"type"`
	Outcome    event.Outcome  `json:"outcome"`
	Messages   event.Counts   `json:"messages"`
	Tries      int            `json:"tries"`
	Duplicates int            `json:"duplicates"`

	Shows string `json:"-"` // which sample it is
}

// Letter is one dead letter.
type Letter struct {
	Key    event.Key   `json:"key"`
	Cause  event.Cause `json:"cause"`
	Stage  event.Stage `json:"stage"`
	Detail string      `json:"-"`
}

// judge compares what the ledger and the receivers say with what the samples
// expect.
func judge(samples []sample, rows []store.Row, letters []api.LetterLine, smtp, webhooks int) Report {
	r := Report{Events: []Event{}, DeadLetters: []Letter{}, SMTPReceived: smtp, WebhookReceived: webhooks}
	byCorrelation := map[string][]store.Row{}
	for _, row := range rows {
		byCorrelation[row.CorrelationID] = append(byCorrelation[row.CorrelationID], row)
	}
	expected := 0
	for _, s := range samples {
		found := byCorrelation[s.correlation()]
		for _, row := range found {
			r.Events = append(r.Events, eventOf(row, s))
		}
		r.judgeRow(s, found)
		if s.Expect.Outcome != "" {
			expected++
		}
	}
	if len(rows) != expected {
		r.problem("the ledger has %d rows, expected %d", len(rows), expected)
	}
	r.judgeLetters(samples, letters)
	r.judgeReceivers(samples, rows)
	r.OK = len(r.Problems) == 0
	return r
}

func (r *Report) problem(format string, args ...any) {
	r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
}

func eventOf(row store.Row, s sample) Event {
	return Event{
		Tenant: row.Tenant, Source: row.Source, EventID: row.EventID, IDSource: row.IDSource, Type: row.Type,
		Outcome: row.Outcome, Messages: row.Messages, Tries: row.Tries, Duplicates: row.Duplicates, Shows: s.Name,
	}
}

func (r *Report) judgeRow(s sample, found []store.Row) {
	want := s.Expect
	if want.Outcome == "" {
		if len(found) > 0 {
			r.problem("%s: it has %d rows in the ledger, expected none", s.Name, len(found))
		}
		return
	}
	if len(found) != 1 {
		r.problem("%s: it has %d rows in the ledger, expected 1", s.Name, len(found))
		return
	}
	row := found[0]
	got := expectation{
		Outcome: row.Outcome, IDSource: row.IDSource, Messages: row.Messages,
		Tries: row.Tries, Duplicates: row.Duplicates, DeadLetter: row.Cause,
		Unreached: want.Unreached,
	}
	if want.IDSource == "" {
		want.IDSource = got.IDSource
	}
	if got != want {
		r.problem("%s: got %+v, expected %+v", s.Name, got, want)
	}
}

func (r *Report) judgeLetters(samples []sample, letters []api.LetterLine) {
	want, got := map[event.Cause]int{}, map[event.Cause]int{}
	for _, s := range samples {
		if s.Expect.DeadLetter != "" {
			want[s.Expect.DeadLetter]++
		}
	}
	for _, l := range letters {
		got[l.Cause]++
		r.DeadLetters = append(r.DeadLetters, Letter{Key: l.Key, Cause: l.Cause, Stage: l.Stage, Detail: l.Detail})
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		r.problem("dead letters: got %v, expected %v", got, want)
	}
}

// judgeReceivers holds the ledger against what really arrived.
func (r *Report) judgeReceivers(samples []sample, rows []store.Row) {
	tries := 0
	for _, row := range rows {
		tries += row.Tries
	}
	for _, s := range samples {
		tries -= s.Expect.Unreached
	}
	if received := r.SMTPReceived + r.WebhookReceived; received != tries {
		r.problem("by the ledger %d calls were received, and the receivers had %d", tries, received)
	}
}

// Summary returns the report's last line.
func (r Report) Summary() string {
	if r.OK {
		return "every row is as expected"
	}
	return "NOT as expected:\n  " + strings.Join(r.Problems, "\n  ")
}
