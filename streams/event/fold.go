package event

import (
	"slices"
	"time"
)

// Apply returns the state after one record: the facts of one change, made at
// the time at under the record id id. It never fails: a fact that makes no
// sense in a state changes nothing.
//
//   - An ended state absorbs everything but Requeued, Discarded (of a dead letter),
//     Restored, and the evidence that a message was delivered; on a dead letter that was never planned, that needs
//     the plan which names the message.
//   - delivered beats every other state of a message; uncertain is left only
//     for delivered, or by a requeue.
func (s State) Apply(id string, at time.Time, facts ...Fact) State {
	s.Messages = slices.Clone(s.Messages)
	s.Revision++
	if s.StartedAt.IsZero() {
		s.StartedAt = at
	}
	s.ChangedAt = at
	for _, f := range facts {
		s.apply(id, at, f)
	}
	s.Outcome = s.outcome()
	return s
}

func (s *State) apply(id string, at time.Time, f Fact) {
	if restored, ok := f.(Restored); ok {
		s.restore(restored)
		return
	}
	if s.Ended() {
		s.applyEnded(at, f)
		return
	}
	switch f := f.(type) {
	case Claimed:
		s.claimed(id, f)
	case Crashed:
		s.crashed(at, f)
	case Planned:
		s.plan(at, f)
	case Tried:
		s.tried(f)
	case Withheld:
		s.end(f.Message, MessageSuppressed, f.Reason, at)
	case GaveUp:
		s.end(f.Message, MessageFailed, f.Reason, at)
	case Expired:
		s.Nothing = Stale
	case Waiting:
		s.wait(at, f)
	case Settled:
		s.phase(PhaseSettled)
	case Dead:
		s.phase(PhaseDead)
		s.Cause = f.Cause
	case Requeued, Discarded, Restored, UnknownFact:
		// Only an ended event can be requeued or discarded; what is unknown is only
		// kept.
	}
}

func (s *State) applyEnded(at time.Time, f Fact) {
	switch f := f.(type) {
	case Tried:
		if f.Result == TryDelivered {
			s.tried(f)
		}
	case Planned:
		if s.Phase == PhaseDead {
			s.plan(at, f)
		}
	case Requeued:
		s.requeued(at, f)
	case Discarded:
		if s.Phase == PhaseDead {
			s.phase(PhaseSettled)
			s.Discarded = true
		}
	}
}

// phase moves to a phase in which nobody holds the event.
func (s *State) phase(p Phase) {
	s.Phase, s.Claim, s.Due, s.Waits = p, nil, time.Time{}, ""
}

func (s *State) claimed(id string, f Claimed) {
	s.phase(PhaseClaimed)
	s.Claim = &Claim{ID: id, Owner: f.Owner, LeaseMS: f.LeaseMS, Limit: f.Limit, Config: f.Config, Messages: f.Messages}
	if f.Round != s.Round {
		s.startRound(f.Round)
	}
}

func (s *State) startRound(round int) {
	s.Round = round
	for i := range s.Messages {
		s.Messages[i].RoundTries = 0
	}
}

// crashed counts the crash and makes uncertain what the lost claim may have
// been sending: the messages that it named and that are still open. A claim made
// before the plan was frozen names none, so it is noted for the plan.
func (s *State) crashed(at time.Time, f Crashed) {
	if s.Claim == nil || s.Claim.ID != f.Claim {
		return
	}
	s.Crashes++
	if s.Planned {
		s.doubt(s.Claim.Messages, at)
	} else {
		s.lose(*s.Claim)
	}
	s.phase(PhaseOpen)
}

// doubt makes the given messages uncertain where they are still open.
func (s *State) doubt(ids []string, at time.Time) {
	for _, id := range ids {
		if m := s.Message(id); m != nil && m.Open() {
			m.State, m.ChangedAt = MessageUncertain, at
		}
	}
}

// lose notes a claim that crashed without a plan, beside those before it: what
// the plan says of one, it must say of all.
func (s *State) lose(c Claim) {
	lost := Lost{Limit: c.Limit, Config: c.Config}
	if s.Lost != nil {
		lost.Limit = wider(s.Lost.Limit, c.Limit)
		if s.Lost.Config != c.Config {
			lost.Config = "several"
		}
	}
	s.Lost = &lost
}

// wider returns the limit that allows more; zero is no bound.
func wider(a, b int) int {
	if a <= 0 || b <= 0 {
		return 0
	}
	return max(a, b)
}

// plan freezes the messages. A plan with more messages than a claim may try is
// written before the first of them is sent, so after a crash without a plan
// such messages are certainly unsent, unless the configuration changed since.
func (s *State) plan(at time.Time, f Planned) {
	if s.Planned {
		return
	}
	s.Planned, s.Nothing = true, f.Nothing
	for _, m := range f.Messages {
		if s.Message(m.ID) != nil {
			continue // no fact could ever reach the second, and the event would not end
		}
		s.Messages = append(s.Messages, Message{
			ID: m.ID, Route: m.Route, Channel: m.Channel, Template: m.Template, Version: m.Version,
			Locale: m.Locale, Recipient: m.Recipient, OnUnknown: m.OnUnknown, Category: m.Category, Degraded: m.Degraded,
			State: MessagePending, ChangedAt: at,
		})
	}
	s.nameInClaim()
	if s.Lost != nil && (s.Lost.covers(len(f.Messages)) || s.Lost.Config != f.Config) {
		for i := range s.Messages {
			if m := &s.Messages[i]; m.State != MessageDelivered { // of a generation before an edit
				m.State = MessageUncertain
			}
		}
	}
	s.Lost = nil
}

// nameInClaim makes a claim that was made before the plan answer for all of it.
func (s *State) nameInClaim() {
	if s.Claim == nil {
		return
	}
	c := *s.Claim // the state before shares the claim
	c.Messages = nil
	for _, m := range s.Messages {
		c.Messages = append(c.Messages, m.ID)
	}
	s.Claim = &c
}

func (s *State) tried(f Tried) {
	m := s.Message(f.Message)
	if m == nil {
		return
	}
	m.Tries++
	if f.Result != TryRateLimited && f.Round == s.Round {
		m.RoundTries++
	}
	if m.State == MessageDelivered {
		return
	}
	m.Code, m.ChangedAt, m.RetryAfter = f.Code, f.Ended, f.RetryAfter
	switch f.Result {
	case TryDelivered:
		m.State, m.Done, m.Reason, m.Via = MessageDelivered, true, "", f.Via
	case TryUnknown:
		m.State, m.Via = MessageUncertain, f.Via
	case TryPermanent, TryTransient, TryRateLimited:
		// Whether more tries follow is a decision, and another fact.
	}
}

// end closes a message that is not closed yet, in the given state unless it is
// uncertain and stays that.
func (s *State) end(id string, to MessageState, reason string, at time.Time) {
	m := s.Message(id)
	if m == nil || m.Done {
		return
	}
	if m.State != MessageUncertain {
		m.State = to
	}
	m.Done, m.Reason, m.ChangedAt = true, reason, at
}

func (s *State) wait(at time.Time, f Waiting) {
	s.phase(PhaseWaiting)
	s.Due, s.Waits = f.Due, f.Reason
	if f.Reason == WaitRateLimited {
		s.DeferredMS += max(0, f.Due.Sub(at).Milliseconds())
	}
	if f.Round != s.Round {
		s.startRound(f.Round)
	}
}

func (s *State) requeued(at time.Time, f Requeued) {
	if f.Generation != s.Generation+1 {
		return
	}
	s.phase(PhaseOpen)
	s.Generation, s.Crashes, s.DeferredMS, s.Cause, s.Lost = f.Generation, 0, 0, "", nil
	s.Discarded = false
	if f.Edit != nil {
		s.Edited = &Edited{Generation: f.Generation, Digest: f.Edit.Digest, Size: f.Edit.Size}
		s.Messages = slices.DeleteFunc(s.Messages, s.leavesPlan)
	}
	if len(s.Messages) == 0 || f.Edit != nil {
		s.Planned, s.Nothing = false, "" // what was missing may be there now
	}
	s.startRound(0)
	for i := range s.Messages {
		m := &s.Messages[i]
		if m.State != MessageDelivered && f.names(m.ID) {
			m.State, m.Done, m.Reason, m.Via, m.RetryAfter, m.ChangedAt = MessagePending, false, "", "", time.Time{}, at
		}
	}
}

// leavesPlan reports whether a message is taken out of the plan by an edit. Its calls
// were made nevertheless.
func (s *State) leavesPlan(m Message) bool {
	if m.State == MessageDelivered {
		return false
	}
	s.EarlierTries += m.Tries
	return true
}

func (f Requeued) names(id string) bool {
	return len(f.Messages) == 0 || slices.Contains(f.Messages, id)
}

// restore takes over the state of another account, which is the longer one. What
// this one knows as delivered stays delivered.
func (s *State) restore(f Restored) {
	was := *s
	*s = f.State
	s.Messages = slices.Clone(f.State.Messages)
	s.Revision = max(was.Revision, f.State.Revision+1)
	s.ChangedAt = was.ChangedAt
	for _, m := range was.Messages {
		switch known := s.Message(m.ID); {
		case m.State != MessageDelivered:
		case known == nil:
			s.Messages = append(s.Messages, m)
		default:
			*known = m
		}
	}
}
