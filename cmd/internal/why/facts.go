package why

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"tidings/streams/event"
)

// fact returns the words for a fact of the current record.
func (t *teller) fact(f event.Fact) (text string, details []string) {
	switch f := f.(type) {
	case event.Claimed:
		return t.claimed(f)
	case event.Crashed:
		return crashed(f)
	case event.Planned:
		return t.planned(f)
	case event.Tried:
		return t.tried(f)
	case event.Withheld:
		return t.name(f.Message) + " suppressed at the moment of sending: " + or(f.Reason, "no reason is given"), nil
	case event.GaveUp:
		return t.name(f.Message) + ": no further try: " + words(gaveUpReasons(), f.Reason), nil
	case event.Expired:
		return fmt.Sprintf("%s old, and older than %s is stale: nothing is sent", ms(f.AgeMS), ms(f.WindowMS)), nil
	case event.Waiting:
		return t.waiting(f), nil
	case event.Settled:
		return "ended: " + string(t.current.Outcome), nil
	case event.Dead:
		return dead(f)
	case event.Requeued:
		return t.requeued(f)
	case event.Discarded:
		return fmt.Sprintf("discarded by %s: %s", or(f.Operator, "somebody"), or(f.Reason, "no reason is given")), nil
	case event.Restored:
		return restored(f)
	}
	return unknown(f)
}

// claimed tells a claim that starts work from one that is renewed with what was
// done under it: then the event does not begin again.
func (t *teller) claimed(f event.Claimed) (string, []string) {
	if next, renewed := t.renewed(f); renewed {
		return "kept in hand" + next, []string{fmt.Sprintf("by %s, for at most %s", owner(f.Owner), ms(f.LeaseMS))}
	}
	text := "taken in hand for " + round(f.Round)
	if f.Generation > 0 {
		text += fmt.Sprintf(" of generation %d", f.Generation)
	}
	return text, []string{
		fmt.Sprintf("by %s, for at most %s and %s", owner(f.Owner), ms(f.LeaseMS), count(f.Limit, "message")),
	}
}

// renewed reports whether the claim stands in one record with a plan or with
// results, and what it is kept for.
func (t *teller) renewed(f event.Claimed) (next string, yes bool) {
	var planned, results bool
	for _, other := range t.current.Facts {
		switch other.(type) {
		case event.Planned:
			planned = true
		case event.Tried, event.Withheld, event.GaveUp:
			results = true
		}
	}
	n := len(f.Messages)
	switch {
	case n > 0 && results:
		next = fmt.Sprintf(": to try %s", count(n, "more message"))
	case n > 0:
		next = fmt.Sprintf(": to try %s", count(n, "message"))
	case results:
		next = ": to write the dead letter"
	}
	return next, planned || results
}

func round(n int) string {
	if n == 0 {
		return "the first round"
	}
	return fmt.Sprintf("retry round %d", n)
}

func owner(o event.Owner) string { return fmt.Sprintf("instance %s (boot %s)", o.Instance, o.Boot) }

func crashed(f event.Crashed) (string, []string) {
	return "the claim ended without results: " + words(crashReasons(), f.Reason), []string{
		"it was held by " + owner(f.Owner),
		"what it may have been sending counts as uncertain",
	}
}

func (t *teller) planned(f event.Planned) (string, []string) {
	var details []string
	for _, r := range f.Routes {
		details = append(details, decision(r))
	}
	for _, m := range f.Messages {
		t.messages[m.ID] = m
		details = append(details, message(m))
	}
	text := "planned " + count(len(f.Messages), "message")
	switch f.Nothing {
	case event.NoTemplate:
		text = "nothing to send: no route, or no template, for events of type " + t.row.Type
	case event.NoRecipient:
		text = "nothing to send: nobody to tell"
	}
	if f.Config != "" {
		details = append(details, "by configuration "+f.Config)
	}
	return text, details
}

func decision(r event.RouteDecision) string {
	if r.Route == "" { // it is about all of them
		if r.Needed != "" {
			return r.Detail
		}
		return r.Detail + ": add a route, or leave it at that"
	}
	text := fmt.Sprintf("route %q: ", r.Route)
	switch r.Verdict {
	case "planned":
		text += count(r.Count, "message")
	case "condition_false":
		if strings.HasPrefix(r.Detail, "when") { // it says so itself
			return text + "not used: " + r.Detail
		}
		text += "not used, its condition is not true"
	case "no_recipient":
		text += "nobody to tell"
	case "no_template":
		text += "no template"
	default:
		text += r.Verdict
	}
	if r.Detail != "" {
		text += ": " + r.Detail
	}
	return text
}

func message(m event.PlannedMessage) string {
	text := fmt.Sprintf("message %s: %s to %s by route %q", m.ID, m.Channel, m.Recipient.Mask, m.Route)
	if m.Template != "" {
		text += fmt.Sprintf(", template %q", m.Template)
	}
	if m.Locale != "" {
		text += " in " + m.Locale
	}
	if m.Degraded != "" {
		text += ", degraded: " + m.Degraded
	}
	return text
}

// name returns what a message is called once its plan is told.
func (t *teller) name(id string) string {
	if m, ok := t.messages[id]; ok {
		return m.Channel + " to " + m.Recipient.Mask
	}
	return "message " + id
}

func (t *teller) tried(f event.Tried) (string, []string) {
	text := fmt.Sprintf("%s: %s", t.name(f.Message), results(f))
	details := fmt.Sprintf("try %d of %s, started %s, took %s", f.Try, round(f.Round), clock(f.Started), span(f.Ended.Sub(f.Started)))
	switch {
	case f.Via != "" && f.Provider != "":
		details += fmt.Sprintf(", by %s (%s)", f.Via, f.Provider)
	case f.Via != "" || f.Provider != "":
		details += ", by " + f.Via + f.Provider
	}
	return text, []string{details}
}

func results(f event.Tried) string {
	code := ""
	if f.Code != "" {
		code = " (" + f.Code + ")"
	}
	switch f.Result {
	case event.TryDelivered:
		return "delivered" + code
	case event.TryPermanent:
		return "refused for good" + code
	case event.TryTransient:
		return "not taken, and may be later" + code
	case event.TryRateLimited:
		text := "not taken, asked to come back"
		if !f.RetryAfter.IsZero() {
			text += " at " + clock(f.RetryAfter)
		}
		return text + code + "; this burns no try"
	case event.TryUnknown:
		return "uncertain" + code + ": it may have been taken, the answer is not known"
	}
	return string(f.Result) + code
}

func (t *teller) waiting(f event.Waiting) string {
	if f.Reason == event.WaitBusy {
		return fmt.Sprintf("set aside until channel %q has room for it or gets through again, at the latest until %s, for %s: this burns no round",
			f.Channel, clock(f.Due), round(f.Round))
	}
	why := words(waitReasons(), string(f.Reason))
	wait := f.Due.Sub(t.at())
	if wait <= 0 {
		return fmt.Sprintf("goes on at once with %s: %s", round(f.Round), why)
	}
	return fmt.Sprintf("waits until %s (%s) for %s: %s", clock(f.Due), span(wait), round(f.Round), why)
}

func dead(f event.Dead) (string, []string) {
	var details []string
	if f.Detail != "" {
		details = []string{f.Detail}
	}
	return fmt.Sprintf("ended as a dead letter (%s): %s", f.Cause, CauseInWords(f.Cause)), details
}

func (t *teller) requeued(f event.Requeued) (string, []string) {
	var details []string
	if f.Edit != nil {
		details = append(details, fmt.Sprintf("with an edited payload of %s, digest %s; planned anew, and under new idempotency keys",
			count(f.Edit.Size, "byte"), f.Edit.Digest))
	}
	for _, id := range f.Messages {
		details = append(details, "only "+t.name(id))
	}
	if f.Replay != "" {
		details = append(details, "by replay "+f.Replay)
	}
	return fmt.Sprintf("requeued by %s as generation %d: %s", or(f.Operator, "somebody"), f.Generation,
		or(f.Reason, "no reason is given")), details
}

func restored(f event.Restored) (string, []string) {
	account := map[event.RestoredFrom]string{event.FromLetter: "its dead letter", event.FromLedger: "the ledger"}[f.From]
	return "restored from " + or(account, string(f.From)) + ": the records before are gone from the log", []string{
		fmt.Sprintf("it was %s after %s, in generation %d", f.State.Phase, count(f.State.Revision, "record"), f.State.Generation),
	}
}

func unknown(f event.Fact) (string, []string) {
	raw, err := json.Marshal(event.Facts{f})
	if err != nil {
		return "a fact that cannot be shown: " + err.Error(), nil
	}
	return "a fact that this version does not know", []string{strings.Trim(string(raw), "[]")}
}

func ms(n int64) string { return span(time.Duration(n) * time.Millisecond) }

func or(text, instead string) string {
	if text == "" {
		return instead
	}
	return text
}
