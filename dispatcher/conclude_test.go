package dispatcher

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/streams/event"
)

func TestConclude(t *testing.T) {
	policies := map[string]Policy{
		"once":    Policy{Tries: 1}.withDefaults(),
		"email":   Policy{Rounds: []time.Duration{30 * time.Second}}.withDefaults(),
		"webhook": Policy{Rounds: []time.Duration{time.Minute, time.Hour}}.withDefaults(),
		"strict":  Policy{DeadLetterPermanent: true}.withDefaults(),
	}
	planned := func(ms ...event.PlannedMessage) event.Fact { return event.Planned{Messages: ms} }
	on := func(id, channel string, unknown event.OnUnknown) event.PlannedMessage {
		return event.PlannedMessage{ID: id, Channel: channel, OnUnknown: unknown}
	}
	tried := func(id string, results ...event.TryResult) (facts []event.Fact) {
		for _, r := range results {
			facts = append(facts, event.Tried{Message: id, Result: r, Ended: now})
		}
		return facts
	}
	limited := event.Tried{Message: "m", Result: event.TryRateLimited, Ended: now, RetryAfter: now.Add(10 * time.Minute)}
	inRound := func(round int, facts []event.Fact) []event.Fact {
		for i, f := range facts {
			t := f.(event.Tried)
			t.Round = round
			facts[i] = t
		}
		return facts
	}
	three := []event.TryResult{event.TryTransient, event.TryTransient, event.TryTransient}
	gaveUp := func(reason string) []event.Fact { return []event.Fact{event.GaveUp{Message: "m", Reason: reason}} }
	mail, hook := planned(on("m", "email", event.Hold)), planned(on("m", "webhook", event.Resend))

	for name, c := range map[string]struct {
		records  [][]event.Fact
		stopping bool
		shut     string // a channel without room
		late     bool
		want     ending
	}{
		"no messages: settled":   {records: [][]event.Fact{{planned()}}},
		"all delivered: settled": {records: [][]event.Fact{{mail}, tried("m", event.TryDelivered)}},
		"withheld: settled":      {records: [][]event.Fact{{mail, event.Withheld{Message: "m"}}}},
		"refused for good: settled, only recorded": {
			records: [][]event.Fact{{mail}, append(tried("m", event.TryPermanent), gaveUp(gaveUpPermanent)...)},
		},
		"refused for good on a channel that wants letters for it: dead": {
			records: [][]event.Fact{{planned(on("m", "strict", event.Hold))}, append(tried("m", event.TryPermanent), gaveUp(gaveUpPermanent)...)},
			want:    ending{cause: event.CausePermanent},
		},
		"not started: again": {records: [][]event.Fact{{mail}}, want: ending{again: true}},
		"not started, and the process stops: waits, and burns no round": {
			records: [][]event.Fact{{mail}}, stopping: true,
			want: ending{wait: &event.Waiting{Round: 0, Due: now, Reason: event.WaitInterrupted}},
		},
		"all tries of a round failed: the next round": {
			records: [][]event.Fact{{mail}, tried("m", three...)},
			want:    ending{wait: &event.Waiting{Round: 1, Due: now.Add(30 * time.Second), Reason: event.WaitRetry}},
		},
		"messages of two channels: the longer wait holds for the round": {
			records: [][]event.Fact{
				{planned(on("a", "email", event.Hold), on("b", "webhook", event.Resend))},
				append(tried("a", three...), tried("b", three...)...),
			},
			want: ending{wait: &event.Waiting{Round: 1, Due: now.Add(time.Minute), Reason: event.WaitRetry}},
		},
		"all tries of the last round failed: dead": {
			records: [][]event.Fact{{mail}, {event.Waiting{Round: 1, Due: now}}, inRound(1, tried("m", three...))},
			want:    ending{facts: gaveUp(gaveUpRounds), cause: event.CauseRoundsExhausted},
		},
		"unknown fate on a channel that holds: dead": {
			records: [][]event.Fact{{mail}, tried("m", event.TryUnknown)},
			want:    ending{facts: gaveUp(gaveUpHeld), cause: event.CauseUncertain},
		},
		"unknown fate on a channel that resends: again": {
			records: [][]event.Fact{{hook}, tried("m", event.TryUnknown)},
			want:    ending{again: true},
		},
		"unknown fate, then delivered: settled": {
			records: [][]event.Fact{{hook}, tried("m", event.TryUnknown, event.TryDelivered)},
		},
		"unknown fate and every resend failed: dead, and still uncertain": {
			records: [][]event.Fact{{planned(on("m", "once", event.Resend))}, tried("m", event.TryUnknown)},
			want:    ending{facts: gaveUp(gaveUpRounds), cause: event.CauseUncertain},
		},
		"rate limited: waits as asked, and burns neither try nor round": {
			records: [][]event.Fact{{hook}, {limited}},
			want:    ending{wait: &event.Waiting{Round: 0, Due: now.Add(10 * time.Minute), Reason: event.WaitRateLimited}},
		},
		"rate limited for longer than a day in all: given up": {
			records: [][]event.Fact{{hook}, {event.Waiting{Due: now.Add(24 * time.Hour), Reason: event.WaitRateLimited}}, {limited}},
			want:    ending{facts: gaveUp(gaveUpDeferred), cause: event.CauseRoundsExhausted},
		},
		"its channel has no room: waits for it, and burns neither try nor round": {
			records: [][]event.Fact{{hook}, tried("m", event.TryTransient)}, shut: "webhook",
			want: ending{wait: busyUntil(now.Add(longestAside), "webhook"), aside: []string{"webhook"}},
		},
		"another channel has room: goes on there": {
			records: [][]event.Fact{{planned(on("a", "email", event.Hold), on("b", "webhook", event.Resend))}}, shut: "webhook",
			want: ending{again: true, aside: []string{"webhook"}},
		},
		"no room, and the process stops: waits for it": {
			records: [][]event.Fact{{hook}}, shut: "webhook", stopping: true,
			want: ending{wait: busyUntil(now.Add(longestAside), "webhook"), aside: []string{"webhook"}},
		},
		"no room here and the next round there: waits for whichever comes first, and the round begins when it is due": {
			records: [][]event.Fact{
				{planned(on("a", "email", event.Hold), on("b", "webhook", event.Resend))},
				tried("a", three...),
			},
			shut: "webhook",
			want: ending{wait: busyUntil(now.Add(30*time.Second), "webhook"), aside: []string{"webhook"}, timed: true},
		},
		"no room here and a rate limit there: waits as asked": {
			records: [][]event.Fact{{planned(on("m", "email", event.Hold), on("b", "webhook", event.Resend))}, {limited}}, shut: "webhook",
			want: ending{wait: &event.Waiting{Due: now.Add(10 * time.Minute), Reason: event.WaitRateLimited}},
		},
		"no room, and too old to wait for it: given up": {
			records: [][]event.Fact{{hook}}, shut: "webhook", late: true,
			want: ending{facts: gaveUp(gaveUpDeferred), cause: event.CauseRoundsExhausted},
		},
		"no more tries: given up, room or none": {
			records: [][]event.Fact{{planned(on("m", "once", event.Resend))}, tried("m", event.TryTransient)}, shut: "once",
			want: ending{facts: gaveUp(gaveUpRounds), cause: event.CauseRoundsExhausted},
		},
	} {
		t.Run(name, func(t *testing.T) {
			room := func(m event.Message) int {
				if m.Channel == c.shut {
					return 0
				}
				return claimLimit
			}
			o := outlook{policies: policies, room: room, way: func(m event.Message) string { return m.Channel }, now: now, stopping: c.stopping, late: c.late}
			require.Equal(t, c.want, conclude(stateAfter(c.records...), o))
		})
	}
}

func busyUntil(due time.Time, channel string) *event.Waiting {
	return &event.Waiting{Due: due, Reason: event.WaitBusy, Channel: channel}
}

func TestUndeliveredNamesTheFirstMessageAndCountsTheOthers(t *testing.T) {
	hook := event.Message{
		Channel: "hook", Route: "b", Recipient: event.Recipient{Mask: "https://example.com/…"},
		State: event.MessageFailed, Reason: gaveUpRounds, Code: "http_500", Tries: 3,
	}
	mail := event.Message{
		Channel: "mail", Route: "c", Recipient: event.Recipient{Mask: "y…@example.com"},
		State: event.MessageUncertain, Reason: gaveUpHeld, Code: "timeout", Tries: 1,
	}
	crashed, delivered := mail, mail
	crashed.Tries, crashed.Code = 0, ""
	delivered.State = event.MessageDelivered
	for name, tt := range map[string]struct {
		messages []event.Message
		want     string
	}{
		"a failed one":                {[]event.Message{delivered, hook}, "hook to https://example.com/… by route b failed: rounds_exhausted after 3 tries, last answer http_500"},
		"an uncertain one":            {[]event.Message{mail}, "mail to y…@example.com by route c may have been sent: held after 1 try, last answer timeout"},
		"one of a claim that crashed": {[]event.Message{crashed}, "mail to y…@example.com by route c may have been sent: held, no try is recorded"},
		"several":                     {[]event.Message{crashed, hook, mail}, "mail to y…@example.com by route c may have been sent: held, no try is recorded; and 2 more"},
		"none":                        {[]event.Message{delivered}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tt.want, undelivered(event.State{Messages: tt.messages}))
		})
	}
}

func TestPolicyPause(t *testing.T) {
	p := Policy{}.withDefaults()
	t.Run("the first try comes at once", func(t *testing.T) { require.Zero(t, p.pause(0)) })
	for tries, want := range map[int]time.Duration{1: 200 * time.Millisecond, 2: 400 * time.Millisecond, 3: 800 * time.Millisecond} {
		got := p.pause(tries)
		require.InDelta(t, want, got, 0.2*float64(want), "within 20 %% of base × 2^n after %d tries", tries)
	}
	t.Run("no pause in process is longer than the bound", func(t *testing.T) {
		require.LessOrEqual(t, p.pause(50), longestPause*6/5)
	})
}
