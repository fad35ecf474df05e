package why_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/cmd/internal/why"
	"tidings/store"
	"tidings/streams/event"
)

var update = flag.Bool("update", false, "write the golden files anew")

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// history folds what happens to one event into a real ledger.
type history struct {
	t     *testing.T
	store *store.Store
	ref   event.Ref
	state event.State
	now   time.Time
	seq   uint64
	last  string // id of the last record
}

func newHistory(t *testing.T) *history {
	t.Helper()
	s, err := store.Open(filepath.Join(t.TempDir(), "ledger.db"), store.Options{NoSync: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	ref := event.Ref{
		Tenant: "shop", Source: "checkout", ID: "o-1001", IDSource: event.IDMessageID, Type: "order.placed",
		OccurredAt: noon.Add(-3 * time.Second), ReceivedAt: noon, Sequence: 17,
	}
	ref.Key = event.NewKey("test", ref.ID)
	return &history{t: t, store: s, ref: ref, now: noon}
}

func (h *history) fold(fn func(tx *store.Tx, p store.Place) error) {
	h.t.Helper()
	h.now = h.now.Add(5 * time.Millisecond)
	h.seq++
	require.NoError(h.t, h.store.Update(func(tx *store.Tx) error {
		return fn(tx, store.Place{Sequence: h.seq, Time: h.now})
	}))
}

// record appends a record of the facts.
func (h *history) record(facts ...event.Fact) {
	h.t.Helper()
	h.fold(func(tx *store.Tx, p store.Place) error {
		r := event.NewRecord(h.ref, h.state, p.Time, facts...)
		h.state, h.last = r.State, r.ID
		return tx.Record(p, r)
	})
}

func (h *history) after(d time.Duration) { h.now = h.now.Add(d) }

func (h *history) story() why.Story {
	h.t.Helper()
	row, err := h.store.Event(h.ref.Key)
	require.NoError(h.t, err)
	entries, err := h.store.History(h.ref.Key, 0, 0)
	require.NoError(h.t, err)
	return why.Tell(row, entries)
}

var (
	here  = event.Owner{Instance: "shop-1", Boot: "boot-a"}
	there = event.Owner{Instance: "shop-1", Boot: "boot-b"}
	mail  = event.PlannedMessage{
		ID: "msg-mail", Route: "confirmation", Channel: "mail", Template: "order", Locale: "de",
		Recipient: event.Recipient{Hash: "h1", Mask: "a…@example.com"}, OnUnknown: event.Hold,
	}
	hook = event.PlannedMessage{
		ID: "msg-hook", Route: "warehouse", Channel: "hook",
		Recipient: event.Recipient{Hash: "h2", Mask: "https://warehouse.example/…"}, OnUnknown: event.Resend,
	}
)

func (h *history) claim(generation, round int) {
	h.record(event.Claimed{Owner: here, Generation: generation, Round: round, LeaseMS: 60_000, Limit: 64, Config: "rev1"})
}

func (h *history) tried(m event.PlannedMessage, round, try int, result event.TryResult, code string) event.Tried {
	return event.Tried{
		Message: m.ID, Round: round, Try: try, Started: h.now.Add(-50 * time.Millisecond), Ended: h.now.Add(-16 * time.Millisecond),
		Result: result, Code: code, Provider: "provider.example",
	}
}

func planned(messages ...event.PlannedMessage) event.Planned {
	return event.Planned{Config: "rev1", Messages: messages, Routes: []event.RouteDecision{
		{Route: "confirmation", Verdict: "planned", Count: len(messages)},
		{Route: "vip", Verdict: "condition_false", Detail: "data.total > 1000"},
	}}
}

func TestTell(t *testing.T) {
	for name, tell := range map[string]func(h *history){
		"processed": func(h *history) {
			h.claim(0, 0)
			h.after(60 * time.Millisecond)
			h.record(planned(mail, hook), h.tried(mail, 0, 1, event.TryDelivered, "smtp_250"),
				h.tried(hook, 0, 1, event.TryTransient, "http_500"), h.tried(hook, 0, 2, event.TryDelivered, "http_200"),
				event.Settled{})
		},
		"duplicates": func(h *history) {
			h.claim(0, 0)
			h.record(planned(hook), h.tried(hook, 0, 1, event.TryDelivered, "http_204"), event.Settled{})
			h.fold(func(tx *store.Tx, p store.Place) error {
				return tx.Duplicate(p, event.NewDuplicate(h.ref, event.StageBridge, "EVENTS", 17, "n1", "amqp queue orders", p.Time))
			})
			h.fold(func(tx *store.Tx, p store.Place) error {
				return tx.Duplicate(p, event.NewDuplicate(h.ref, event.StageHTTP, "EVENTS", 17, "n2", "http", p.Time))
			})
			h.fold(func(tx *store.Tx, p store.Place) error {
				d := event.NewDuplicate(h.ref, event.StageDispatcher, "EVENTS", 40, "", "", p.Time)
				d.Count = 12
				return tx.Duplicate(p, d)
			})
			h.fold(func(tx *store.Tx, p store.Place) error {
				d := event.NewDuplicate(h.ref, event.StageBridge, "EVENTS", 17, "n3", "amqp queue orders", p.Time)
				d.Count, d.Since = 3000, p.Time.Add(-40*time.Second)
				return tx.Duplicate(p, d)
			})
		},
		"two_ids": func(h *history) {
			h.ref.IDSource, h.ref.AMQPMessageID = event.IDCloudEvents, "m-77"
			h.claim(0, 0)
		},
		"stale": func(h *history) {
			h.ref.OccurredAt = noon.Add(-200 * time.Hour)
			h.record(event.Expired{AgeMS: (200 * time.Hour).Milliseconds(), WindowMS: (168 * time.Hour).Milliseconds()}, event.Settled{})
		},
		"no_template": func(h *history) {
			h.claim(0, 0)
			h.record(event.Planned{Config: "rev1", Nothing: event.NoTemplate, Routes: []event.RouteDecision{
				{Verdict: "no_template", Detail: `no route for events of type "order.placed"`},
			}}, event.Settled{})
		},
		"no_route": func(h *history) {
			h.claim(0, 0)
			h.record(event.Planned{Config: "rev1", Nothing: event.NoTemplate, Routes: []event.RouteDecision{
				{
					Verdict: "no_template", Detail: `no route for events of type "order.placed"`,
					Needed: `a route must be for this type: "confirmation" is for order.place, "parcel" is for parcel.*, and 3 more`,
				},
			}}, event.Settled{})
		},
		"template_missing": func(h *history) {
			h.claim(0, 0)
			h.record(event.Planned{Config: "rev1", Nothing: event.NoTemplate, Routes: []event.RouteDecision{
				{
					Route: "confirmation", Verdict: "no_template", Detail: "templates/confirmation has no template",
					Needed: "templates/confirmation must have subject.txt, and text.txt or html.html", Locales: []string{"de", "en"},
				},
			}}, event.Settled{})
		},
		"nobody": func(h *history) {
			h.claim(0, 0)
			h.record(event.Planned{Config: "rev1", Nothing: event.NoRecipient, Routes: []event.RouteDecision{
				{
					Route: "confirmation", Verdict: "no_recipient", Detail: "recipients (data.customer.email) gave nothing",
					Needed: "recipients must give an e-mail address: data.customer.email", Missing: []string{"data.customer"},
				},
				{
					Route: "vip", Verdict: "condition_false", Detail: "when is not true",
					Needed: `data.tier == "gold" || data.vip must be true`, Missing: []string{"data.tier", "data.vip"},
				},
			}}, event.Settled{})
		},
		"channel_gone": func(h *history) {
			h.claim(0, 0)
			h.record(planned(mail, hook), event.GaveUp{Message: mail.ID, Reason: "no_channel"}, event.GaveUp{Message: hook.ID, Reason: "not_in_plan"},
				event.Settled{})
		},
		"no_recipient": func(h *history) {
			h.claim(0, 0)
			h.record(event.Planned{Config: "rev1", Nothing: event.NoRecipient, Routes: []event.RouteDecision{
				{Route: "confirmation", Verdict: "no_recipient", Detail: "recipients: data.customer.email is not there"},
				{Route: "warehouse", Verdict: "no_template", Detail: "templates/warehouse/body.json is missing"},
				{Route: "odd", Verdict: "postponed"},
			}}, event.Settled{})
		},
		"suppressed": func(h *history) {
			h.claim(0, 0)
			h.record(planned(mail), event.Withheld{Message: mail.ID, Reason: "unsubscribed"}, event.Settled{})
		},
		"rounds": func(h *history) {
			h.claim(0, 0)
			h.record(planned(hook), h.tried(hook, 0, 1, event.TryTransient, "http_503"),
				event.Waiting{Round: 1, Due: h.now.Add(30 * time.Second), Reason: event.WaitRetry})
			h.after(30 * time.Second)
			h.claim(0, 1)
			limited := h.tried(hook, 1, 1, event.TryRateLimited, "http_429")
			limited.RetryAfter = h.now.Add(2 * time.Minute)
			h.record(limited, event.Waiting{Round: 1, Due: limited.RetryAfter, Reason: event.WaitRateLimited})
			h.after(2 * time.Minute)
			h.claim(0, 1)
			h.record(event.Waiting{Round: 1, Due: h.now, Reason: event.WaitInterrupted})
			h.claim(0, 1)
			h.record(h.tried(hook, 1, 2, event.TryTransient, "dial_failed"), event.GaveUp{Message: hook.ID, Reason: "rounds_exhausted"},
				event.Dead{Cause: event.CauseRoundsExhausted})
		},
		"renewed": func(h *history) {
			renewed := func(messages ...string) event.Claimed {
				return event.Claimed{Owner: here, LeaseMS: 60_000, Limit: 64, Messages: messages}
			}
			h.claim(0, 0)
			h.record(planned(mail, hook), renewed(mail.ID, hook.ID))
			h.record(h.tried(mail, 0, 1, event.TryDelivered, "smtp_250"), renewed(hook.ID))
			h.record(h.tried(hook, 0, 1, event.TryTransient, "http_503"), event.GaveUp{Message: hook.ID, Reason: "rounds_exhausted"}, renewed())
			h.record(event.Dead{Cause: event.CauseRoundsExhausted})
		},
		"permanent": func(h *history) {
			h.claim(0, 0)
			h.record(planned(hook), h.tried(hook, 0, 1, event.TryPermanent, "http_410"),
				event.GaveUp{Message: hook.ID, Reason: "permanent"}, event.Settled{})
		},
		"crash": func(h *history) {
			h.claim(0, 0)
			h.record(event.Crashed{Claim: h.last, Owner: here, Reason: "owner_gone"},
				event.Claimed{Owner: there, LeaseMS: 60_000, Limit: 64})
			h.record(planned(mail), h.tried(mail, 0, 1, event.TryTransient, "smtp_451")) // the first owner was only stopped
			h.record(event.GaveUp{Message: mail.ID, Reason: "held"}, event.Dead{Cause: event.CauseUncertain})
			h.record(h.tried(mail, 0, 1, event.TryDelivered, "smtp_250"))
		},
		"crashes": func(h *history) {
			for _, reason := range []string{"lease_expired", "panic"} {
				h.claim(0, 0)
				h.record(event.Crashed{Claim: h.last, Owner: here, Reason: reason})
			}
			h.record(event.Dead{Cause: event.CauseCrashes, Detail: "2 crashes, at most 2"})
		},
		"requeued": func(h *history) {
			h.claim(0, 0)
			h.record(event.Dead{Cause: event.CauseTemplateError, Detail: "templates/order/text.de.txt:3: no entry for key \"total\""})
			h.record(event.Requeued{Generation: 1, Operator: "ann", Reason: "template mended"})
			h.claim(1, 0)
			h.record(planned(mail), h.tried(mail, 0, 1, event.TryUnknown, "timeout"),
				event.GaveUp{Message: mail.ID, Reason: "held"}, event.Dead{Cause: event.CauseUncertain})
			h.record(event.Requeued{
				Generation: 2, Operator: "ann", Reason: "wrong address", Replay: "monday", Messages: []string{mail.ID},
				Edit: &event.Edit{Digest: event.Digest([]byte("{}")), Size: 2},
			})
			h.record(event.Waiting{Due: h.now.Add(time.Minute), Reason: event.WaitBusy, Channel: "mail"})
			h.record(event.Dead{Cause: event.CauseTemplateError})
			h.record(event.Discarded{Operator: "ann", Reason: "the order was a test"})
		},
		"readmitted": func(h *history) {
			h.fold(func(tx *store.Tx, p store.Place) error {
				return tx.Operation(p, event.Operation{
					ID: "op", Action: event.OperationRequeued, Operator: "ann", Reason: "the shop cut it off", At: p.Time,
					Letter: event.OperationLetter{Key: event.NewKey("raw"), Sequence: 7, Cause: event.CauseUndecodable},
					Event:  h.ref.Key, Sequence: 17, Duplicate: true, Changed: []string{"id", "body"},
				})
			})
			h.claim(0, 0)
		},
		"restored": func(h *history) {
			h.claim(0, 0)
			h.record(event.Restored{From: event.FromLedger, State: event.State{Phase: event.PhaseSettled, Revision: 4, Planned: true, Nothing: event.NoRecipient}})
		},
		"open": func(h *history) {
			h.ref.OccurredAt, h.ref.IDSource = time.Time{}, event.IDContent
			h.record(event.Claimed{Owner: here, LeaseMS: 60_000, Limit: 1})
		},
		"newer_version": func(h *history) {
			h.record(event.Claimed{Owner: here, LeaseMS: 60_000, Limit: 64},
				event.UnknownFact{Kind: "digested", Raw: json.RawMessage(`{"fact":"digested","into":"daily"}`)})
			h.fold(func(tx *store.Tx, p store.Place) error {
				return tx.Unknown(p, h.ref.Key, "digest", store.Unknown{Subject: "outcomes.shop.x", Problem: `kind "digest" is not known`})
			})
		},
	} {
		t.Run("a history is told in words: "+name, func(t *testing.T) {
			h := newHistory(t)
			tell(h)
			var out strings.Builder
			require.NoError(t, h.story().Format(&out))
			golden(t, name, out.String())
		})
	}
	t.Run("what the horizon forgot is said", func(t *testing.T) {
		h := newHistory(t)
		h.claim(0, 0)
		h.record(planned(hook))
		h.record(h.tried(hook, 0, 1, event.TryDelivered, "http_200"), event.Settled{})
		row, err := h.store.Event(h.ref.Key)
		require.NoError(t, err)
		entries, err := h.store.History(h.ref.Key, 2, 0)
		require.NoError(t, err)
		var out strings.Builder
		require.NoError(t, why.Tell(row, entries).Format(&out))
		golden(t, "forgotten", out.String())
	})
	t.Run("every fact has words of its own", func(t *testing.T) {
		for _, f := range event.FactKinds() {
			story := why.Tell(store.Row{}, []store.Entry{{Sequence: 1, Facts: event.Facts{f}}})
			require.Equal(t, string(f.FactKind()), story.Lines[1].What)
			require.NotContains(t, story.Lines[1].Text, "does not know")
		}
	})
	t.Run("every cause has words of its own", func(t *testing.T) {
		for _, c := range event.Causes() {
			require.NotEqual(t, string(c), why.CauseInWords(c))
			require.NotContains(t, why.CauseInWords(c), "new id", "that would send again what was delivered")
		}
	})
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}
