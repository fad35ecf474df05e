package bridge_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/bridge"
	"tidings/streams/event"
	"tidings/streams/streamstest"
)

// came is a dead letter of a delivery by AMQP.
func came(body string, properties map[string]string, headers string) event.Letter {
	return event.Letter{
		Kind: event.LetterDelivery, Key: event.NewKey(body), Tenant: "acme", Cause: event.CauseUndecodable, Stage: event.StageBridge,
		Delivery: &event.Delivery{
			Broker: "rabbit:5672 vhost \"/\"", Queue: "orders", RoutingKey: "orders.new", Properties: properties, Headers: json.RawMessage(headers),
		},
		Data: []byte(body),
	}
}

func TestAgain(t *testing.T) {
	set := func(pairs ...string) bridge.Changes {
		c := bridge.Changes{Set: map[string]string{}}
		for i := 0; i < len(pairs); i += 2 {
			c.Set[pairs[i]] = pairs[i+1]
		}
		return c
	}
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	jsonType := map[string]string{"content_type": "application/json", "type": "order.placed", "message_id": "o-1"}
	for name, c := range map[string]struct {
		letter  event.Letter
		mapping bridge.Mapping
		changes bridge.Changes
		want    event.Envelope
		err     string
	}{
		"a delivery that is still no event": {
			letter: came(`{`, jsonType, ""), err: "the body is not JSON",
		},
		"a delivery by a mapping that was mended": {
			letter:  came(`{}`, map[string]string{"content_type": "application/json", "message_id": "o-1"}, `{"kind":"order.placed"}`),
			mapping: bridge.Mapping{Type: bridge.Attribute{Headers: []string{"kind"}}},
			want: event.Envelope{
				ID: "o-1", IDSource: event.IDMessageID, Type: "order.placed", ContentType: "application/json", Data: []byte(`{}`),
			},
		},
		"a delivery with another body": {
			letter: came(`{`, jsonType, ""), changes: bridge.Changes{Body: []byte(`{"n":1}`)},
			want: event.Envelope{
				ID: "o-1", IDSource: event.IDMessageID, Type: "order.placed", ContentType: "application/json", Data: []byte(`{"n":1}`),
			},
		},
		"a delivery with attributes that an operator set": {
			letter:  came(`x`, map[string]string{"message_id": "o-1", "timestamp": "99999999999999"}, ""),
			changes: set("id", "o-2", "type", "order.paid", "source", "/desk", "tenant", "globex", "subject", "s", "correlation_id", "c", "occurred_at", "2026-05-01T12:00:00Z", "content_type", "text/plain"),
			want: event.Envelope{
				Tenant: "globex", Source: "/desk", ID: "o-2", IDSource: event.IDOperator, Type: "order.paid", Subject: "s",
				CorrelationID: "c", OccurredAt: at, ContentType: "text/plain", Data: []byte("x"),
			},
		},
		"a binary CloudEvent without its id": {
			letter: came(`x`, map[string]string{"content_type": "text/plain"},
				`{"cloudEvents:specversion":"1.0","cloudEvents:type":"order.placed","cloudEvents:source":"/shop"}`),
			changes: set("id", "o-2"),
			want: event.Envelope{
				Source: "/shop", ID: "o-2", IDSource: event.IDOperator, Type: "order.placed", ContentType: "text/plain", Data: []byte("x"),
			},
		},
		"a structured CloudEvent whose body was mended": {
			letter:  came(`{"specversion":"1.0","id":"o-1","type":"order.placed","data":`, map[string]string{"content_type": "application/cloudevents+json"}, ""),
			changes: bridge.Changes{Body: []byte(`{"specversion":"1.0","id":"o-1","type":"order.placed","data":{"n":1}}`)},
			want: event.Envelope{
				ID: "o-1", IDSource: event.IDCloudEvents, Type: "order.placed", ContentType: "application/json", Data: []byte(`{"n":1}`),
			},
		},
		"a request": {
			letter: event.Letter{
				Stage: event.StageHTTP, Data: []byte("x"), Delivery: &event.Delivery{Broker: "http", Properties: map[string]string{
					"ce-specversion": "1.0", "ce-id": "%E2%82%AC%201", "ce-source": `"/shop"`, "content_type": "text/plain",
				}},
			},
			mapping: bridge.Mapping{Tenant: bridge.Attribute{Constant: "of a queue"}},
			changes: set("type", "order.placed"),
			want: event.Envelope{
				Source: "/shop", ID: "€ 1", IDSource: event.IDCloudEvents, Type: "order.placed", ContentType: "text/plain", Data: []byte("x"),
			},
		},
		"a request that is no CloudEvent": {
			letter: event.Letter{
				Stage: event.StageHTTP, Data: []byte("x"), Delivery: &event.Delivery{Broker: "http", Properties: map[string]string{
					"event-id": "o-1", "tenant-id": "acme", "content_type": "text/plain",
				}},
			},
			changes: set("type", "order.placed"),
			want: event.Envelope{
				Tenant: "acme", ID: "o-1", IDSource: event.IDHeader, Type: "order.placed", ContentType: "text/plain", Data: []byte("x"),
			},
		},
		"an event whose identity was taken": {
			letter: event.Letter{
				Cause: event.CauseIDConflict, Stage: event.StageDispatcher, Data: []byte("x"),
				Envelope: &event.Envelope{Tenant: "acme", Source: "/shop", ID: "o-1", IDSource: event.IDMessageID, Type: "order.placed"},
			},
			changes: set("id", "o-1b"),
			want:    event.Envelope{Tenant: "acme", Source: "/shop", ID: "o-1b", IDSource: event.IDOperator, Type: "order.placed", Data: []byte("x")},
		},
		"an attribute that there is not": {
			letter: came(`{}`, jsonType, ""), changes: set("ID", "x"), err: `there is no attribute "ID" to change: there are id, type, `,
		},
		"an attribute that is changed to nothing": {
			letter: came(`{}`, jsonType, ""), changes: set("id", ""), err: "the attribute id is changed to nothing",
		},
		"a time that is none": {
			letter: came(`{}`, jsonType, ""), changes: set("occurred_at", "noon"), err: "time of the event: it is not a time in RFC 3339",
		},
		"nothing at all": {letter: event.Letter{}, err: "holds neither"},
	} {
		t.Run(name, func(t *testing.T) {
			a := bridge.Again(c.letter, c.mapping, c.changes)
			if c.err != "" {
				require.ErrorContains(t, a.Err, c.err)
				return
			}
			require.NoError(t, a.Err)
			require.Equal(t, c.want, a.Envelope)
		})
	}
}

func TestFrom(t *testing.T) {
	c := bridge.Config{URL: "amqp://guest:guest@rabbit:5672/", Queue: "orders"}
	require.True(t, c.From(event.Delivery{Broker: `rabbit:5672 vhost "/"`, Queue: "orders"}))
	require.False(t, c.From(event.Delivery{Broker: `rabbit:5672 vhost "/"`, Queue: "returns"}))
	require.False(t, c.From(event.Delivery{Broker: `other:5672 vhost "/"`, Queue: "orders"}))
}

func TestOffer(t *testing.T) {
	log := streamstest.New(t)
	door := bridge.NewDoor(bridge.DoorOptions{Events: log.Events, Letters: log.DeadLetters, Audit: log.Outcomes})
	offer := func(c bridge.Changes) (bridge.Receipt, error) {
		return door.Offer(t.Context(), bridge.Again(came(`{`, map[string]string{"content_type": "application/json", "message_id": "o-1"}, ""), bridge.Mapping{}, c))
	}
	t.Run("what is no event is refused, and kept nowhere", func(t *testing.T) {
		_, err := offer(bridge.Changes{})
		var refused *bridge.RefusedError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, event.CauseUndecodable, refused.Cause)
		info, err := log.DeadLetters.Info(t.Context())
		require.NoError(t, err)
		require.Zero(t, info.Messages)
	})
	t.Run("an event comes in as ever, and what takes its identity does not", func(t *testing.T) {
		receipt, err := offer(bridge.Changes{Body: []byte(`{"n":1}`)})
		require.NoError(t, err)
		stored, err := log.Events.Get(t.Context(), receipt.Sequence)
		require.NoError(t, err)
		require.Equal(t, "orders.new", stored.Envelope.Type)
		again, err := offer(bridge.Changes{Body: []byte(`{"n":1}`)})
		require.NoError(t, err)
		require.True(t, again.Duplicate)
		_, err = offer(bridge.Changes{Body: []byte(`{"n":2}`)})
		require.ErrorContains(t, err, "id_conflict: ")
		info, err := log.DeadLetters.Info(t.Context())
		require.NoError(t, err)
		require.Zero(t, info.Messages)
	})
	t.Run("what it would be can be read before", func(t *testing.T) {
		e, key, err := door.Read(bridge.Arrival{Envelope: event.Envelope{ID: "o-1", Type: "order.placed"}})
		require.NoError(t, err)
		require.Equal(t, event.DefaultTenant, e.Tenant)
		require.Equal(t, event.Identity{}.Key(e), key)
		_, key, err = door.Read(bridge.Arrival{Envelope: event.Envelope{Type: "order.placed"}})
		require.NoError(t, err)
		require.Empty(t, key, "its copy in EVENTS gives it one")
		_, _, err = door.Read(bridge.Arrival{Envelope: event.Envelope{ID: "o-1", OccurredAt: time.Now().Add(2 * time.Hour)}})
		require.ErrorContains(t, err, "future: ")
	})
}
