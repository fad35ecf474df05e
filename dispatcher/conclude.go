package dispatcher

import (
	"cmp"
	"fmt"
	"time"

	"tidings/streams/event"
)

// The reasons for giving up on a message.
const (
	gaveUpPermanent = "permanent"          // the provider refused for good
	gaveUpHeld      = "held"               // its fate is unknown and its channel does not resend
	gaveUpRounds    = "rounds_exhausted"   // it failed in every round
	gaveUpDeferred  = "deferral_exhausted" // rate limits put it off for too long
	gaveUpNoPlan    = "not_in_plan"        // the configuration in force does not produce it any more
	gaveUpChannel   = "no_channel"         // its channel is not configured any more
)

// The bounds of what rate limits put an event off by: at least so long at a time,
// at most so long in one generation.
const (
	shortestDeferral = time.Second
	longestDeferral  = 24 * time.Hour
)

// ending is how a claim ends, or that it does not end yet.
type ending struct {
	facts []event.Fact // messages given up
	again bool         // open messages can be tried now: go on
	wait  *event.Waiting
	cause event.Cause // not "" : a dead letter
	// None of the three: the event is settled.
}

// conclude says what follows from a state with all results folded in. It is
// pure. stopping means that no further try is to be started.
func conclude(s event.State, policies map[string]Policy, now time.Time, stopping bool) ending {
	var e ending
	var retry, deferred bool
	var delay time.Duration
	var earliest time.Time
	for _, i := range unfinished(s) {
		m := s.Messages[i]
		p := policies[m.Channel]
		switch {
		case !m.Open():
			e.giveUp(m, gaveUpHeld)
		case m.RoundTries >= p.Tries && s.Round >= len(p.Rounds):
			e.giveUp(m, gaveUpRounds)
		case m.RoundTries >= p.Tries:
			retry, delay = true, max(delay, p.Rounds[s.Round], m.RetryAfter.Sub(now))
		case !m.RetryAfter.IsZero():
			// Even where that time is over by now, because others took longer: what
			// burns nothing must cost time that is counted, or it has no bound.
			after := max(m.RetryAfter.Sub(now), shortestDeferral)
			if s.DeferredMS+after.Milliseconds() > longestDeferral.Milliseconds() {
				e.giveUp(m, gaveUpDeferred)
				continue
			}
			if due := now.Add(after); !deferred || due.Before(earliest) {
				deferred, earliest = true, due
			}
		default:
			e.again = true
		}
	}
	switch {
	case e.again && !stopping:
	case e.again:
		e.again, e.wait = false, &event.Waiting{Round: s.Round, Due: now, Reason: event.WaitInterrupted}
	case deferred && (!retry || earliest.Before(now.Add(delay))):
		e.wait = &event.Waiting{Round: s.Round, Due: earliest, Reason: event.WaitRateLimited}
	case retry:
		e.wait = &event.Waiting{Round: s.Round + 1, Due: now.Add(delay), Reason: event.WaitRetry}
	default:
		e.cause = deadCause(s.Apply("", now, e.facts...), policies)
	}
	return e
}

// unfinished returns the messages about which something is still to be decided.
func unfinished(s event.State) []int {
	var out []int
	for i, m := range s.Messages {
		if !m.Done && (m.State == event.MessagePending || m.State == event.MessageUncertain) {
			out = append(out, i)
		}
	}
	return out
}

func (e *ending) giveUp(m event.Message, reason string) {
	e.facts = append(e.facts, event.GaveUp{Message: m.ID, Reason: reason})
}

// undelivered says in words which messages of an ended claim an operator has to
// look at: the first, and how many more. It names no address.
func undelivered(s event.State) string {
	text, more := "", -1
	for _, m := range s.Messages {
		if m.State != event.MessageUncertain && m.State != event.MessageFailed {
			continue
		}
		if more++; more == 0 {
			text = fmt.Sprintf("%s to %s by route %s %s: %s%s", m.Channel, m.Recipient.Mask, m.Route, fate(m.State), m.Reason, answered(m))
		}
	}
	if more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

func fate(s event.MessageState) string {
	if s == event.MessageUncertain {
		return "may have been sent"
	}
	return string(s)
}

// answered says how often a message was tried, and how that ended.
func answered(m event.Message) string {
	tries := "tries"
	switch m.Tries {
	case 0:
		return ", no try is recorded"
	case 1:
		tries = "try"
	}
	return fmt.Sprintf(" after %d %s, last answer %s", m.Tries, tries, cmp.Or(m.Code, "none"))
}

// deadCause returns why a state without open messages needs an operator, or ""
// if it does not: an uncertain message that was given up before a failed one.
func deadCause(s event.State, policies map[string]Policy) event.Cause {
	var cause event.Cause
	for _, m := range s.Messages {
		switch {
		case m.State == event.MessageUncertain:
			return event.CauseUncertain
		case m.State != event.MessageFailed:
		case m.Reason != gaveUpPermanent:
			cause = event.CauseRoundsExhausted
		case cause == "" && policies[m.Channel].DeadLetterPermanent:
			cause = event.CausePermanent
		}
	}
	return cause
}
