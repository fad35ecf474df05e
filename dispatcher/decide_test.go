package dispatcher

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/streams/event"
)

var (
	now      = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	me       = event.Owner{Instance: "here", Boot: "second"}
	myPast   = event.Owner{Instance: "here", Boot: "first"}
	stranger = event.Owner{Instance: "elsewhere", Boot: "first"}
	anEvent  = event.Ref{Key: event.NewKey("k"), Tenant: "acme", ID: "1", Type: "order.placed", Sequence: 7, Digest: "abc", ReceivedAt: now}
)

// stateAfter folds facts into the state of a new event, a record each.
func stateAfter(records ...[]event.Fact) event.State {
	var s event.State
	for i, facts := range records {
		s = s.Apply("r"+string(rune('1'+i)), now, facts...)
	}
	return s
}

func claimedBy(o event.Owner) []event.Fact {
	return []event.Fact{event.Claimed{Owner: o, LeaseMS: 60_000, Limit: 64}}
}

func TestDecide(t *testing.T) {
	r := rules{me: me, crashes: 3, staleness: 168 * time.Hour, skew: 5 * time.Second}
	settled := stateAfter(claimedBy(me), []event.Fact{event.Settled{}})
	dead := stateAfter(claimedBy(me), []event.Fact{event.Dead{Cause: event.CauseCrashes}})
	waiting := stateAfter(claimedBy(me), []event.Fact{event.Waiting{Round: 1, Due: now.Add(time.Minute), Reason: event.WaitRetry}})
	busy := event.Waiting{Due: now.Add(time.Minute), Reason: event.WaitBusy, Channel: "mail"}
	aside := stateAfter([]event.Fact{busy})
	old := anEvent
	old.OccurredAt = now.Add(-200 * time.Hour)
	oldTest := old
	oldTest.Source = event.TestSource
	crashedTwice := stateAfter(claimedBy(myPast),
		append([]event.Fact{event.Crashed{Claim: "r1", Owner: myPast}}, claimedBy(myPast)...),
		append([]event.Fact{event.Crashed{Claim: "r2", Owner: myPast}}, claimedBy(myPast)...))

	for name, c := range map[string]struct {
		look look
		want decision
	}{
		"a new event is claimed":              {look{ref: anEvent}, decision{action: actClaim}},
		"a new event that is stale expires":   {look{ref: old}, decision{action: actExpire}},
		"a test is claimed however old it is": {look{ref: oldTest}, decision{action: actClaim}},
		"a new event on its last delivery is buried": {
			look{ref: anEvent, lastDelivery: true}, decision{action: actBury, cause: event.CauseMaxDeliver},
		},
		"a settled event is acknowledged": {look{known: true, ref: anEvent, state: settled}, decision{action: actAck}},
		"a settled event is acknowledged even on the last delivery": {
			look{known: true, ref: anEvent, state: settled, lastDelivery: true}, decision{action: actAck},
		},
		"a dead event gets its letter if that is missing": {look{known: true, ref: anEvent, state: dead}, decision{action: actLetter}},
		"another copy of a settled event is a duplicate": {
			look{known: true, ref: anEvent, state: settled, copied: true, copySeq: 8, digest: "abc"}, decision{action: actDuplicate},
		},
		"another copy of a waiting event is a duplicate": {
			look{known: true, ref: anEvent, state: waiting, copied: true, copySeq: 8, digest: "abc"}, decision{action: actDuplicate},
		},
		"another copy with another body is a conflict": {
			look{known: true, ref: anEvent, state: settled, copied: true, copySeq: 8, digest: "xyz"},
			decision{action: actConflict, cause: event.CauseIDConflict},
		},
		"the same copy of a settled event is acknowledged": {
			look{known: true, ref: anEvent, state: settled, copied: true, copySeq: 7, digest: "abc"}, decision{action: actAck},
		},
		"a waiting event is scheduled again before it is due": {look{known: true, ref: anEvent, state: waiting}, decision{action: actReschedule}},
		"a waiting event that is due in a moment is held until then: by the log's clock it may be due already": {
			look{known: true, ref: anEvent, state: waiting, now: now.Add(55 * time.Second)},
			decision{action: actHold, until: now.Add(time.Minute)},
		},
		"a waiting event is claimed when due": {
			look{known: true, ref: anEvent, state: waiting, now: now.Add(time.Minute)}, decision{action: actClaim},
		},
		"an event claimed by a live stranger is held until the lease and the skew are over": {
			look{known: true, ref: anEvent, state: stateAfter(claimedBy(stranger)), at: now},
			decision{action: actHold, until: now.Add(65 * time.Second)},
		},
		"an event claimed by a stranger whose lease is over is taken over": {
			look{known: true, ref: anEvent, state: stateAfter(claimedBy(stranger)), at: now.Add(-65 * time.Second)},
			decision{action: actClaim, crashed: &event.Crashed{Claim: "r1", Owner: stranger, Reason: "lease_expired"}},
		},
		"an event claimed by an earlier boot is taken over at once": {
			look{known: true, ref: anEvent, state: stateAfter(claimedBy(myPast)), at: now},
			decision{action: actClaim, crashed: &event.Crashed{Claim: "r1", Owner: myPast, Reason: "owner_gone"}},
		},
		"the third crash buries the event": {
			look{known: true, ref: anEvent, state: crashedTwice, at: now},
			decision{action: actBury, cause: event.CauseCrashes, crashed: &event.Crashed{Claim: "r3", Owner: myPast, Reason: "owner_gone"}},
		},
		"an event that was set aside is claimed whenever there is room": {
			look{known: true, ref: anEvent, state: aside, lastDelivery: false}, decision{action: actClaim},
		},
		"an event that was set aside and is delivered too often is buried": {
			look{known: true, ref: anEvent, state: aside, lastDelivery: true}, decision{action: actBury, cause: event.CauseMaxDeliver},
		},
		"another copy of an event that was set aside is a duplicate": {
			look{known: true, ref: anEvent, state: aside, copied: true, copySeq: 8, digest: "abc"}, decision{action: actDuplicate},
		},
		"an event that was set aside, and of which nothing was tried, expires when it is stale": {
			look{known: true, ref: old, state: aside}, decision{action: actExpire},
		},
		"an event that was set aside in the middle of its plan does not expire": {
			look{known: true, ref: old, state: stateAfter([]event.Fact{event.Planned{}, busy})}, decision{action: actClaim},
		},
		"an event that was set aside after a crash does not expire": {
			look{known: true, ref: old, state: stateAfter(claimedBy(myPast), []event.Fact{event.Crashed{Claim: "r1", Owner: myPast}, busy})},
			decision{action: actClaim},
		},
		"a staleness window does not apply to an event that was claimed before": {
			look{known: true, ref: old, state: waiting, now: now.Add(time.Minute)}, decision{action: actClaim},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if c.look.now.IsZero() {
				c.look.now = now
			}
			got := r.decide(c.look)
			require.NotEmpty(t, got.reason, "every decision has a reason")
			got.reason = ""
			require.Equal(t, c.want, got)
		})
	}

	t.Run("no event is stale when staleness is off", func(t *testing.T) {
		require.Equal(t, actClaim, rules{me: me, crashes: 3}.decide(look{ref: old, now: now}).action)
	})
}
