package event_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/streams/event"
)

// settledRecord is the last record of an event of one message: the most frequent one.
func settledRecord() event.Record {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678_901_234, time.UTC)
	key := event.NewKey("acme", "orders", "1")
	claim := event.NewRecord(event.Ref{Key: key, Tenant: "acme", Source: "orders", ID: "1", Type: "order.placed", ReceivedAt: at, Sequence: 7},
		event.State{}, at, event.Claimed{Owner: event.Owner{Instance: "a", Boot: "b"}, LeaseMS: 60_000, Limit: 64, Config: "c"})
	m := event.PlannedMessage{ID: "m", Route: "r", Channel: "hook", Recipient: event.Recipient{Hash: "h", Mask: "m"}, OnUnknown: event.Resend}
	return event.NewRecord(claim.Event, claim.State, at,
		event.Planned{Config: "c", Routes: []event.RouteDecision{{Route: "r", Verdict: "planned", Count: 1}}, Messages: []event.PlannedMessage{m}},
		event.Tried{Message: "m", Try: 1, Started: at, Ended: at, Result: event.TryDelivered, Code: "http_200", Provider: "127.0.0.1"},
		event.Settled{})
}

func BenchmarkEncodeRecord(b *testing.B) {
	r := settledRecord()
	b.ReportAllocs()
	for b.Loop() {
		_, err := event.EncodeRecord(r)
		require.NoError(b, err)
	}
}

func BenchmarkDecodeRecord(b *testing.B) {
	data, err := event.EncodeRecord(settledRecord())
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		_, err := event.DecodeRecord(data)
		require.NoError(b, err)
	}
}
