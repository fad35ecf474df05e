package event_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tidings/streams/event"
)

// A chooser makes the choices of which a history consists: a number below n for
// each. rapid makes them in the property tests, and the bytes of the input in
// the fuzz target.
type chooser func(what string, n int) int

func byRapid(t *rapid.T) chooser {
	return func(what string, n int) int { return rapid.IntRange(0, n-1).Draw(t, what) }
}

// byBytes takes one byte a choice, and always the first choice at the end.
func byBytes(data []byte) chooser {
	return func(_ string, n int) int {
		if len(data) == 0 {
			return 0
		}
		b := int(data[0])
		data = data[1:]
		return b % n
	}
}

func oneOf[T any](c chooser, what string, values ...T) T { return values[c(what, len(values))] }

// number includes some that no writer should write.
func (c chooser) number(what string) int { return c(what, 6) - 1 }

func (c chooser) text(what string) string {
	return oneOf(c, what, "", "text", `<"&">`, "é\u2028\x00", "\U0001F4E8")
}

func (c chooser) config() string { return oneOf(c, "config", "", "c1", "c2") }

// message is one of few, so that the facts meet.
func (c chooser) message() string { return oneOf(c, "message", "m1", "m2", "m3", "m4", "x") }

func (c chooser) time(what string) time.Time {
	zone := oneOf(c, what+": zone", time.UTC, time.FixedZone("", 5*3600+1800), time.FixedZone("", -3600))
	return oneOf(c, what, time.Time{}, t0, at(c(what+": second", 256)*997), at(-1_000_000)).In(zone)
}

func (c chooser) claimOf(s event.State) string {
	if s.Claim != nil && c("claim in force", 4) > 0 {
		return s.Claim.ID
	}
	return "no such claim"
}

func (c chooser) claimed() event.Claimed {
	f := event.Claimed{
		Owner: ownerA, Generation: c.number("generation"), Round: c.number("round"), Limit: c.number("limit"), Config: c.config(),
	}
	for range c("claimed messages", 4) {
		f.Messages = append(f.Messages, c.message())
	}
	return f
}

func (c chooser) planned() event.Planned {
	f := event.Planned{Config: c.config(), Nothing: oneOf(c, "nothing", append(event.Outcomes(), "")...)}
	for range c("messages", 5) {
		f.Messages = append(f.Messages, planned(c.message(), oneOf(c, "policy", hold, resend, "ask")))
	}
	return f
}

func (c chooser) tried() event.Tried {
	return event.Tried{
		Message: c.message(), Round: c.number("round"), Try: c.number("try"), Started: c.time("started"), Ended: c.time("ended"),
		Result: oneOf(c, "result", event.TryDelivered, event.TryPermanent, event.TryTransient, event.TryRateLimited, event.TryUnknown, "puzzling"),
		Code:   c.text("code"), RetryAfter: c.time("retry after"),
	}
}

func (c chooser) requeued(s event.State) event.Requeued {
	f := event.Requeued{Generation: s.Generation + oneOf(c, "generation", 1, 1, 1, 0, 2, -1), Operator: c.text("operator")}
	if c("edited", 3) == 0 {
		f.Edit = &event.Edit{Digest: c.text("digest"), Size: 4}
	}
	for range c("requeued messages", 3) {
		f.Messages = append(f.Messages, c.message())
	}
	return f
}

func (c chooser) fact(s event.State) event.Fact {
	kinds := append(event.FactKinds(), event.UnknownFact{}, event.Tried{}, event.Planned{})
	switch oneOf(c, "kind", kinds...).(type) {
	case event.Claimed:
		return c.claimed()
	case event.Crashed:
		return crashed(c.claimOf(s))
	case event.Planned:
		return c.planned()
	case event.Tried:
		return c.tried()
	case event.Withheld:
		return event.Withheld{Message: c.message(), Reason: c.text("reason")}
	case event.GaveUp:
		return gaveUp(c.message(), c.text("reason"))
	case event.Expired:
		return event.Expired{AgeMS: 2, WindowMS: 1}
	case event.Waiting:
		return waiting(c.number("round"), c.time("due"), oneOf(c, "reason", event.WaitRetry, event.WaitRateLimited, event.WaitInterrupted, "tea"))
	case event.Settled:
		return settle
	case event.Dead:
		return event.Dead{Cause: event.CausePanic, Detail: c.text("detail")}
	case event.Requeued:
		return c.requeued(s)
	case event.Discarded:
		return event.Discarded{Operator: c.text("operator"), Reason: c.text("reason")}
	default:
		// Not Restored, which is no change of one account: see its own property.
		return event.UnknownFact{Kind: "praised", Raw: []byte(`{"fact":"praised","by":"<everyone> & all"}`)}
	}
}

func (c chooser) history() []event.Record {
	var records []event.Record
	var s event.State
	for range 1 + c("records", 10) {
		facts := []event.Fact{}
		for range c("facts", 6) {
			facts = append(facts, c.fact(s))
		}
		r := event.NewRecord(orderRef(), s, c.time("at"), facts...)
		records, s = append(records, r), r.State
	}
	return records
}

func TestFoldHoldsForAnyHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { requireHistory(t, byRapid(t).history()) })
}

func FuzzFold(f *testing.F) {
	f.Add([]byte("any text is a history"))
	random := rand.NewChaCha8([32]byte{})
	for range 8 {
		seed := make([]byte, 256)
		_, _ = random.Read(seed)
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) { requireHistory(t, byBytes(data).history()) })
}

func requireHistory(t fataler, records []event.Record) {
	var before event.State
	for _, r := range records {
		requireStep(t, before, r)
		requireConsistent(t, r.State)
		before = r.State
	}
	requireFolds(t, records)
}

// requireStep checks what one record may change.
func requireStep(t fataler, before event.State, r event.Record) {
	after := r.State
	requeued := after.Generation != before.Generation
	require.Equal(t, before.Revision+1, after.Revision)
	require.GreaterOrEqual(t, after.Generation, before.Generation)
	require.GreaterOrEqual(t, after.Tries(), before.Tries())
	edited := after.Edited != nil && (before.Edited == nil || *before.Edited != *after.Edited)
	if before.Planned && (len(before.Messages) > 0 || !requeued) && !edited {
		require.Equal(t, before.Counts().Created, after.Counts().Created, "the plan is frozen")
	}
	for _, m := range before.Messages {
		if now := after.Message(m.ID); now != nil && edited && m.State != event.MessageDelivered {
			continue // it was planned anew
		} else if now != nil {
			requireMessageStep(t, m, *now, before.Ended(), requeued)
		} else {
			require.True(t, edited && m.State != event.MessageDelivered, "only an edit takes a message away, and none that was delivered")
		}
	}
	if before.Ended() && !requeued {
		require.True(t, after.Phase == before.Phase || after.Discarded, "only a requeue opens an ended event")
		require.Equal(t, before.Cause, after.Cause)
		require.Equal(t, before.Discarded == after.Discarded, r.Kind == event.KindLate)
	}
	if !before.StartedAt.IsZero() {
		require.Equal(t, before.StartedAt, after.StartedAt)
	}
}

func requireMessageStep(t fataler, before, after event.Message, ended, requeued bool) {
	require.GreaterOrEqual(t, after.Tries, before.Tries)
	fixed := func(m event.Message) event.PlannedMessage {
		return event.PlannedMessage{
			ID: m.ID, Route: m.Route, Channel: m.Channel, Template: m.Template, Version: m.Version,
			Locale: m.Locale, Recipient: m.Recipient, OnUnknown: m.OnUnknown, Category: m.Category, Degraded: m.Degraded,
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
func requireConsistent(t fataler, s event.State) {
	require.Equal(t, s.Ended(), s.Outcome != "")
	require.Equal(t, s.Phase == event.PhaseClaimed, s.Claim != nil)
	require.True(t, s.Due.IsZero() || s.Phase == event.PhaseWaiting)
	require.True(t, s.Cause == "" || s.Phase == event.PhaseDead || s.Discarded)
	require.True(t, !s.Discarded || s.Phase == event.PhaseSettled)
	require.True(t, s.Waits == "" || s.Phase == event.PhaseWaiting)
	if !s.Planned { // after an edit, what was delivered before it
		require.Equal(t, s.Counts().Created, s.Counts().Delivered)
	}
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
func requireFolds(t fataler, records []event.Record) {
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

func TestRestoringLosesNoDelivery(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := byRapid(t)
		known := c.history()
		lost := c("lost records", len(known)) + 1
		log, ledger := event.State{}, known[len(known)-1].State
		if kept := len(known) - lost; kept > 0 {
			log = known[kept-1].State
		}
		for range c("records since", 3) {
			log = event.NewRecord(orderRef(), log, at(1), c.fact(log)).State
		}
		r := event.NewRecord(orderRef(), log, at(2), event.Restored{From: event.FromLedger, State: ledger})

		for _, account := range []event.State{log, ledger} {
			require.Greater(t, r.State.Revision, account.Revision, "the record is news to both")
			for _, m := range account.Messages {
				if m.State == event.MessageDelivered {
					now := r.State.Message(m.ID)
					require.NotNil(t, now)
					require.Equal(t, event.MessageDelivered, now.State)
				}
			}
		}
		require.Equal(t, ledger.Phase, r.State.Phase)
		folded, err := event.State{}.Fold(r)
		require.NoError(t, err, "a reader that knows nothing else takes it")
		require.Equal(t, ledger.Phase, folded.Phase)
	})
}

func TestAnyRecordFollowsTheSchema(t *testing.T) {
	schema := compile(t, "record")
	rapid.Check(t, func(t *rapid.T) {
		for _, r := range byRapid(t).history() {
			require.NoError(t, validate(t, schema, encode(t, r)))
		}
	})
}

func TestCrashMakesUncertainWhatTheClaimMayHaveBeenSending(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := byRapid(t)
		var s event.State
		for _, r := range c.history() {
			s = r.State
		}
		if s.Phase != event.PhaseClaimed || !s.Planned {
			s = event.State{}.Apply("r1", t0, c.planned(), claimed(ownerA, c.message(), c.message()))
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
