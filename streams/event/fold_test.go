package event_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/streams/event"
)

// The parts of histories that many cases begin with.
var (
	hold, resend = event.Hold, event.Resend

	claimA = change{claimed(ownerA)} // always the first record: r1
	settle = event.Settled{}
)

// states renders the messages as "m1 delivered", with "done" where that is not
// implied by the state.
func states(s event.State) []string {
	out := []string{}
	for _, m := range s.Messages {
		text := m.ID + " " + string(m.State)
		if m.Done && m.State == event.MessageUncertain {
			text += " done"
		}
		out = append(out, text)
	}
	return out
}

func TestOutcomeIsTheFirstThatFits(t *testing.T) {
	delivered, failed := tried("m1", event.TryDelivered), tried("m1", event.TryPermanent)
	cases := map[string]struct {
		end  change
		want event.Outcome
	}{
		"processed when a message was delivered": {
			change{plan(hold), delivered, settle}, event.Processed,
		},
		"processed although another failed": {
			change{plan(hold, hold), delivered, tried("m2", event.TryPermanent), gaveUp("m2", "permanent"), settle}, event.Processed,
		},
		"processed although the event is a dead letter": {
			change{plan(hold, hold), delivered, tried("m2", event.TryUnknown), gaveUp("m2", "held"), event.Dead{Cause: event.CauseUncertain}}, event.Processed,
		},
		"failed when a message failed": {
			change{plan(hold), failed, gaveUp("m1", "permanent"), settle}, event.Failed,
		},
		"failed although another was suppressed": {
			change{plan(hold, hold), failed, gaveUp("m1", "permanent"), event.Withheld{Message: "m2", Reason: "unsubscribed"}, settle}, event.Failed,
		},
		"failed when a message is uncertain": {
			change{plan(hold), tried("m1", event.TryUnknown), gaveUp("m1", "held"), settle}, event.Failed,
		},
		"failed when the event is a dead letter without messages": {
			change{event.Dead{Cause: event.CauseTemplateError}}, event.Failed,
		},
		"failed when the event is a dead letter and all were suppressed": {
			change{plan(hold), event.Withheld{Message: "m1", Reason: "unsubscribed"}, event.Dead{Cause: event.CauseMaxDeliver}}, event.Failed,
		},
		"failed when a message was never given an end": {
			change{plan(hold), settle}, event.Failed,
		},
		"suppressed when all were suppressed": {
			change{plan(hold), event.Withheld{Message: "m1", Reason: "unsubscribed"}, settle}, event.Suppressed,
		},
		"no_recipient when the plan says so": {
			change{event.Planned{Nothing: event.NoRecipient}, settle}, event.NoRecipient,
		},
		"no_recipient when the plan is empty and does not say why": {
			change{event.Planned{}, settle}, event.NoRecipient,
		},
		"no_template when the plan says so": {
			change{event.Planned{Nothing: event.NoTemplate}, settle}, event.NoTemplate,
		},
		"stale when it expired": {
			change{event.Expired{AgeMS: 2, WindowMS: 1}, settle}, event.Stale,
		},
		"none while the event is open": {
			change{plan(hold), delivered}, "",
		},
	}
	reached := map[event.Outcome]bool{}
	for name, c := range cases {
		reached[c.want] = true
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, history(claimA, c.end).Outcome)
		})
	}
	for _, o := range event.Outcomes() {
		require.True(t, reached[o], "no case ends as %s", o)
	}
}

func TestHistoryLeadsToState(t *testing.T) {
	type want struct {
		phase      event.Phase
		messages   []string
		open       int
		generation int
		crashes    int
	}
	cases := map[string]struct {
		history []change
		want    want
	}{
		"a first claim holds an event that has no plan": {
			[]change{claimA},
			want{phase: event.PhaseClaimed},
		},
		"two records are the whole life of an event that goes well": {
			[]change{claimA, {plan(hold, resend), tried("m1", event.TryDelivered), tried("m2", event.TryDelivered), settle}},
			want{phase: event.PhaseSettled, messages: []string{"m1 delivered", "m2 delivered"}},
		},
		"a transient failure leaves the message open for the next round": {
			[]change{claimA, {plan(hold), tried("m1", event.TryTransient), waiting(1, at(150), event.WaitRetry)}},
			want{phase: event.PhaseWaiting, messages: []string{"m1 pending"}, open: 1},
		},
		"a permanent failure leaves the message open until it is given up": {
			[]change{claimA, {plan(hold), tried("m1", event.TryPermanent)}},
			want{phase: event.PhaseClaimed, messages: []string{"m1 pending"}, open: 1},
		},
		"a message is failed when it is given up": {
			[]change{claimA, {plan(hold), tried("m1", event.TryPermanent), gaveUp("m1", "permanent")}},
			want{phase: event.PhaseClaimed, messages: []string{"m1 failed"}},
		},
		"an unknown end on hold closes nothing and opens nothing": {
			[]change{claimA, {plan(hold), tried("m1", event.TryUnknown)}},
			want{phase: event.PhaseClaimed, messages: []string{"m1 uncertain"}},
		},
		"an unknown end on resend wants another try": {
			[]change{claimA, {plan(resend), tried("m1", event.TryUnknown)}},
			want{phase: event.PhaseClaimed, messages: []string{"m1 uncertain"}, open: 1},
		},
		"uncertain and given up stays uncertain": {
			[]change{claimA, {plan(hold, resend), tried("m1", event.TryUnknown), gaveUp("m1", "held"), tried("m2", event.TryUnknown), gaveUp("m2", "rounds_exhausted"), event.Dead{Cause: event.CauseUncertain}}},
			want{phase: event.PhaseDead, messages: []string{"m1 uncertain done", "m2 uncertain done"}},
		},
		"uncertain and withheld stays uncertain": {
			[]change{claimA, {plan(resend), tried("m1", event.TryUnknown), event.Withheld{Message: "m1", Reason: "unsubscribed"}}},
			want{phase: event.PhaseClaimed, messages: []string{"m1 uncertain done"}},
		},
		"a refusal after an unknown end does not say what became of the first": {
			[]change{claimA, {plan(resend), tried("m1", event.TryUnknown), tried("m1", event.TryPermanent)}},
			want{phase: event.PhaseClaimed, messages: []string{"m1 uncertain"}, open: 1},
		},
		"delivered after an unknown end is delivered": {
			[]change{claimA, {plan(resend), tried("m1", event.TryUnknown), tried("m1", event.TryDelivered)}},
			want{phase: event.PhaseClaimed, messages: []string{"m1 delivered"}},
		},
		"nothing undoes delivered": {
			[]change{claimA, {plan(resend), tried("m1", event.TryDelivered), tried("m1", event.TryUnknown), gaveUp("m1", "permanent"), event.Withheld{Message: "m1"}}},
			want{phase: event.PhaseClaimed, messages: []string{"m1 delivered"}},
		},
		"the first end of a message stands": {
			[]change{claimA, {plan(hold, hold), gaveUp("m1", "permanent"), event.Withheld{Message: "m1"}, event.Withheld{Message: "m2"}, gaveUp("m2", "permanent")}},
			want{phase: event.PhaseClaimed, messages: []string{"m1 failed", "m2 suppressed"}},
		},
		"an unknown end of a message that was given up shows": {
			[]change{claimA, {plan(hold), gaveUp("m1", "permanent"), tried("m1", event.TryUnknown)}},
			want{phase: event.PhaseClaimed, messages: []string{"m1 uncertain done"}},
		},
		"the first plan is frozen": {
			[]change{claimA, {plan(hold)}, {plan(hold, hold, hold)}},
			want{phase: event.PhaseClaimed, messages: []string{"m1 pending"}, open: 1},
		},
		"an empty plan is frozen too": {
			[]change{claimA, {event.Planned{Nothing: event.NoTemplate}}, {plan(hold)}},
			want{phase: event.PhaseClaimed},
		},
		"a message that is planned twice is there once": {
			[]change{claimA, {event.Planned{Messages: []event.PlannedMessage{planned("m1", hold), planned("m1", resend)}}}},
			want{phase: event.PhaseClaimed, messages: []string{"m1 pending"}, open: 1},
		},
		"facts about messages outside the plan change nothing": {
			[]change{claimA, {plan(hold), tried("x", event.TryDelivered), gaveUp("x", "not_in_plan"), event.Withheld{Message: "x"}}},
			want{phase: event.PhaseClaimed, messages: []string{"m1 pending"}, open: 1},
		},
		"an unknown fact changes nothing": {
			[]change{claimA, {plan(hold), event.UnknownFact{Kind: "praised", Raw: []byte(`{"fact":"praised"}`)}}},
			want{phase: event.PhaseClaimed, messages: []string{"m1 pending"}, open: 1},
		},
		"a requeue of an event that has not ended changes nothing": {
			[]change{claimA, {plan(hold), gaveUp("m1", "permanent")}, {event.Requeued{Generation: 1}}},
			want{phase: event.PhaseClaimed, messages: []string{"m1 failed"}},
		},

		// Crashes.
		"a crash leaves the event open to the next claim": {
			[]change{claimA, {crashed("r1")}},
			want{phase: event.PhaseOpen, crashes: 1},
		},
		"a crash of a claim that is not in force changes nothing": {
			[]change{claimA, {crashed("r9")}},
			want{phase: event.PhaseClaimed},
		},
		"a crash counts once": {
			[]change{claimA, {crashed("r1")}, {crashed("r1")}},
			want{phase: event.PhaseOpen, crashes: 1},
		},
		"a takeover is one record: the crash and the new claim": {
			[]change{claimA, {crashed("r1"), claimed(ownerB)}},
			want{phase: event.PhaseClaimed, crashes: 1},
		},
		"a crash makes uncertain what the claim named, as far as it is still open": {
			[]change{
				claimA,
				{plan(hold, hold, hold, hold, hold), claimed(ownerA, "m2", "m4", "m5")},
				{tried("m4", event.TryDelivered), gaveUp("m5", "permanent")},
				{crashed("r2")},
			},
			want{phase: event.PhaseOpen, messages: []string{"m1 pending", "m2 uncertain", "m3 pending", "m4 delivered", "m5 failed"}, open: 2, crashes: 1},
		},
		"a claim that was made before the plan answers for all of it": {
			[]change{{event.Claimed{Owner: ownerA, Limit: 1, Config: "c1"}}, {plan(hold, hold)}, {crashed("r1")}},
			want{phase: event.PhaseOpen, messages: []string{"m1 uncertain", "m2 uncertain"}, crashes: 1},
		},
		"a claim of a frozen plan that names nothing leaves nothing in doubt": {
			[]change{claimA, {plan(hold), claimed(ownerA)}, {crashed("r2")}},
			want{phase: event.PhaseOpen, messages: []string{"m1 pending"}, open: 1, crashes: 1},
		},
		"a claim that names what is not in the plan changes nothing": {
			[]change{claimA, {plan(hold), claimed(ownerA, "x")}, {crashed("r2")}},
			want{phase: event.PhaseOpen, messages: []string{"m1 pending"}, open: 1, crashes: 1},
		},
		"a crash does not touch what had its end": {
			[]change{claimA, {plan(hold, hold), gaveUp("m1", "permanent"), event.Withheld{Message: "m2"}}, {crashed("r1")}},
			want{phase: event.PhaseOpen, messages: []string{"m1 failed", "m2 suppressed"}, crashes: 1},
		},
		"after a crash without a plan, a plan within the limit is uncertain as a whole": {
			[]change{{event.Claimed{Owner: ownerA, Limit: 2, Config: "c1"}}, {crashed("r1"), claimed(ownerB)}, {plan(hold, resend)}},
			want{phase: event.PhaseClaimed, messages: []string{"m1 uncertain", "m2 uncertain"}, open: 1, crashes: 1},
		},
		"after a crash without a plan, a plan over the limit is certainly unsent": {
			[]change{{event.Claimed{Owner: ownerA, Limit: 2, Config: "c1"}}, {crashed("r1"), claimed(ownerB)}, {plan(hold, hold, hold)}},
			want{phase: event.PhaseClaimed, messages: []string{"m1 pending", "m2 pending", "m3 pending"}, open: 3, crashes: 1},
		},
		"after a crash without a plan and under another configuration, all is uncertain": {
			[]change{{event.Claimed{Owner: ownerA, Limit: 2, Config: "c0"}}, {crashed("r1"), claimed(ownerB)}, {plan(hold, hold, hold)}},
			want{phase: event.PhaseClaimed, messages: []string{"m1 uncertain", "m2 uncertain", "m3 uncertain"}, crashes: 1},
		},
		"after crashes under several configurations, all is uncertain": {
			[]change{
				{event.Claimed{Owner: ownerA, Limit: 2, Config: "c0"}},
				{crashed("r1"), event.Claimed{Owner: ownerB, Limit: 2, Config: "c1"}},
				{crashed("r2"), event.Claimed{Owner: ownerA, Limit: 2, Config: "c1"}},
				{plan(hold, hold, hold)},
			},
			want{phase: event.PhaseClaimed, messages: []string{"m1 uncertain", "m2 uncertain", "m3 uncertain"}, crashes: 2},
		},
		"after crashes with several limits, the widest counts": {
			[]change{
				{event.Claimed{Owner: ownerA, Limit: 3, Config: "c1"}},
				{crashed("r1"), event.Claimed{Owner: ownerB, Limit: 2, Config: "c1"}},
				{crashed("r2"), event.Claimed{Owner: ownerA, Limit: 2, Config: "c1"}},
				{plan(hold, hold, hold)},
			},
			want{phase: event.PhaseClaimed, messages: []string{"m1 uncertain", "m2 uncertain", "m3 uncertain"}, crashes: 2},
		},
		"after a crash without a plan of a claim without a bound, all is uncertain": {
			[]change{
				{event.Claimed{Owner: ownerA, Config: "c1"}},
				{crashed("r1"), event.Claimed{Owner: ownerB, Limit: 1, Config: "c1"}},
				{crashed("r2"), claimed(ownerA)},
				{plan(hold, hold)},
			},
			want{phase: event.PhaseClaimed, messages: []string{"m1 uncertain", "m2 uncertain"}, crashes: 2},
		},

		// Late results.
		"a delivery that is reported after the takeover beats uncertain": {
			[]change{claimA, {plan(hold, hold)}, {crashed("r1"), claimed(ownerB)}, {tried("m1", event.TryDelivered)}},
			want{phase: event.PhaseClaimed, messages: []string{"m1 delivered", "m2 uncertain"}, crashes: 1},
		},
		"a refusal that is reported after the takeover does not": {
			[]change{claimA, {plan(hold)}, {crashed("r1"), claimed(ownerB)}, {tried("m1", event.TryPermanent), gaveUp("m1", "permanent")}},
			want{phase: event.PhaseClaimed, messages: []string{"m1 uncertain done"}, crashes: 1},
		},
		"the plan of a claim that was taken over is frozen by its late results": {
			[]change{claimA, {crashed("r1"), claimed(ownerB)}, {plan(hold, hold), tried("m1", event.TryDelivered)}, {plan(hold, hold)}},
			want{phase: event.PhaseClaimed, messages: []string{"m1 delivered", "m2 uncertain"}, crashes: 1},
		},
		"a delivery that is reported after the end still counts": {
			[]change{claimA, {plan(hold), tried("m1", event.TryUnknown), gaveUp("m1", "held"), event.Dead{Cause: event.CauseUncertain}}, {tried("m1", event.TryDelivered)}},
			want{phase: event.PhaseDead, messages: []string{"m1 delivered"}},
		},
		"every other result that is reported after the end changes nothing": {
			[]change{
				claimA,
				{plan(hold, hold), tried("m1", event.TryPermanent), gaveUp("m1", "permanent"), event.Withheld{Message: "m2"}, settle},
				{tried("m1", event.TryUnknown), tried("m2", event.TryTransient), gaveUp("m2", "late")},
			},
			want{phase: event.PhaseSettled, messages: []string{"m1 failed", "m2 suppressed"}},
		},

		// Ends and new generations.
		"an ended event absorbs everything but a requeue": {
			[]change{
				claimA,
				{plan(hold), gaveUp("m1", "permanent"), event.Dead{Cause: event.CausePermanent}},
				{claimed(ownerB), crashed("r1"), plan(hold, hold), event.Expired{}, waiting(3, at(9), event.WaitRetry), settle, event.UnknownFact{Kind: "x"}},
			},
			want{phase: event.PhaseDead, messages: []string{"m1 failed"}},
		},
		"a settled event takes no plan": {
			[]change{{event.Expired{AgeMS: 2, WindowMS: 1}, settle}, {plan(hold), tried("m1", event.TryDelivered)}},
			want{phase: event.PhaseSettled},
		},
		"a dead letter that was never planned takes the plan of late results, and shows the rest as uncertain": {
			[]change{
				claimA,
				{crashed("r1"), event.Dead{Cause: event.CauseCrashes}},
				{plan(hold, hold), tried("m1", event.TryDelivered)},
			},
			want{phase: event.PhaseDead, messages: []string{"m1 delivered", "m2 uncertain"}, crashes: 1},
		},
		"a requeue opens all messages but the delivered": {
			[]change{
				claimA,
				{plan(hold, hold, hold, hold), tried("m1", event.TryDelivered), gaveUp("m2", "permanent"), event.Withheld{Message: "m3"}, tried("m4", event.TryUnknown), gaveUp("m4", "held"), event.Dead{Cause: event.CauseUncertain}},
				{event.Requeued{Generation: 1, Operator: "ann"}},
			},
			want{phase: event.PhaseOpen, generation: 1, messages: []string{"m1 delivered", "m2 pending", "m3 pending", "m4 pending"}, open: 3},
		},
		"a requeue must open the next generation": {
			[]change{claimA, {event.Dead{Cause: event.CauseCrashes}}, {event.Requeued{Generation: 2}, event.Requeued{Generation: 0}}},
			want{phase: event.PhaseDead},
		},
		"a requeue counts once": {
			[]change{claimA, {event.Dead{Cause: event.CauseCrashes}}, {event.Requeued{Generation: 1}}, {event.Requeued{Generation: 1}}},
			want{phase: event.PhaseOpen, generation: 1},
		},
		"a requeue forgets the crashes": {
			[]change{claimA, {crashed("r1")}, {event.Dead{Cause: event.CauseCrashes}}, {event.Requeued{Generation: 1}}},
			want{phase: event.PhaseOpen, generation: 1},
		},
		"a requeue is an operator's word that a lost claim sent nothing": {
			[]change{claimA, {crashed("r1")}, {event.Dead{Cause: event.CauseCrashes}}, {event.Requeued{Generation: 1}}, {claimed(ownerB), plan(hold)}},
			want{phase: event.PhaseClaimed, generation: 1, messages: []string{"m1 pending"}, open: 1},
		},
		"a requeue of some messages leaves the others as they ended": {
			[]change{claimA, {plan(hold, hold), tried("m1", event.TryUnknown), gaveUp("m1", "held"), tried("m2", event.TryUnknown), gaveUp("m2", "held"), event.Dead{Cause: event.CauseUncertain}}, {event.Requeued{Generation: 1, Messages: []string{"m2"}}}},
			want{phase: event.PhaseOpen, messages: []string{"m1 uncertain done", "m2 pending"}, open: 1, generation: 1},
		},
		"an edited requeue keeps what was delivered and plans the rest anew": {
			[]change{claimA, {plan(hold, hold), tried("m1", event.TryDelivered), tried("m2", event.TryUnknown), gaveUp("m2", "held"), event.Dead{Cause: event.CauseUncertain}}, {event.Requeued{Generation: 1, Edit: &event.Edit{Digest: "d"}}}},
			want{phase: event.PhaseOpen, messages: []string{"m1 delivered"}, generation: 1},
		},
		"the plan after an edit does not open what was delivered": {
			[]change{claimA, {plan(hold, hold), tried("m1", event.TryDelivered), tried("m2", event.TryUnknown), gaveUp("m2", "held"), event.Dead{Cause: event.CauseUncertain}}, {event.Requeued{Generation: 1, Edit: &event.Edit{Digest: "d"}}}, {claimed(ownerB), plan(hold, hold)}},
			want{phase: event.PhaseClaimed, messages: []string{"m1 delivered", "m2 pending"}, open: 1, generation: 1},
		},
		"a crash before the plan after an edit leaves no doubt about what was delivered": {
			[]change{claimA, {plan(hold, hold), tried("m1", event.TryDelivered), tried("m2", event.TryUnknown), gaveUp("m2", "held"), event.Dead{Cause: event.CauseUncertain}}, {event.Requeued{Generation: 1, Edit: &event.Edit{Digest: "d"}}}, {claimed(ownerB)}, {crashed("r4"), claimed(ownerB), plan(hold, hold)}},
			want{phase: event.PhaseClaimed, messages: []string{"m1 delivered", "m2 uncertain"}, generation: 1, crashes: 1},
		},
		"a discarded dead letter has ended for good": {
			[]change{claimA, {event.Dead{Cause: event.CauseTemplateError}}, {event.Discarded{Operator: "ann", Reason: "a test"}}},
			want{phase: event.PhaseSettled},
		},
		"only a dead letter can be discarded": {
			[]change{claimA, {event.Discarded{Operator: "ann", Reason: "a test"}}},
			want{phase: event.PhaseClaimed},
		},
		"a requeue of an event without messages plans anew": {
			[]change{claimA, {event.Planned{Nothing: event.NoTemplate}, settle}, {event.Requeued{Generation: 1}}, {claimed(ownerA), plan(hold)}},
			want{phase: event.PhaseClaimed, generation: 1, messages: []string{"m1 pending"}, open: 1},
		},
		"a second claim after a requeue sends only what is open": {
			[]change{
				claimA,
				{plan(hold, hold), tried("m1", event.TryDelivered), gaveUp("m2", "permanent"), settle},
				{event.Requeued{Generation: 1}},
				{event.Claimed{Owner: ownerB, Generation: 1, Limit: 64, Config: "c2"}},
				{tried("m2", event.TryDelivered), settle},
			},
			want{phase: event.PhaseSettled, generation: 1, messages: []string{"m1 delivered", "m2 delivered"}},
		},
		"a delivery of the generation before still counts": {
			[]change{
				claimA,
				{plan(hold), tried("m1", event.TryUnknown), gaveUp("m1", "held"), event.Dead{Cause: event.CauseUncertain}},
				{event.Requeued{Generation: 1}},
				{tried("m1", event.TryDelivered)},
			},
			want{phase: event.PhaseOpen, generation: 1, messages: []string{"m1 delivered"}},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := history(c.history...)
			if c.want.messages == nil {
				c.want.messages = []string{}
			}
			require.Equal(t, c.want.phase, s.Phase)
			require.Equal(t, c.want.messages, states(s))
			require.Len(t, s.Open(), c.want.open)
			require.Equal(t, c.want.generation, s.Generation)
			require.Equal(t, c.want.crashes, s.Crashes)
			require.Equal(t, len(c.history), s.Revision)
			require.Equal(t, at(60), s.StartedAt)
			require.Equal(t, at(60*len(c.history)), s.ChangedAt)
		})
	}
}

func TestClaimIsInForceUntilThePhaseEnds(t *testing.T) {
	s := history(claimA)
	require.Equal(t, &event.Claim{ID: "r1", Owner: ownerA, LeaseMS: 60_000, Limit: 64, Config: "c1"}, s.Claim)
	require.Equal(t, time.Minute, s.Claim.Lease())

	for name, facts := range map[string]change{
		"results keep it":                 {plan(hold), tried("m1", event.TryDelivered)},
		"a crash of another one keeps it": {crashed("r7")},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, s.Claim.ID, continued(s, facts).Claim.ID) })
	}
	for name, facts := range map[string]change{
		"a crash ends it":    {crashed("r1")},
		"waiting ends it":    {waiting(1, at(99), event.WaitRetry)},
		"settled ends it":    {settle},
		"a dead letter does": {event.Dead{Cause: event.CausePanic}},
	} {
		t.Run(name, func(t *testing.T) { require.Nil(t, continued(s, facts).Claim) })
	}
	t.Run("it names what it may try, once there is a plan", func(t *testing.T) {
		require.Empty(t, s.Claim.Messages)
		s := continued(s, change{plan(hold, hold)})
		require.Equal(t, []string{"m1", "m2"}, s.Claim.Messages)
		require.Equal(t, []string{"m2"}, continued(s, change{claimed(ownerA, "m2")}).Claim.Messages)
	})
	t.Run("a takeover replaces it", func(t *testing.T) {
		require.Equal(t, "r2", continued(s, change{crashed("r1"), claimed(ownerB)}).Claim.ID)
		require.Equal(t, ownerB, continued(s, change{crashed("r1"), claimed(ownerB)}).Claim.Owner)
	})
}

func TestRounds(t *testing.T) {
	roundOne := change{event.Claimed{Owner: ownerA, Round: 1, Limit: 64, Config: "c1"}}
	first := history(claimA, change{
		plan(hold),
		tried("m1", event.TryTransient), tried("m1", event.TryTransient), tried("m1", event.TryTransient),
		waiting(1, at(150), event.WaitRetry),
	})

	t.Run("waiting says when and in which round", func(t *testing.T) {
		require.Equal(t, at(150), first.Due)
		require.Equal(t, 1, first.Round)
	})
	t.Run("the next round has its own budget of tries, and all tries are counted", func(t *testing.T) {
		s := continued(first, roundOne, change{triedInRound(1, "m1", event.TryTransient)})
		require.Zero(t, s.Due)
		require.Equal(t, 1, s.Message("m1").RoundTries)
		require.Equal(t, 4, s.Message("m1").Tries)
		require.Equal(t, 4, s.Tries())
	})
	t.Run("calls for messages that an edit took out of the plan are counted still", func(t *testing.T) {
		s := continued(first, roundOne, change{triedInRound(1, "m1", event.TryTransient), gaveUp("m1", "rounds_exhausted"), settle},
			change{event.Requeued{Generation: 1, Edit: &event.Edit{Digest: "d"}}})
		require.Empty(t, s.Messages)
		require.Equal(t, 4, s.Tries())
	})
	t.Run("a result of a round before does not use the budget of this one", func(t *testing.T) {
		s := continued(first, roundOne, change{triedInRound(0, "m1", event.TryTransient)})
		require.Zero(t, s.Message("m1").RoundTries)
		require.Equal(t, 4, s.Message("m1").Tries)
	})
	t.Run("a takeover goes on with the round and what is left of its budget", func(t *testing.T) {
		s := continued(first, roundOne, change{triedInRound(1, "m1", event.TryTransient)})
		s = continued(s, change{crashed("r3"), event.Claimed{Owner: ownerB, Round: 1}})
		require.Equal(t, 1, s.Round)
		require.Equal(t, 1, s.Message("m1").RoundTries)
	})
	t.Run("an interruption burns no round and no budget", func(t *testing.T) {
		s := history(claimA, change{plan(hold), tried("m1", event.TryTransient), waiting(0, at(121), event.WaitInterrupted)})
		require.Zero(t, s.Round)
		require.Equal(t, 1, s.Message("m1").RoundTries)
	})
	t.Run("a requeue starts at the first round", func(t *testing.T) {
		s := continued(first, roundOne, change{gaveUp("m1", "rounds_exhausted"), settle}, change{event.Requeued{Generation: 1}})
		require.Zero(t, s.Round)
		require.Zero(t, s.Message("m1").RoundTries)
		require.Equal(t, 3, s.Message("m1").Tries)
	})
}

func TestRateLimit(t *testing.T) {
	limited := tried("m1", event.TryRateLimited)
	limited.RetryAfter = at(720)
	s := history(claimA, change{plan(hold), limited, waiting(0, at(720), event.WaitRateLimited)})

	t.Run("a rate limit burns no try of the round, and is counted as a call", func(t *testing.T) {
		require.Zero(t, s.Message("m1").RoundTries)
		require.Equal(t, 1, s.Message("m1").Tries)
		require.Equal(t, at(720), s.Message("m1").RetryAfter)
		require.Equal(t, event.MessagePending, s.Message("m1").State)
	})
	t.Run("the time it makes the event wait adds up", func(t *testing.T) {
		require.Equal(t, int64(600_000), s.DeferredMS)
		s := continued(s, change{event.Claimed{Owner: ownerA}}, change{limited, waiting(0, at(250), event.WaitRateLimited)})
		require.Equal(t, int64(610_000), s.DeferredMS)
	})
	t.Run("the next answer lifts it", func(t *testing.T) {
		require.Zero(t, continued(s, change{tried("m1", event.TryTransient)}).Message("m1").RetryAfter)
	})
	t.Run("waiting for another reason adds nothing, nor does a due time that has passed", func(t *testing.T) {
		s := continued(s, change{waiting(1, at(9999), event.WaitRetry)}, change{waiting(1, at(0), event.WaitRateLimited)})
		require.Equal(t, int64(600_000), s.DeferredMS)
	})
	t.Run("a requeue forgets it", func(t *testing.T) {
		s := continued(s, change{settle}, change{event.Requeued{Generation: 1}})
		require.Zero(t, s.DeferredMS)
		require.Zero(t, s.Message("m1").RetryAfter)
	})
}

func TestMessageSaysWhatHappenedLast(t *testing.T) {
	s := history(claimA, change{plan(hold), tried("m1", event.TryTransient)})
	require.Equal(t, "code_transient", s.Message("m1").Code)
	require.Equal(t, at(11), s.Message("m1").ChangedAt)

	s = continued(s, change{gaveUp("m1", "rounds_exhausted")})
	require.Equal(t, "rounds_exhausted", s.Message("m1").Reason)
	require.Equal(t, at(180), s.Message("m1").ChangedAt)
	require.True(t, s.Message("m1").Done)

	s = continued(s, change{tried("m1", event.TryDelivered)})
	require.Equal(t, "code_delivered", s.Message("m1").Code)
	require.Empty(t, s.Message("m1").Reason)
}

func TestDeadLetterKeepsItsCauseUntilRequeued(t *testing.T) {
	s := history(claimA, change{event.Dead{Cause: event.CausePanic}})
	require.Equal(t, event.CausePanic, s.Cause)
	require.Equal(t, event.Failed, s.Outcome)

	s = continued(s, change{event.Requeued{Generation: 1}})
	require.Empty(t, s.Cause)
	require.Empty(t, s.Outcome)
}

func TestStaleEventIsForgottenToBeStaleByARequeue(t *testing.T) {
	s := history(claimA, change{event.Expired{AgeMS: 2, WindowMS: 1}, settle})
	require.Equal(t, event.Stale, s.Nothing)
	s = continued(s, change{event.Requeued{Generation: 1}})
	require.Empty(t, s.Nothing)
	require.False(t, s.Planned)
}

func TestApplyLeavesItsReceiverAlone(t *testing.T) {
	before := history(claimA, change{plan(hold, resend, hold), tried("m1", event.TryTransient)})
	bare := history(claimA)
	snapshotBare := encode(t, bare)
	bare.Apply("r2", at(120), plan(hold, hold), tried("m1", event.TryDelivered))
	require.Equal(t, snapshotBare, encode(t, bare), "the plan changed the claim of the state before it")
	snapshot := encode(t, before)
	for name, facts := range map[string]change{
		"results":                 {tried("m1", event.TryDelivered), gaveUp("m2", "permanent"), event.Withheld{Message: "m3"}},
		"a crash":                 {crashed("r1"), claimed(ownerB)},
		"a new round":             {waiting(1, at(99), event.WaitRetry)},
		"an end and a requeue":    {settle, event.Requeued{Generation: 1}, claimed(ownerB)},
		"a plan over another one": {plan(hold, hold, hold, hold)},
	} {
		t.Run(name, func(t *testing.T) {
			after := before.Apply("r3", at(180), facts...)
			require.Equal(t, snapshot, encode(t, before))
			for i := range after.Messages {
				after.Messages[i].Code = "changed"
			}
			require.Equal(t, snapshot, encode(t, before), "the two states share messages")
		})
	}

	t.Run("two states after one do not share messages", func(t *testing.T) {
		claimed := history(claimA)
		one, two := claimed.Apply("r2", at(120), plan(hold)), claimed.Apply("r2", at(120), plan(resend))
		require.Equal(t, event.Hold, one.Messages[0].OnUnknown)
		require.Equal(t, event.Resend, two.Messages[0].OnUnknown)
	})
}

func TestCounts(t *testing.T) {
	s := history(claimA, change{
		plan(hold, hold, hold, hold, hold),
		tried("m1", event.TryDelivered), gaveUp("m2", "permanent"),
		event.Withheld{Message: "m3"},
		tried("m4", event.TryUnknown),
	})
	require.Equal(t, event.Counts{Created: 5, Delivered: 1, Failed: 1, Suppressed: 1, Uncertain: 1}, s.Counts())
	require.Nil(t, s.Message("no such"))
}

func TestIdempotencyKey(t *testing.T) {
	dead := change{plan(hold), tried("m1", event.TryUnknown), gaveUp("m1", "held"), event.Dead{Cause: event.CauseUncertain}}
	edited := event.Requeued{Generation: 1, Edit: &event.Edit{Digest: "d"}}

	t.Run("it is the message's id", func(t *testing.T) {
		require.Equal(t, "m1", history(claimA, dead).IdempotencyKey("m1"))
	})
	t.Run("a requeue keeps it", func(t *testing.T) {
		require.Equal(t, "m1", history(claimA, dead, change{event.Requeued{Generation: 1}}).IdempotencyKey("m1"))
	})
	t.Run("an edit changes it for good", func(t *testing.T) {
		s := history(claimA, dead, change{edited}, change{claimed(ownerB)}, dead, change{event.Requeued{Generation: 2}})
		require.Equal(t, "m1.g1", s.IdempotencyKey("m1"))
	})
}

func TestDiscardedEndsAsFailed(t *testing.T) {
	s := history(claimA, change{event.Dead{Cause: event.CauseTemplateError}}, change{event.Discarded{Operator: "ann", Reason: "a test"}})
	require.Equal(t, event.Failed, s.Outcome)
	require.Equal(t, event.CauseTemplateError, s.Cause, "why it had to be looked at is remembered")
}
