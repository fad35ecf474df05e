package dispatcher_test

import (
	"context"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/dispatcher"
	"tidings/dispatcher/channel"
	"tidings/streams"
	"tidings/streams/event"
	"tidings/streams/streamstest"
)

func TestOutcomes(t *testing.T) {
	r := newRig(t, newLog(t), nil)
	suppressed := r.sink.URL("/ok/suppressed")
	r.o.Suppressions = dispatcher.SuppressionList{{Channel: "hook", Recipient: event.NewRecipient(testSecret, suppressed), Reason: "unsubscribed"}}
	r.start(r.o)

	old := r.order("stale", "/ok")
	old.OccurredAt = time.Now().Add(-169 * time.Hour)
	for _, c := range []struct {
		ensures string
		event   event.Envelope
		outcome event.Outcome
		facts   []string
		cause   event.Cause
	}{
		{
			"an event is processed in two appends", r.order("ok", "/ok/1", "/ok/2"), event.Processed,
			[]string{"claimed", "planned tried:delivered tried:delivered settled"},
			"",
		},
		{
			"an event of a type without a route has no template", newEvent("unrouted", "invoice.sent", nil), event.NoTemplate,
			[]string{"claimed", "planned settled"},
			"",
		},
		{
			"an event whose route has no template has none", newEvent("blank", "blank.x", map[string]any{"to": "ada@example.com"}), event.NoTemplate,
			[]string{"claimed", "planned settled"},
			"",
		},
		{
			"an event without a recipient has none", newEvent("nobody", "order.placed", map[string]any{}), event.NoRecipient,
			[]string{"claimed", "planned settled"},
			"",
		},
		{
			"an event whose recipient is suppressed is suppressed", r.order("suppressed", "/ok/suppressed"), event.Suppressed,
			[]string{"claimed", "planned withheld settled"},
			"",
		},
		{
			"a stale event is recorded and never claimed", old, event.Stale,
			[]string{"expired settled"},
			"",
		},
		{
			"a provider that refuses for good makes it fail after one try", r.order("gone", "/gone"), event.Failed,
			[]string{"claimed", "planned tried:permanent gave_up settled"},
			"",
		},
		{
			"a provider that fails twice gets a third try", r.order("flaky", "/flaky"), event.Processed,
			[]string{"claimed", "planned tried:transient tried:transient tried:delivered settled"},
			"",
		},
		{
			"a provider that always fails makes a dead letter after its rounds", r.order("broken", "/always500"), event.Failed,
			[]string{"claimed", "planned tried:transient tried:transient tried:transient gave_up claimed", "dead"},
			event.CauseRoundsExhausted,
		},
		{
			"one delivered message makes it processed although another failed", r.order("mixed", "/ok", "/gone"), event.Processed,
			[]string{"claimed", "planned tried:delivered tried:permanent gave_up settled"},
			"",
		},
		{
			"a message whose fate is unknown is held and makes a dead letter", newEvent("held", "mail.x", map[string]any{"to": "ada@example.com", "name": "Ada"}), event.Failed,
			[]string{"claimed", "planned tried:unknown gave_up claimed", "dead"},
			event.CauseUncertain,
		},
		{
			"a template that cannot be executed makes a dead letter", newEvent("template", "mail.x", map[string]any{"to": "ada@example.com"}), event.Failed,
			[]string{"claimed", "dead"},
			event.CauseTemplateError,
		},
	} {
		t.Run(c.ensures, func(t *testing.T) {
			r := *r
			r.TB = t
			key := r.publish(c.event)
			h := r.ended(key)
			s := h.state(key)
			require.Equal(t, c.outcome, s.Outcome)
			require.Equal(t, c.facts, h.facts(key))
			require.Equal(t, c.cause, s.Cause)
			letter, _, err := r.log.DeadLetters.Get(r.within(5*time.Second), "acme", key)
			if c.cause == "" {
				require.ErrorIs(t, err, streams.ErrNotFound, "no letter without a cause")
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.cause, letter.Cause)
			require.Equal(t, c.event.Data, letter.Data, "the letter holds the payload")
		})
	}
}

func TestATemplateErrorNamesFileAndLine(t *testing.T) {
	r := newRig(t, newLog(t), nil)
	r.start(r.o)
	key := r.publish(newEvent("1", "mail.x", map[string]any{"to": "ada@example.com"}))
	r.ended(key)
	letter, _, err := r.log.DeadLetters.Get(r.within(5*time.Second), "acme", key)
	require.NoError(t, err)
	require.Regexp(t, `templates/letter/(subject|text)\.txt:1`, letter.Detail)
}

func TestASecondCopyIsADuplicate(t *testing.T) {
	log := newLog(t)
	r := newRig(t, log, nil)
	r.start(r.o)
	e := r.order("1", "/ok")
	key := r.publish(e)
	r.ended(key)

	t.Run("audited once, with nothing sent", func(t *testing.T) {
		seq := publishAgain(t, log, e)
		h := r.until("the duplicate is audited", func(h history) bool { return len(h.duplicates) == 1 })
		require.Equal(t, key, h.duplicates[0].Event.Key)
		require.Equal(t, seq, h.duplicates[0].Sequence)
		require.Equal(t, event.StageDispatcher, h.duplicates[0].Stage)
		require.Equal(t, 1, r.sink.Count())
	})
	t.Run("with another body it is a conflict, kept as a dead letter of its own", func(t *testing.T) {
		other := r.order("1", "/ok", "/ok/2")
		publishAgain(t, log, other)
		letter := waitForLetter(t, r, event.ConflictKey(key, event.Digest(other.Data)))
		require.Equal(t, event.CauseIDConflict, letter.Cause)
		require.Equal(t, other.Data, letter.Data)
		require.Equal(t, 1, r.sink.Count())
	})
	t.Run("of a stale event too", func(t *testing.T) {
		old := r.order("old", "/ok")
		old.OccurredAt = time.Now().Add(-200 * time.Hour)
		r.ended(r.publish(old))
		publishAgain(t, log, old)
		r.until("the duplicate is audited", func(h history) bool { return len(h.duplicates) == 2 })
	})
}

func TestRounds(t *testing.T) {
	r := newRig(t, newLog(t), nil)
	hook := r.o.Channels["hook"]
	hook.Policy.Tries, hook.Policy.Rounds = 1, []time.Duration{300 * time.Millisecond, 300 * time.Millisecond}
	r.o.Channels["hook"] = hook
	r.start(r.o)

	t.Run("a further round is a scheduled wake-up, and succeeds", func(t *testing.T) {
		key := r.publish(r.order("flaky", "/flaky"))
		h := r.ended(key)
		require.Equal(t, event.Processed, h.state(key).Outcome)
		require.Equal(t, []string{
			"claimed", "planned tried:transient waiting",
			"claimed", "tried:transient waiting",
			"claimed", "tried:delivered settled",
		}, h.facts(key))
	})
	t.Run("what was delivered in the first is not sent in the second", func(t *testing.T) {
		key := r.publish(r.order("half", "/ok/half", "/always500/half"))
		h := r.ended(key)
		s := h.state(key)
		require.Equal(t, event.Processed, s.Outcome)
		require.Equal(t, event.PhaseDead, s.Phase, "the other message needs an operator")
		require.Equal(t, 1, r.calls("/ok/half"))
		require.Equal(t, 3, r.calls("/always500/half"))
	})
}

func TestUnknownFateIsRecordedBeforeTheRepeat(t *testing.T) {
	var calls atomic.Int32
	r := newRig(t, newLog(t), nil)
	hook := r.o.Channels["hook"]
	real := hook.Sender
	hook.Sender = channel.SenderFunc(func(ctx context.Context, m channel.Message) (channel.Receipt, error) {
		receipt, err := real.Send(ctx, m)
		if calls.Add(1) == 1 {
			return receipt, channel.Unknown("timeout", nil)
		}
		return receipt, err
	})
	r.o.Channels["hook"] = hook
	r.start(r.o)
	key := r.publish(r.order("1", "/ok"))
	h := r.ended(key)
	require.Equal(t, []string{"claimed", "planned tried:unknown claimed", "tried:delivered settled"}, h.facts(key))
	require.Equal(t, event.MessageUncertain, h.records[1].State.Messages[0].State)
	id := h.state(key).Messages[0].ID
	require.Equal(t, map[string]int{id: 2}, r.sink.ByID(), "the repeat carries the same id")
}

func TestAnEventDeliveredTooOftenIsBuriedFromItsHeaders(t *testing.T) {
	r := newRig(t, newLog(t), nil)
	r.o.Consume.MaxDeliver = 1 // the first delivery is one too many
	r.start(r.o)
	e := r.order("1", "/ok")
	e.Data = []byte("not even JSON") // nobody looks
	key := r.publish(e)
	h := r.ended(key)
	require.Equal(t, []string{"dead"}, h.facts(key))
	letter, _, err := r.log.DeadLetters.Get(r.within(5*time.Second), "acme", key)
	require.NoError(t, err)
	require.Equal(t, event.CauseMaxDeliver, letter.Cause)
	require.Equal(t, e.Data, letter.Data)
	require.Zero(t, r.sink.Count())
}

func TestAnEventIsClaimedOnlyWhenItsMailCanBeSent(t *testing.T) {
	r := newRig(t, newLog(t), nil)
	inside, release := make(chan struct{}), make(chan struct{})
	mail := r.o.Channels["mail"]
	mail.Policy.Concurrency = 2
	mail.Sender = channel.SenderFunc(func(context.Context, channel.Message) (channel.Receipt, error) {
		inside <- struct{}{}
		<-release
		return channel.Receipt{Code: "smtp_250"}, nil
	})
	r.o.Channels["mail"] = mail
	stop := r.start(r.o)
	var keys []event.Key
	for _, id := range []string{"1", "2", "3", "4", "5", "6"} {
		keys = append(keys, r.publish(newEvent(id, "mail.x", map[string]any{"to": "ada@example.com", "name": "Ada"})))
	}
	<-inside
	<-inside
	release <- struct{}{} // one ends
	<-inside              // the third is on its way: three were claimed, and no more
	h := r.all()
	claims := 0
	for _, rec := range h.records {
		if rec.Kind == event.KindClaimed {
			claims++
		}
	}
	require.Equal(t, 3, claims)

	t.Run("and is left unclaimed when the process is stopped", func(t *testing.T) {
		release <- struct{}{}
		<-inside
		close(release)
		go func() {
			for range inside { // those that were admitted before the stop
			}
		}()
		stop()
		close(inside)
		h := r.all()
		for _, k := range keys {
			require.NotEqual(t, event.PhaseClaimed, h.state(k).Phase)
		}
	})
}

func TestResultsDoNotWaitForASlowerCallBesideThem(t *testing.T) {
	release := make(chan struct{})
	r := newRig(t, newLog(t), map[string]http.HandlerFunc{"/slow": func(http.ResponseWriter, *http.Request) { <-release }})
	mail := r.o.Channels["mail"]
	mail.Sender = channel.SenderFunc(func(context.Context, channel.Message) (channel.Receipt, error) {
		return channel.Receipt{Code: "smtp_250"}, nil
	})
	r.o.Channels["mail"] = mail
	r.start(r.o)
	key := r.publish(newEvent("1", "both.x", map[string]any{"to": "ada@example.com", "name": "Ada", "urls": []string{r.sink.URL("/slow")}}))
	h := r.until("the mail is recorded", func(h history) bool { return h.state(key).Counts().Delivered == 1 })
	require.Equal(t, []string{"claimed", "planned tried:delivered claimed"}, h.facts(key))
	s := h.state(key)
	for _, m := range s.Messages {
		require.Equal(t, m.State == event.MessagePending, slices.Contains(s.Claim.Messages, m.ID), "the claim goes on for the hook alone")
	}
	close(release)
	require.Equal(t, []string{"claimed", "planned tried:delivered claimed", "tried:delivered settled"}, r.ended(key).facts(key))
}

func TestManyRecipients(t *testing.T) {
	r := newRig(t, newLog(t), nil)
	r.start(r.o)
	urls := make([]string, 200)
	for i := range urls {
		urls[i] = r.sink.URL("/ok/" + event.NewNonce())
	}
	key := r.publish(newEvent("many", "order.placed", map[string]any{"urls": urls}))
	h := r.ended(key)
	require.Equal(t, event.Counts{Created: 200, Delivered: 200}, h.state(key).Counts())
	require.Len(t, r.sink.ByID(), 200)
	require.Equal(t, 200, r.sink.Count(), "each exactly once")
	require.Equal(t, "planned claimed", h.facts(key)[1], "a plan of more than a claim's limit is frozen before the first call")
	require.Len(t, h.facts(key), 6, "64 a claim: three renewals")
}

func TestEightRacersOnOneEventGiveOneSend(t *testing.T) {
	for name, c := range map[string]struct {
		racers     int
		durability streamstest.Option
	}{
		"in one process": {1, relaxed},
		"in eight, whose claims are appended one by one":             {8, relaxed},
		"in eight, whose claims go through one group-commit batcher": {8, streamstest.Strict},
	} {
		t.Run(name, func(t *testing.T) {
			log := newLog(t, c.durability)
			r := newRig(t, log, nil)
			e := r.order("1", "/ok")
			for range 8 {
				publishAgain(t, log, e)
			}
			for i := range c.racers {
				o := r.o
				o.Owner.Instance = string(rune('a' + i))
				r.start(o)
			}
			h := r.until("seven of eight copies are duplicates", func(h history) bool { return len(h.duplicates) == 7 })
			require.Equal(t, 1, r.sink.Count())
			require.Len(t, h.records, 2, "one claim, one end")
		})
	}
}

func TestDrain(t *testing.T) {
	t.Run("a send in hand is finished and recorded, nothing is cut", func(t *testing.T) {
		inside, release := make(chan struct{}), make(chan struct{})
		r := newRig(t, newLog(t), map[string]http.HandlerFunc{"/slow": func(w http.ResponseWriter, _ *http.Request) {
			close(inside)
			<-release
		}})
		stop := r.start(r.o)
		key := r.publish(r.order("1", "/slow"))
		<-inside
		stopped := make(chan struct{})
		go func() { defer close(stopped); stop() }()
		close(release)
		<-stopped
		require.Equal(t, []string{"claimed", "planned tried:delivered settled"}, r.ended(key).facts(key))
	})
	t.Run("what the end of the budget cuts is uncertain, and not failed", func(t *testing.T) {
		inside := make(chan struct{})
		r := newRig(t, newLog(t), map[string]http.HandlerFunc{"/hang": func(_ http.ResponseWriter, req *http.Request) {
			close(inside)
			<-req.Context().Done()
		}})
		r.o.Consume.Drain = 50 * time.Millisecond
		stop := r.start(r.o)
		key := r.publish(r.order("1", "/hang"))
		<-inside
		stop()
		h := r.until("it waits", func(h history) bool { return h.state(key).Phase == event.PhaseWaiting })
		require.Equal(t, []string{"claimed", "planned tried:unknown waiting"}, h.facts(key))
		require.Equal(t, event.MessageUncertain, h.state(key).Messages[0].State)
	})
}
