package dispatcher

import (
	"time"

	"tidings/streams/event"
)

// roundOf returns the round that a claim made now is of. A wait for room begins
// none; its due time does, where a message has used up its tries and waits for it.
func roundOf(s event.State, policies map[string]Policy, now time.Time) int {
	if s.Waits == event.WaitBusy && !now.Before(s.Due) && anotherRound(s, policies) {
		return s.Round + 1
	}
	return s.Round
}

// anotherRound reports whether a message waits for the next round.
func anotherRound(s event.State, policies map[string]Policy) bool {
	for _, i := range s.Open() {
		m := s.Messages[i]
		p := policies[m.Channel]
		if m.RoundTries >= p.Tries && s.Round < len(p.Rounds) {
			return true
		}
	}
	return false
}

// begun returns the state in which a claim made now would find the messages.
func begun(s event.State, policies map[string]Policy, now time.Time) event.State {
	round := roundOf(s, policies, now)
	if round == s.Round {
		return s
	}
	return s.Apply("", now, event.Claimed{Round: round})
}

// everywhere is the room of a claim that every channel has room for.
func everywhere(event.Message) int { return claimLimit }

// ready returns the messages that a new claim may try: open, with tries left in
// the round, not put off by their provider, and no more of a channel than it has
// room for.
func (d *Dispatcher) ready(policies map[string]Policy, s event.State, room func(event.Message) int) []event.Message {
	var ready []event.Message
	for _, i := range s.Open() {
		m := s.Messages[i]
		if m.RoundTries >= policies[m.Channel].Tries || m.RetryAfter.After(d.now()) {
			continue
		}
		if len(ready) == claimLimit {
			break
		}
		if n := room(m); n >= claimLimit || countOn(ready, m.Channel) < n {
			ready = append(ready, m)
		}
	}
	return ready
}

func countOn(messages []event.Message, channel string) (n int) {
	for _, m := range messages {
		if m.Channel == channel {
			n++
		}
	}
	return n
}
