package app_test

import (
	"fmt"
	"io"
	"net/http"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"tidings/bridge"
	"tidings/bridge/bridgetest"
	"tidings/cmd/internal/api"
	"tidings/store"
)

// put publishes one message to a queue, waiting for the queue.
func (w *world) put(url, queue string, msg amqp.Publishing) {
	w.Helper()
	p, err := bridge.NewPublisher(url)
	require.NoError(w, err)
	defer p.Close()
	w.eventually("the queue is there", func() bool { return p.Publish(w.Context(), "", queue, msg) == nil })
}

// declareClassic makes a queue that outlasts the killing of a node right after:
// of a young quorum queue RabbitMQ 3.10 may lose the membership then.
func declareClassic(t *testing.T, url, queue string) {
	t.Helper()
	conn, err := amqp.Dial(url)
	require.NoError(t, err)
	defer conn.Close()
	ch, err := conn.Channel()
	require.NoError(t, err)
	_, err = ch.QueueDeclare(queue, true, false, false, false, nil)
	require.NoError(t, err)
}

// identities returns tenant, source and id of every row, and how often it came again.
func identities(rows []store.Row) map[string]int {
	found := map[string]int{}
	for _, r := range rows {
		found[fmt.Sprintf("%s %s %s %s", r.Tenant, r.Source, r.EventID, r.Type)] = r.Duplicates
	}
	return found
}

func TestSeveralSources(t *testing.T) {
	w := newWorld(t, nil)
	shared := bridgetest.Private(t)
	shop, till := shared.Vhost(t), shared.Vhost(t)
	other, err := bridgetest.Start(t.Context(), bridgetest.Options{Private: true})
	require.NoError(t, err)
	t.Cleanup(other.Stop)
	declareClassic(t, other.URL(), "events")
	w.add(fmt.Sprintf(`
amqp: {url: %q, queue: events, topology: declare}
sources:
  - {name: till, url: %q, queue: events, topology: declare, mapping: {tenant: {constant: acme}, source: {constant: till}, type: {constant: order.placed}}}
  - {name: far, url: %q, queue: events, mapping: {tenant: {headers: [customer]}, source: {constant: till}, id: {headers: [number]}}}
`, shop.URL, till.URL, other.URL()))
	client, _ := w.start()

	body := w.order("/ok")
	w.put(shop.URL, "events", amqp.Publishing{MessageId: "1", Type: "order.placed", AppId: "shop", Body: body})
	w.put(till.URL, "events", amqp.Publishing{MessageId: "1", Body: body})
	w.put(other.URL(), "events", amqp.Publishing{Type: "order.placed", Headers: amqp.Table{"customer": "globex", "number": "1"}, Body: body})

	t.Run("each has its mapping, and the same id is another event for another tenant", func(t *testing.T) {
		require.Equal(t, map[string]int{
			"default shop 1 order.placed": 0, "acme till 1 order.placed": 0, "globex till 1 order.placed": 0,
		}, identities(w.rows(client, 3)))
		require.Equal(t, 3, w.hooks.Count())
	})
	t.Run("one event that comes by two is one event", func(t *testing.T) {
		w.put(other.URL(), "events", amqp.Publishing{Type: "order.placed", Headers: amqp.Table{"customer": "acme", "number": "1"}, Body: body})
		w.eventually("it is counted", func() bool { return identities(w.rows(client, 3))["acme till 1 order.placed"] == 1 })
		require.Equal(t, 3, w.hooks.Count())
		rows, err := client.Events(t.Context(), api.EventQuery{Query: store.Query{Tenant: "acme"}})
		require.NoError(t, err)
		history, err := client.History(t.Context(), rows.Items[0].Key)
		require.NoError(t, err)
		again := history[len(history)-1].Redelivery
		require.NotNil(t, again)
		require.Equal(t, "amqp queue events of source far", again.Delivery)
	})
	t.Run("one whose broker is killed is not ready, and the others go on", func(t *testing.T) {
		require.NoError(t, other.Flush(t.Context()))
		require.NoError(t, other.Kill())
		w.eventually("readiness says which", func() bool { return !w.part(client, "bridge far").Ready })
		w.put(till.URL, "events", amqp.Publishing{MessageId: "2", Body: body})
		w.put(shop.URL, "events", amqp.Publishing{MessageId: "2", Type: "order.placed", AppId: "shop", Body: body})
		w.rows(client, 5)
		require.True(t, w.part(client, "bridge amqp").Ready)
		require.True(t, w.part(client, "bridge till").Ready)
		require.NotEmpty(t, w.part(client, "bridge far").Reason)
	})
	t.Run("it goes on when its broker is back", func(t *testing.T) {
		require.NoError(t, other.Restart(t.Context()))
		w.put(other.URL(), "events", amqp.Publishing{Type: "order.placed", Headers: amqp.Table{"customer": "globex", "number": "2"}, Body: body})
		w.rows(client, 6)
		w.eventually("it is ready", func() bool { return w.part(client, "bridge far").Ready })
	})
	t.Run("status says of each by name what it took", func(t *testing.T) {
		took := map[string][2]uint64{}
		w.eventually("all is acknowledged", func() bool {
			s, err := client.Status(t.Context())
			if err != nil {
				return false
			}
			inHand := 0
			for _, s := range s.Sources {
				took[s.Name] = [2]uint64{s.Acked, s.Duplicates}
				inHand += s.InHand
			}
			return inHand == 0
		})
		require.Equal(t, map[string][2]uint64{"amqp": {2, 0}, "till": {2, 0}, "far": {3, 1}}, took)
	})
	t.Run("and so does a scrape", func(t *testing.T) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, client.BaseURL+"/metrics", nil)
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+client.Token)
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		for _, line := range []string{
			`tidings_bridge_acked_total{source="amqp"} 2`, `tidings_bridge_acked_total{source="far"} 3`,
			`tidings_bridge_duplicates_total{source="far"} 1`, `tidings_bridge_ready{source="till"} 1`,
			`tidings_channel_breaker_open{channel="hook",tenant=""} 0`, `tidings_dispatcher_ready 1`,
			`tidings_bridge_held_seconds_count{source="far"} 3`, `tidings_bridge_in_hand{source="far"} 0`,
		} {
			require.Contains(t, string(body), line+"\n")
		}
	})
}
