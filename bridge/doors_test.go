package bridge_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"tidings/bridge"
	"tidings/streams/event"
)

func TestTheSameEventByBothDoorsIsOne(t *testing.T) {
	body := `{"n":1}`
	structured := `{"specversion":"1.0","id":"1","source":"/shop","type":"order.placed","tenantid":"acme","data":{"n":1}}`
	messages := map[string]amqp.Publishing{
		"a binary CloudEvent by AMQP": {ContentType: "application/json", Body: []byte(body), Headers: amqp.Table{
			"cloudEvents:specversion": "1.0", "cloudEvents:id": "1", "cloudEvents:source": "/shop", "cloudEvents:type": "order.placed",
			"cloudEvents:tenantid": "acme",
		}},
		"a structured CloudEvent by AMQP": {ContentType: bridge.TypeStructured, Body: []byte(structured)},
		"a plain message by AMQP": {
			ContentType: "application/json", Body: []byte(body), MessageId: "1", AppId: "/shop", Type: "order.placed",
			Headers: amqp.Table{"tenant-id": "acme"},
		},
	}
	batch, err := bridge.SplitBatch([]byte("["+structured+"]"), 1)
	require.NoError(t, err)
	requests := map[string]struct {
		header http.Header
		body   []byte
	}{
		"a binary CloudEvent by HTTP": {http.Header{
			"Content-Type": {"application/json"}, "Ce-Specversion": {"1.0"}, "Ce-Id": {"1"}, "Ce-Source": {"/shop"},
			"Ce-Type": {"order.placed"}, "Ce-Tenantid": {"acme"},
		}, []byte(body)},
		"a structured CloudEvent by HTTP": {http.Header{"Content-Type": {bridge.TypeStructured}}, []byte(structured)},
		"one of a batch":                  {http.Header{"Content-Type": {bridge.TypeStructured}}, batch[0]},
	}
	for first, msg := range messages {
		for second, request := range requests {
			t.Run(first+", and "+second, func(t *testing.T) {
				w := withQueue(t)
				w.publish(msg)
				w.start()
				stored := w.settled(1)[0]
				envelope, err := bridge.FromHTTP(request.header, request.body)
				require.NoError(t, err)

				got, err := bridge.NewDoor(w.door).Accept(t.Context(), bridge.Arrival{
					Envelope: envelope, Body: request.body, Where: "http", Stage: event.StageHTTP,
				})

				require.NoError(t, err)
				require.Equal(t, bridge.Receipt{Key: stored.Ref.Key, Sequence: stored.Ref.Sequence, Duplicate: true}, got)
				require.Len(t, w.duplicates(), 1)
			})
		}
	}
}

func TestTheSameIDByBothDoorsAtOnceIsOneEventAndOneConflict(t *testing.T) {
	w := withQueue(t)
	w.start()
	w.eventually("a consumer", w.ready)
	door := bridge.NewDoor(w.door)
	var both sync.WaitGroup
	both.Go(func() { w.publish(messages(300)...) })
	for i := range 300 {
		both.Go(func() {
			body := []byte(`{"n":2}`) // that of the messages is another
			_, err := door.Accept(t.Context(), bridge.Arrival{
				Envelope: event.Envelope{ID: fmt.Sprintf("e-%04d", i), Type: "order.placed", Data: body},
				Body:     body, Where: "http", Stage: event.StageHTTP,
			})
			require.NoError(t, err)
		})
	}
	both.Wait()
	w.eventually("all deliveries", func() bool { return w.bridge.Status().Acked == 300 })
	w.settled(300)
	require.Len(t, w.ids(), 300)
	conflicts := map[string]bool{}
	for _, l := range w.letters() {
		require.Equal(t, event.CauseIDConflict, l.Cause)
		conflicts[l.Envelope.ID] = true
	}
	require.Len(t, conflicts, 300)
	require.Len(t, w.letters(), 300)
	require.Empty(t, w.duplicates())
}
