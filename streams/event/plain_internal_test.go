package event

import (
	"encoding/json"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// decodeAny reads a record with encoding/json alone.
func decodeAny(data []byte) (Record, error) {
	var c codedRecord[encodedFact]
	err := json.Unmarshal(data, &c)
	return Record{c.ID, c.Schema, c.Kind, c.At, c.Event, factsOf(c.Facts), c.State}, err
}

// FuzzPlain ensures that what is read as plain is what encoding/json reads.
func FuzzPlain(f *testing.F) {
	for _, data := range plainRecords(f) {
		f.Add(data)
	}
	f.Add([]byte(`{"id":"a","id":"b"}`))
	f.Add([]byte(`{"ID":"a","schema":01,"at":"2026-03-01T12:00:00+02:00"}`))
	f.Add([]byte(`{"schema":-0,"event":{"sequence":18446744073709551615},"state":{"messages":[],"planned":true,"claim":{}}}`))
	f.Add([]byte(`{"facts":[{"fact":"settled"},{"fact":"crashed",}],"state":{"revision":1.5}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if !utf8.Valid(data) {
			return
		}
		r, parts, ok := decodePlain(string(data))
		if !ok {
			return
		}
		want, err := decodeAny(data)
		require.NoError(t, err, "%s", data)
		require.Equal(t, want, r)
		if parts.Facts != "" {
			var facts Facts
			require.NoError(t, json.Unmarshal([]byte(parts.Facts), &facts))
			require.Equal(t, r.Facts, facts)
		}
		if parts.Messages != "" {
			var messages []Message
			require.NoError(t, json.Unmarshal([]byte(parts.Messages), &messages))
			require.Equal(t, r.State.Messages, messages)
		}
	})
}

// plainRecords returns a record with each kind of fact.
func plainRecords(t testing.TB) (records [][]byte) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 1500, time.UTC)
	ref := Ref{
		Key: NewKey("k"), Tenant: "acme", Source: "shop", ID: "bestellung-1", IDSource: IDMessageID, Type: "order.paid",
		CorrelationID: "ä", OccurredAt: at, ReceivedAt: at, Sequence: 7, Digest: "d", Traceparent: "t", AMQPMessageID: "a",
	}
	to := Recipient{Hash: "h", Mask: "a…@example.com"}
	planned := Planned{
		Config: "c", Routes: []RouteDecision{{Route: "r", Verdict: "planned", Detail: "d", Count: 1, Needed: "n", Missing: []string{"data.a"}, Locales: []string{"de"}}},
		Messages: []PlannedMessage{{ID: "m", Route: "r", Channel: "email", Template: "t", Version: "v", Locale: "de", Recipient: to, OnUnknown: Hold, Category: "newsletter", Degraded: "templates/t/text.txt:1"}},
	}
	owner := Owner{Instance: "i", Boot: "b"}
	claimed := Claimed{Owner: owner, LeaseMS: 60000, Limit: 64, Config: "c", Messages: []string{"m", "n"}}
	var state State
	for _, facts := range []Facts{
		{claimed},
		{planned, Tried{Message: "m", Try: 1, Started: at, Ended: at, Result: TryRateLimited, Code: "c", Provider: "p", RetryAfter: at}, Waiting{Round: 1, Due: at, Reason: WaitBusy, Channel: "email"}},
		{claimed},
		{Crashed{Claim: "c", Owner: owner, Reason: "r"}, Withheld{Message: "m", Reason: "r"}, GaveUp{Message: "m", Reason: "r"}, Dead{Cause: CausePanic, Detail: "d"}},
		{Discarded{Operator: "o", Reason: "r"}},
		{Requeued{Generation: 1, Operator: "o", Reason: "r", Replay: "p", Messages: []string{"m"}, Edit: &Edit{Digest: "d", Size: 1}}},
		{Expired{AgeMS: 1, WindowMS: 2}, Settled{}},
		{Restored{From: FromLedger, State: State{Phase: PhaseOpen, Planned: true, Messages: []Message{{ID: "x", Recipient: to}}, Lost: &Lost{Limit: 1}, Due: at, Waits: WaitRetry}}},
	} {
		r := NewRecord(ref, state, at, facts...)
		state = r.State
		data, err := EncodeRecord(r)
		require.NoError(t, err)
		records = append(records, data)
	}
	return records
}

func TestWhatThisPackageWritesIsPlain(t *testing.T) {
	for _, data := range plainRecords(t) {
		r, parts, ok := decodePlain(string(data))
		require.True(t, ok, "%s", data)
		want, err := decodeAny(data)
		require.NoError(t, err)
		require.Equal(t, want, r)
		facts, err := encodeJSON(r.Facts)
		require.NoError(t, err)
		require.Equal(t, string(facts), parts.Facts)
		require.Equal(t, len(r.State.Messages) == 0, parts.Messages == "")
	}
}
