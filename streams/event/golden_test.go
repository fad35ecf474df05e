package event_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"tidings/streams/event"
)

// A golden file shows one thing in JSON as other programs read it. They are a
// promise: what is in one is never renamed or removed, only added to.
type golden struct {
	schema string // name of the schema in docs/ that it follows; "" for a part
	value  any
}

func goldens() map[string]golden {
	out := map[string]golden{
		"duplicate":       {"duplicate", sampleDuplicate()},
		"duplicate-many":  {"duplicate", sampleDuplicates()},
		"operation":       {"operation", sampleOperation()},
		"skip":            {"skip", sampleSkip()},
		"replay-created":  {"replay", sampleReplay(event.ReplayCreated)},
		"replay-listed":   {"replay", sampleReplay(event.ReplayListed)},
		"replay-ended":    {"replay", sampleReplay(event.ReplayEnded)},
		"letter-event":    {"letter", sampleEventLetter()},
		"letter-delivery": {"letter", sampleDeliveryLetter()},
		"letter-oversize": {"letter", sampleOversizeLetter()},
		"envelope":        {"", *sampleEnvelope()},
		"planned-nothing": {"", event.Facts{sampleNothing()}},
	}
	for _, f := range sampleFacts() {
		out["fact-"+string(f.FactKind())] = golden{"", event.Facts{f}}
	}
	for _, r := range sampleRecords() {
		if _, shown := out["record-"+string(r.Kind)]; !shown {
			out["record-"+string(r.Kind)] = golden{"record", r}
		}
		out["state-"+string(r.State.Phase)] = golden{"", r.State}
	}
	return out
}

// sampleFacts is the life of an event in which everything happens, in the
// order of FactKinds.
func sampleFacts() event.Facts {
	limited := event.Tried{
		Message: mailID, Round: 1, Try: 2, Started: at(31), Ended: at(32), Result: event.TryRateLimited,
		Code: "smtp_451_4.7.1", Provider: "smtp.example.org:587", Via: "backup", RetryAfter: at(332),
	}
	return event.Facts{
		event.Claimed{Owner: ownerA, Generation: 1, Round: 1, LeaseMS: 60_000, Limit: 64, Config: "3f9c1b7e", Messages: []string{mailID, hookID}},
		event.Crashed{Claim: "Qm9yZWQgb2YgcmVhZGluZw", Owner: ownerB, Reason: "owner_gone"},
		samplePlan(),
		limited,
		event.Withheld{Message: hookID, Reason: "unsubscribed"},
		event.GaveUp{Message: mailID, Reason: "rounds_exhausted"},
		event.Expired{AgeMS: 700_000_000, WindowMS: 604_800_000},
		event.Waiting{Round: 2, Due: at(332), Reason: event.WaitBusy, Channel: "email"},
		event.Settled{},
		event.Dead{Cause: event.CauseTemplateError, Detail: "templates/order.de.html:12: no field total"},
		event.Requeued{
			Generation: 1, Operator: "ann", Reason: "the mail server is back", Replay: "UmVwbGF5IG9mIG9yZGVycw",
			Messages: []string{mailID}, Edit: &event.Edit{Digest: event.Digest([]byte(`{"total":98}`)), Size: 12},
		},
		event.Discarded{Operator: "ann", Reason: "a test of the shop"},
		event.Restored{From: event.FromLedger, State: event.State{Phase: event.PhaseSettled, Revision: 2, Outcome: event.NoTemplate}},
	}
}

var (
	mail   = event.NewRecipient([]byte("test secret"), "ann@example.org")
	hook   = event.NewRecipient([]byte("test secret"), "https://hooks.example.org/orders/s3cret")
	mailID = event.NewMessageID(orderKey, "order-mail", "email", "ann@example.org")
	hookID = event.NewMessageID(orderKey, "order-hook", "webhook", "https://hooks.example.org/orders/s3cret")
)

// sampleNothing is the plan of an event that becomes no message.
func sampleNothing() event.Planned {
	return event.Planned{
		Config: "3f9c1b7e", Nothing: event.NoRecipient,
		Routes: []event.RouteDecision{
			{
				Route: "order-mail", Verdict: "no_recipient", Detail: "recipients (data.customer.email) gave nothing",
				Needed: "recipients must give an e-mail address: data.customer.email", Missing: []string{"data.customer"},
			},
			{
				Route: "order-text", Verdict: "no_template", Detail: "templates/order-text has no template",
				Needed: "templates/order-text must have files", Locales: []string{"de", "en"},
			},
		},
	}
}

func samplePlan() event.Planned {
	return event.Planned{
		Config: "3f9c1b7e",
		Routes: []event.RouteDecision{
			{Route: "order-mail", Verdict: "planned", Count: 1},
			{Route: "order-hook", Verdict: "planned", Count: 1},
			{Route: "order-text", Verdict: "no_recipient", Detail: "data.customer.phone"},
		},
		Messages: []event.PlannedMessage{
			{
				ID: mailID, Route: "order-mail", Channel: "email", Template: "order", Version: "Yx0f2LkQv1s5cN8bT3mWJA",
				Locale: "de", Recipient: mail, OnUnknown: event.Hold,
			},
			{ID: hookID, Route: "order-hook", Channel: "webhook", Recipient: hook, OnUnknown: event.Resend},
		},
	}
}

// sampleRecords is one history with records of every kind: a round that fails,
// a takeover, a dead letter, a requeue, the end, and a result that comes after it.
func sampleRecords() []event.Record {
	try := func(id string, round, try, sec int, result event.TryResult, code string) event.Tried {
		return event.Tried{Message: id, Round: round, Try: try, Started: at(sec), Ended: at(sec + 1), Result: result, Code: code}
	}
	claim := func(o event.Owner, generation, round int, messages ...string) event.Claimed {
		return event.Claimed{
			Owner: o, Generation: generation, Round: round, LeaseMS: 60_000, Limit: 64, Config: "3f9c1b7e", Messages: messages,
		}
	}
	var s event.State
	var out []event.Record
	add := func(sec int, facts ...event.Fact) (id string) {
		r := event.NewRecord(orderRef(), s, at(sec), facts...)
		r.ID = string(event.NewKey("sample", fmt.Sprint(len(out)))) // instead of random bits
		r.State = s.Apply(r.ID, at(sec), facts...)
		s, out = r.State, append(out, r)
		return r.ID
	}
	add(1, claim(ownerA, 0, 0))
	add(3, samplePlan(),
		try(mailID, 0, 1, 1, event.TryTransient, "smtp_451_4.3.0"), try(hookID, 0, 1, 1, event.TryUnknown, "timeout"),
		event.Waiting{Round: 1, Due: at(33), Reason: event.WaitRetry})
	lost := add(33, claim(ownerA, 0, 1, mailID, hookID))
	add(95, event.Crashed{Claim: lost, Owner: ownerA, Reason: "lease_expired"}, claim(ownerB, 0, 1, hookID))
	add(96, try(hookID, 1, 1, 95, event.TryPermanent, "http_410"),
		event.GaveUp{Message: hookID, Reason: "permanent"}, event.GaveUp{Message: mailID, Reason: "held"},
		event.Dead{Cause: event.CauseUncertain})
	add(1000, event.Requeued{Generation: 1, Operator: "ann", Reason: "the mail did not arrive"})
	add(1001, claim(ownerB, 1, 0, mailID, hookID))
	add(1003, try(mailID, 0, 1, 1001, event.TryDelivered, "smtp_250"),
		event.Withheld{Message: hookID, Reason: "unsubscribed"}, event.Settled{})
	add(1004, try(hookID, 1, 1, 34, event.TryDelivered, "http_200"))
	return out
}

func sampleDuplicate() event.Duplicate {
	return event.NewDuplicate(orderRef(), event.StageBridge, "EVENTS", 4711, "b9K3xQe7Tn1VpWm5Zc8RyA", "amqp queue orders", at(5))
}

// sampleDuplicates is what many redeliveries within a minute share.
func sampleDuplicates() event.Duplicate {
	d := sampleDuplicate()
	d.Since, d.At, d.Count = at(5), at(42), 3000
	d.Event.AMQPMessageID = "m-77"
	return d
}

func sampleReplay(step event.ReplayStep) event.Replay {
	r := event.Replay{
		ID: "b9K3xQe7Tn1VpWm5Zc8RyA", Schema: event.Schema, Kind: event.KindReplay, At: at(2000), Replay: "UmVwbGF5IG9mIG9yZGVycw", Step: step,
	}
	switch step {
	case event.ReplayCreated:
		r.Order = &event.ReplayOrder{
			Operator: "ann", Reason: "the mail server is back", Letters: 1, Rate: 10, Canary: 1,
			Filter: event.ReplayFilter{Tenant: "acme", Cause: event.CauseRoundsExhausted, Type: "order.confirmed", Since: at(0), Until: at(1999), Text: "451"},
		}
	case event.ReplayListed:
		r.Letters = []event.ReplayLetter{{Tenant: "acme", Key: orderKey, Generation: 0, Sequence: 17}}
	case event.ReplayProgressed, event.ReplayStopped, event.ReplayEnded:
		r.Progress = event.ReplayProgress{Done: 2, Requeued: 1, Skipped: 1, Delivered: 1}
		r.Skipped = []event.Key{orderKey}
	}
	return r
}

func sampleEnvelope() *event.Envelope {
	return &event.Envelope{
		Tenant: "acme", Source: "/shop", ID: "order-1042", IDSource: event.IDCloudEvents, Type: "order.confirmed",
		Subject: "orders/1042", CorrelationID: "checkout-77", OccurredAt: at(-2),
		ContentType: "application/json", DataSchema: "https://example.org/order.json",
		Traceparent: orderRef().Traceparent, Tracestate: "vendor=1", Extensions: map[string]string{"region": "eu"},
	}
}

func sampleOperation() event.Operation {
	letter := sampleDeliveryLetter()
	return event.Operation{
		ID: "Jx7QmWb0SgGqLr2kX4h9Zg", Schema: event.Schema, Kind: event.KindOperation, At: at(2000), Tenant: "acme",
		Action: event.OperationRequeued, Operator: "ann", Reason: "the shop left out the type", Replay: "UmVwbGF5IG9mIG9yZGVycw",
		Letter: event.OperationLetter{Key: letter.Key, Sequence: 12, Cause: letter.Cause},
		Event:  orderKey, Sequence: 4711, Duplicate: true, Changed: []string{"body", "type"},
	}
}

func sampleSkip() event.Skip {
	return event.Skip{
		ID: "Qd0lW7cVbY2mZs5nTt8uJg", Schema: event.Schema, Kind: event.KindSkip, At: at(3000), Tenant: "acme",
		Operator: "ann", Reason: "a script wrote there by mistake", Sequence: 9, Event: orderKey,
		Problem: "decode record: unexpected end of JSON input",
	}
}

func sampleEventLetter() event.Letter {
	records := sampleRecords()
	before := records[3].State
	ref := orderRef()
	return event.Letter{
		Schema: event.Schema, Kind: event.LetterEvent, Key: orderKey, Tenant: "acme", Cause: event.CauseUncertain,
		Stage: event.StageDispatcher, Detail: "a message may or may not have been sent, and channel email holds it",
		At: at(96), Event: &ref, Envelope: sampleEnvelope(), State: &before, Data: []byte(`{"total":99}`),
		Edit:   &event.LetterEdit{Operator: "ann", Reason: "the total was wrong", At: at(990), Data: []byte(`{"total":98}`)},
		Drafts: []event.LetterEdit{{Operator: "bob", At: at(985), Data: []byte(`{"total":97}`)}},
	}
}

func sampleDeliveryLetter() event.Letter {
	body := []byte("\x00 not an event")
	return event.Letter{
		Schema: event.Schema, Kind: event.LetterDelivery,
		Key:    event.DeliveryKey("acme", "shop", "orders.new", "text/plain", body),
		Tenant: "acme", Cause: event.CauseUndecodable, Stage: event.StageBridge,
		Detail: "content type text/plain: neither CloudEvents nor JSON", At: at(6), Data: body,
		Delivery: &event.Delivery{
			Broker: "rabbit.example.org/shop", Queue: "orders", Exchange: "shop", RoutingKey: "orders.new", Redelivered: true,
			Properties: map[string]string{"content-type": "text/plain"},
			Headers:    json.RawMessage(`{"x-retries":{"type":"int32","value":3}}`),
		},
	}
}

func sampleOversizeLetter() event.Letter {
	l := sampleDeliveryLetter()
	l.Cause, l.Detail, l.Data = event.CauseOversize, "payload of 16777216 bytes, the limit is 8388608", nil
	l.PayloadObject = &event.Object{
		Bucket: "OVERSIZE", Name: string(l.Key) + ".0.5YTJ3YETrCQ_nc0OOEjl83", Size: 16 << 20,
		Digest: "SHA-256=5YTJ3YETrCQ_nc0OOEjl83hUZ3cTnYQ7qZ0m4t0vH6E=",
	}
	l.LetterObject = &event.Object{
		Bucket: "OVERSIZE", Name: string(l.Key) + ".0.kT3n0bYc1lq7d9Zr2xWvQe", Size: 13 << 20,
		Digest: "SHA-256=kT3n0bYc1lq7d9Zr2xWvQeUZ3cTnYQ7qZ0m4t0vH6E8=",
	}
	return l
}

func goldenFile(name string) string { return filepath.Join("testdata", "golden", name+".json") }

func TestGoldenFiles(t *testing.T) {
	for name, g := range goldens() {
		t.Run(name, func(t *testing.T) {
			text := encode(t, g.value) + "\n"
			compareWithFile(t, goldenFile(name), text)

			back := reflect.New(reflect.TypeOf(g.value))
			require.NoError(t, json.Unmarshal(compact(t, text), back.Interface()))
			require.Equal(t, g.value, back.Elem().Interface(), "it reads back as another value")
		})
	}
}

func compact(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, json.Compact(&b, []byte(text)))
	return b.Bytes()
}

// compareWithFile fails where the file does not hold the text, and writes it
// with -update.
func compareWithFile(t *testing.T, file, text string) {
	t.Helper()
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err, "write it with: go test ./streams/event -update")
	require.Equal(t, string(want), text, "%s differs: if that is meant, go test ./streams/event -update", file)
}

func TestEverythingHasAGoldenFile(t *testing.T) {
	all := goldens()
	for i, f := range event.FactKinds() {
		require.Contains(t, all, "fact-"+string(f.FactKind()))
		require.Equal(t, f.FactKind(), sampleFacts()[i].FactKind(), "samples are in the order of FactKinds")
		require.IsType(t, f, sampleFacts()[i])
		requireNoZeroField(t, sampleFacts()[i], "Nothing")
	}
	for _, kind := range constants(t)["Kind"] {
		name := "record-" + kind.value
		switch event.Kind(kind.value) {
		case event.KindDuplicate, event.KindOperation, event.KindSkip: // of the audit
			name = kind.value
		case event.KindReplay:
			name = "replay-created"
		}
		require.Contains(t, all, name)
	}
	for _, phase := range constants(t)["Phase"] {
		require.Contains(t, all, "state-"+phase.value)
	}
	for _, kind := range constants(t)["LetterKind"] {
		require.Contains(t, all, "letter-"+kind.value)
	}

	t.Run("and every golden file has something", func(t *testing.T) {
		files, err := filepath.Glob(goldenFile("*"))
		require.NoError(t, err)
		require.Len(t, files, len(all), "delete the file of what is gone, if it was never released")
	})
}

// requireNoZeroField sees to it that a new field gets into the golden file.
// except names the fields that cannot be set beside others.
func requireNoZeroField(t *testing.T, f event.Fact, except ...string) {
	t.Helper()
	v := reflect.ValueOf(f)
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		if v.Field(i).IsZero() && !slices.Contains(except, name) {
			t.Errorf("the sample of fact %s does not show %s", f.FactKind(), name)
		}
	}
}
