package dispatcher

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"tidings/streams/event"
)

// The reasons for giving up on a message.
const (
	gaveUpPermanent = "permanent"          // the provider refused for good
	gaveUpHeld      = "held"               // its fate is unknown and its channel does not resend
	gaveUpRounds    = "rounds_exhausted"   // it failed in every round
	gaveUpDeferred  = "deferral_exhausted" // rate limits put it off for too long, or its channel had no room
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
	aside []string    // the ways to wait for, if for any
	timed bool        // the wait ends at its due time, whatever the ways do
	cause event.Cause // not "" : a dead letter
	// None of the three: the event is settled.
}

// outlook is what a conclusion depends on beside the state.
type outlook struct {
	policies map[string]Policy
	room     func(event.Message) int    // messages like it that may be tried now
	way      func(event.Message) string // by which it leaves
	now      time.Time
	stopping bool // no further try is to be started
	late     bool // the event is too old to wait for a channel
}

// conclude says what follows from a state with all results folded in. It is
// pure.
func conclude(s event.State, o outlook) ending {
	policies, now := o.policies, o.now
	var e ending
	var retry, deferred bool
	var due, earliest time.Time
	for _, i := range unfinished(s) {
		m := s.Messages[i]
		p := policies[m.Channel]
		switch {
		case !m.Open():
			e.giveUp(m, gaveUpHeld)
		case m.RoundTries >= p.Tries && s.Round >= len(p.Rounds):
			e.giveUp(m, gaveUpRounds)
		case m.RoundTries >= p.Tries:
			retry, due = true, latest(due, m.ChangedAt.Add(p.Rounds[s.Round]), m.RetryAfter)
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
		case o.room(m) > 0:
			e.again = true
		case o.late:
			e.giveUp(m, gaveUpDeferred)
		case !slices.Contains(e.aside, o.way(m)):
			e.aside = append(e.aside, o.way(m))
		}
	}
	busy := len(e.aside) > 0
	switch {
	case e.again && !o.stopping:
	case e.again:
		e.again, e.aside, e.wait = false, nil, &event.Waiting{Round: s.Round, Due: now, Reason: event.WaitInterrupted}
	case deferred && (!retry || earliest.Before(due)):
		e.aside, e.wait = nil, &event.Waiting{Round: s.Round, Due: earliest, Reason: event.WaitRateLimited}
	case retry && !busy:
		e.wait = &event.Waiting{Round: s.Round + 1, Due: latest(due, now), Reason: event.WaitRetry}
	case busy:
		// The next round begins when it is due, and not when there is room.
		e.wait, e.timed = &event.Waiting{Round: s.Round, Due: now.Add(longestAside), Reason: event.WaitBusy, Channel: channelOf(e.aside[0])}, retry
		if retry {
			e.wait.Due = latest(due, now)
		}
	default:
		e.cause = deadCause(s.Apply("", now, e.facts...), policies)
	}
	return e
}

// latest returns the last of the times.
func latest(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }

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
