package event_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tidings/streams/event"
)

// Facts of every kind about few messages, so that they meet.

func drawTime(t *rapid.T, label string) time.Time {
	zones := []*time.Location{time.UTC, time.FixedZone("", 5*3600+1800), time.FixedZone("", -3600)}
	if rapid.IntRange(0, 9).Draw(t, label+" is set") == 0 {
		return time.Time{}
	}
	offset := time.Duration(rapid.Int64Range(-1e15, 1e15).Draw(t, label))
	return t0.Add(offset).In(rapid.SampledFrom(zones).Draw(t, label+" zone"))
}

func drawMessage(t *rapid.T) string {
	return rapid.SampledFrom([]string{"m1", "m2", "m3", "m4", "x"}).Draw(t, "message")
}

func drawClaim(t *rapid.T, s event.State) string {
	if s.Claim != nil && rapid.IntRange(0, 3).Draw(t, "claim in force") > 0 {
		return s.Claim.ID
	}
	return "no such claim"
}

func small(t *rapid.T, label string) int { return rapid.IntRange(-1, 4).Draw(t, label) }

func drawText(t *rapid.T, label string) string {
	return rapid.OneOf(rapid.Just(""), rapid.StringN(0, 12, -1)).Draw(t, label)
}

func drawConfig(t *rapid.T) string {
	return rapid.SampledFrom([]string{"", "c1", "c2"}).Draw(t, "config")
}

func drawPlan(t *rapid.T) event.Planned {
	p := event.Planned{Config: drawConfig(t)}
	if rapid.Bool().Draw(t, "nothing") {
		p.Nothing = rapid.SampledFrom(event.Outcomes()).Draw(t, "why nothing")
	}
	for range rapid.IntRange(0, 4).Draw(t, "messages") {
		policy := rapid.SampledFrom([]event.OnUnknown{hold, resend, "ask"}).Draw(t, "policy")
		p.Messages = append(p.Messages, planned(drawMessage(t), policy))
	}
	return p
}

func drawTried(t *rapid.T) event.Tried {
	results := []event.TryResult{event.TryDelivered, event.TryPermanent, event.TryTransient, event.TryRateLimited, event.TryUnknown, "puzzling"}
	return event.Tried{
		Message: drawMessage(t), Round: small(t, "round"), Try: small(t, "try"), Started: drawTime(t, "started"), Ended: drawTime(t, "ended"),
		Result: rapid.SampledFrom(results).Draw(t, "result"), Code: drawText(t, "code"), RetryAfter: drawTime(t, "retry after"),
	}
}

func drawFact(t *rapid.T, s event.State) event.Fact {
	kinds := append(event.FactKinds(), event.UnknownFact{Kind: "praised"}, event.Tried{}, event.Planned{})
	switch rapid.SampledFrom(kinds).Draw(t, "kind").(type) {
	case event.Claimed:
		return event.Claimed{
			Owner: ownerA, Generation: small(t, "generation"), Round: small(t, "round"), Limit: small(t, "limit"), Config: drawConfig(t),
			Messages: rapid.SliceOfN(rapid.SampledFrom([]string{"m1", "m2", "m3", "m4", "x"}), 0, 4).Draw(t, "claimed messages"),
		}
	case event.Crashed:
		return crashed(drawClaim(t, s))
	case event.Planned:
		return drawPlan(t)
	case event.Tried:
		return drawTried(t)
	case event.Withheld:
		return event.Withheld{Message: drawMessage(t), Reason: drawText(t, "reason")}
	case event.GaveUp:
		return gaveUp(drawMessage(t), drawText(t, "reason"))
	case event.Expired:
		return event.Expired{AgeMS: 2, WindowMS: 1}
	case event.Waiting:
		reasons := []event.WaitReason{event.WaitRetry, event.WaitRateLimited, event.WaitInterrupted, "tea"}
		return waiting(small(t, "round"), drawTime(t, "due"), rapid.SampledFrom(reasons).Draw(t, "reason"))
	case event.Settled:
		return settle
	case event.Dead:
		return event.Dead{Cause: event.CausePanic, Detail: drawText(t, "detail")}
	case event.Requeued:
		next := s.Generation + rapid.SampledFrom([]int{1, 1, 1, 0, 2, -1}).Draw(t, "generation")
		return event.Requeued{Generation: next, Operator: drawText(t, "operator")}
	default:
		return event.UnknownFact{Kind: "praised", Raw: []byte(`{"fact":"praised","by":"<everyone> & all"}`)}
	}
}

// drawRecord adds a record to a history that stands at s.
func drawRecord(t *rapid.T, s event.State) event.Record {
	facts := []event.Fact{}
	for range rapid.IntRange(0, 5).Draw(t, "facts") {
		facts = append(facts, drawFact(t, s))
	}
	return event.NewRecord(orderRef(), s, drawTime(t, "at"), facts...)
}

func drawHistory(t *rapid.T) []event.Record {
	var records []event.Record
	var s event.State
	for range rapid.IntRange(1, 10).Draw(t, "records") {
		r := drawRecord(t, s)
		records, s = append(records, r), r.State
	}
	return records
}

func TestFoldHoldsForAnyHistory(t *testing.T) { rapid.Check(t, foldProperties) }

func FuzzFold(f *testing.F) { f.Fuzz(rapid.MakeFuzz(foldProperties)) }

func foldProperties(t *rapid.T) {
	records := drawHistory(t)
	var before event.State
	for _, r := range records {
		requireStep(t, before, r)
		requireConsistent(t, r.State)
		before = r.State
	}
	requireFolds(t, records)
}

// requireStep checks what one record may change.
func requireStep(t *rapid.T, before event.State, r event.Record) {
	after := r.State
	requeued := after.Generation != before.Generation
	require.Equal(t, before.Revision+1, after.Revision)
	require.GreaterOrEqual(t, after.Generation, before.Generation)
	require.GreaterOrEqual(t, after.Tries(), before.Tries())
	if len(before.Messages) > 0 || before.Planned && !requeued {
		require.Equal(t, before.Counts().Created, after.Counts().Created, "the plan is frozen")
	}
	for i, m := range before.Messages {
		requireMessageStep(t, m, after.Messages[i], before.Ended(), requeued)
	}
	if before.Ended() && !requeued {
		require.Equal(t, before.Phase, after.Phase, "only a requeue opens an ended event")
		require.Equal(t, before.Cause, after.Cause)
		require.Equal(t, event.KindLate, r.Kind)
	}
	if !before.StartedAt.IsZero() {
		require.Equal(t, before.StartedAt, after.StartedAt)
	}
}

func requireMessageStep(t *rapid.T, before, after event.Message, ended, requeued bool) {
	require.GreaterOrEqual(t, after.Tries, before.Tries)
	fixed := func(m event.Message) event.PlannedMessage {
		return event.PlannedMessage{
			ID: m.ID, Route: m.Route, Channel: m.Channel, Template: m.Template, Version: m.Version,
			Locale: m.Locale, Recipient: m.Recipient, OnUnknown: m.OnUnknown,
		}
	}
	require.Equal(t, fixed(before), fixed(after))
	switch {
	case before.State == event.MessageDelivered:
		require.Equal(t, event.MessageDelivered, after.State, "delivered is never lost")
	case requeued, after.State == event.MessageDelivered:
	case ended:
		require.Equal(t, before, after, "an ended event absorbs everything but deliveries")
	case before.State == event.MessageUncertain:
		require.Equal(t, event.MessageUncertain, after.State, "doubt is removed only by a delivery or a requeue")
	case before.Done:
		require.True(t, after.Done, "what was given up stays so in its generation")
	}
}

// requireConsistent checks what holds in every state.
func requireConsistent(t *rapid.T, s event.State) {
	require.Equal(t, s.Ended(), s.Outcome != "")
	require.Equal(t, s.Phase == event.PhaseClaimed, s.Claim != nil)
	require.True(t, s.Due.IsZero() || s.Phase == event.PhaseWaiting)
	require.True(t, s.Cause == "" || s.Phase == event.PhaseDead)
	require.True(t, s.Planned || len(s.Messages) == 0)
	require.GreaterOrEqual(t, s.DeferredMS, int64(0))
	ids := map[string]bool{}
	for _, m := range s.Messages {
		require.False(t, ids[m.ID], "no message is there twice")
		ids[m.ID] = true
		require.LessOrEqual(t, m.RoundTries, m.Tries)
		require.False(t, m.Done && m.State == event.MessagePending)
		require.True(t, m.Done || m.State == event.MessagePending || m.State == event.MessageUncertain)
	}
	for _, i := range s.Open() {
		require.NotEqual(t, event.MessageDelivered, s.Messages[i].State)
	}
}

// requireFolds checks that readers of the stored records come to the same states.
func requireFolds(t *rapid.T, records []event.Record) {
	var s event.State
	for i, r := range records {
		data, err := event.EncodeRecord(r)
		require.NoError(t, err)
		stored, err := event.DecodeRecord(data)
		require.NoError(t, err)
		again, err := event.EncodeRecord(stored)
		require.NoError(t, err)
		require.Equal(t, string(data), string(again), "a record reads back as another")

		s, err = s.Fold(stored)
		require.NoError(t, err)
		require.Equal(t, encode(t, r.State), encode(t, s), "the fold and the record's state differ")
		for _, seen := range records[:i+1] {
			unchanged, err := s.Fold(seen)
			require.NoError(t, err)
			require.Equal(t, s, unchanged, "a record that was seen changed something")
		}
		if i+2 < len(records) {
			_, err := s.Fold(records[i+2])
			require.ErrorIs(t, err, event.ErrGap)
		}
	}
}

func TestAnyRecordFollowsTheSchema(t *testing.T) {
	schema := compile(t, "record")
	rapid.Check(t, func(t *rapid.T) {
		for _, r := range drawHistory(t) {
			require.NoError(t, validate(t, schema, encode(t, r)))
		}
	})
}

func TestCrashMakesUncertainWhatTheClaimMayHaveBeenSending(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s event.State
		for _, r := range drawHistory(t) {
			s = r.State
		}
		if s.Phase != event.PhaseClaimed || !s.Planned {
			s = event.State{}.Apply("r1", t0, drawPlan(t), claimed(ownerA, drawMessage(t), drawMessage(t)))
		}
		after := s.Apply("crash", t0, crashed(s.Claim.ID))
		for i, m := range s.Messages {
			if m.Open() && slices.Contains(s.Claim.Messages, m.ID) {
				require.Equal(t, event.MessageUncertain, after.Messages[i].State)
			} else {
				require.Equal(t, m, after.Messages[i])
			}
		}
		require.Equal(t, event.PhaseOpen, after.Phase)
		require.Equal(t, s.Crashes+1, after.Crashes)
	})
}
