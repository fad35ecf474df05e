package dispatcher

import (
	"time"

	"tidings/streams/event"
)

// action is what a step does with a wake-up.
type action string

const (
	actAck        action = "ack"        // nothing is left to do
	actDuplicate  action = "duplicate"  // audit a redelivery
	actConflict   action = "conflict"   // the identity was used for another body
	actLetter     action = "letter"     // make sure that the dead letter exists
	actReschedule action = "reschedule" // make sure that the wake-up is scheduled
	actHold       action = "hold"       // somebody else is at work, or it is due in a moment
	actBury       action = "bury"       // make it a dead letter
	actExpire     action = "expire"     // it is stale
	actClaim      action = "claim"      // take it in hand
)

// decision is an action with its reason.
type decision struct {
	action  action
	reason  string
	until   time.Time      // hold: when to look again
	cause   event.Cause    // bury
	crashed *event.Crashed // bury, claim: the claim that ended without results
}

// look is all that a decision depends on.
type look struct {
	known bool // the event has a record
	ref   event.Ref
	state event.State
	at    time.Time // stream time of the last record

	copied  bool   // woken by a copy in EVENTS, not by a wake-up
	copySeq uint64 // its sequence
	digest  string // its payload's

	lastDelivery bool
	now          time.Time
}

// rules are the bounds that decisions obey.
type rules struct {
	me        event.Owner
	crashes   int
	staleness time.Duration // 0 = no event is stale
	skew      time.Duration // by which clocks may differ
}

// decide says what to do with a wake-up. It is pure.
func (r rules) decide(l look) decision {
	if !l.known {
		return r.first(l)
	}
	if l.copied && l.copySeq != l.ref.Sequence {
		return otherCopy(l)
	}
	s := l.state
	switch {
	case s.Phase == event.PhaseSettled:
		return decision{action: actAck, reason: "settled before: the acknowledgement was lost"}
	case s.Phase == event.PhaseDead:
		return decision{action: actLetter, reason: "a dead letter already: the acknowledgement was lost"}
	case s.Phase == event.PhaseWaiting && s.Waits == event.WaitBusy:
		return r.room(l)
	case s.Phase == event.PhaseWaiting && l.now.Before(s.Due) && s.Due.Sub(l.now) <= r.skew:
		// Its wake-up comes by the log's clock: another one would come at once.
		return decision{action: actHold, reason: "due in a moment", until: s.Due}
	case s.Phase == event.PhaseWaiting && l.now.Before(s.Due):
		return decision{action: actReschedule, reason: "not due yet"}
	case s.Phase == event.PhaseClaimed && r.holds(s.Claim.Owner) && l.now.Before(r.leaseEnd(l)):
		return decision{action: actHold, reason: "claimed by a live owner", until: r.leaseEnd(l)}
	}
	return r.takeUp(l)
}

// first decides about an event without a record.
func (r rules) first(l look) decision {
	switch {
	case l.lastDelivery:
		return decision{action: actBury, cause: event.CauseMaxDeliver, reason: "delivered as often as the server may, and never claimed"}
	case r.stale(l.ref, l.now):
		return decision{action: actExpire, reason: "occurred before the staleness window"}
	}
	return decision{action: actClaim, reason: "new"}
}

// room decides about an event that was set aside. Any wake-up may be the one that
// says that there is room; whether there is, is seen before the claim.
func (r rules) room(l look) decision {
	if untouched(l.state) && r.stale(l.ref, l.now) {
		return decision{action: actExpire, reason: "waited for a channel for longer than the staleness window"}
	}
	d := r.takeUp(l)
	d.reason = "waited for a channel to have room"
	return d
}

// stale reports whether an event occurred before the staleness window. A test is
// wanted now, whatever it says.
func (r rules) stale(ref event.Ref, now time.Time) bool {
	return r.staleness > 0 && !ref.IsTest() && ref.Age(now) > r.staleness
}

// tooOldToWait reports whether an event is not set aside any more, because nobody
// wants to be told by then. An operator's word is for whenever there is room.
func (r rules) tooOldToWait(ref event.Ref, s event.State, now time.Time) bool {
	return s.Planned && s.Generation == 0 && r.stale(ref, now)
}

// otherCopy decides about a second copy in EVENTS of a known event. Of one that
// was restored without its copy the digest is not known.
func otherCopy(l look) decision {
	if l.ref.Digest != "" && l.digest != l.ref.Digest {
		return decision{action: actConflict, cause: event.CauseIDConflict, reason: "the identity is known with another body"}
	}
	return decision{action: actDuplicate, reason: "the event is known"}
}

// takeUp decides about an event that nobody holds and that has not ended.
func (r rules) takeUp(l look) decision {
	d := decision{action: actClaim, reason: "due", crashed: r.crashed(l)}
	crashes := l.state.Crashes
	if d.crashed != nil {
		crashes, d.reason = crashes+1, "its claim ended without results"
	}
	switch {
	case crashes >= r.crashes:
		d.action, d.cause, d.reason = actBury, event.CauseCrashes, "its claims ended without results too often"
	case l.lastDelivery:
		d.action, d.cause, d.reason = actBury, event.CauseMaxDeliver, "delivered as often as the server may"
	}
	return d
}

// crashed returns the fact about a claim that is still in force although its
// owner is gone, or nil.
func (r rules) crashed(l look) *event.Crashed {
	if l.state.Phase != event.PhaseClaimed {
		return nil
	}
	c := l.state.Claim
	reason := "lease_expired"
	if !r.holds(c.Owner) {
		reason = "owner_gone"
	}
	return &event.Crashed{Claim: c.ID, Owner: c.Owner, Reason: reason}
}

// holds reports whether an owner may still be at work. This instance's earlier
// boots are gone: the lock on the data directory proves it. Its present boot
// holds no claim either when a step looks at it, because a key in hand is never
// looked at by a second step: such a claim was given up without a result.
func (r rules) holds(o event.Owner) bool { return o.Instance != r.me.Instance }

// leaseEnd is when the claim in force is certainly over, on any clock.
func (r rules) leaseEnd(l look) time.Time { return l.at.Add(l.state.Claim.Lease()).Add(r.skew) }

// untouched reports whether nothing was ever tried for an event, in no generation.
func untouched(s event.State) bool {
	return s.Generation == 0 && !s.Planned && s.Lost == nil
}
