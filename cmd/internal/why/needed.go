package why

import (
	"fmt"
	"strings"

	"tidings/streams/event"
)

// needed says what it would have taken for the event to become a message there: in
// the words of the record where a plan came to nothing.
func (t *teller) needed(f event.Fact) []string {
	switch f := f.(type) {
	case event.Planned:
		return neededByRoutes(f.Routes)
	case event.Withheld:
		return []string{"no suppression of " + t.recipient(f.Message)}
	case event.Expired:
		return []string{fmt.Sprintf("it must be stored within %s of when it occurred (staleness)", ms(f.WindowMS))}
	case event.GaveUp:
		return t.neededToSend(f)
	}
	return nil
}

func neededByRoutes(routes []event.RouteDecision) []string {
	var out []string
	for _, r := range routes {
		if r.Needed == "" {
			continue
		}
		text := r.Needed
		if r.Route != "" {
			text = fmt.Sprintf("route %q: %s", r.Route, r.Needed)
		}
		if len(r.Locales) > 0 {
			text += ", in " + strings.Join(r.Locales, " or ")
		}
		if len(r.Missing) > 0 {
			text += "; the event has no " + strings.Join(r.Missing, ", no ")
		}
		out = append(out, text)
	}
	return out
}

func (t *teller) neededToSend(f event.GaveUp) []string {
	m := t.messages[f.Message]
	switch {
	case f.Reason == "no_channel" && m.Channel != "":
		return []string{fmt.Sprintf("channel %q must be configured", m.Channel)}
	case f.Reason == "not_in_plan" && m.Route != "":
		return []string{fmt.Sprintf("route %q must still tell this recipient", m.Route)}
	}
	return nil
}

// recipient names whom a message goes to, and by what.
func (t *teller) recipient(id string) string {
	if m, ok := t.messages[id]; ok {
		return fmt.Sprintf("%s on channel %q", m.Recipient.Mask, m.Channel)
	}
	return "the recipient of message " + id
}
