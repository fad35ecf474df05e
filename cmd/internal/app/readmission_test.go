package app_test

import (
	"fmt"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"tidings/bridge"
	"tidings/bridge/bridgetest"
	"tidings/cmd/internal/api"
	"tidings/store"
	"tidings/streams/event"
)

// A delivery whose time cannot be read is a dead letter. When its source is told to
// take the time from elsewhere, it comes in.
func TestADeliveryComesInByTheMappingThatItsSourceHasNow(t *testing.T) {
	w := newWorld(t, nil)
	v := bridgetest.New(t).Vhost(t)
	config := w.text()
	w.add(fmt.Sprintf("amqp: {url: %q, queue: orders, topology: declare}", v.URL))
	client, stop := w.start()
	publishAt(w, v.URL, "noon")
	letter := w.letter(client)
	require.Equal(t, event.CauseUndecodable, letter.Cause)
	client.Operator = "ann"
	_, err := client.Requeue(t.Context(), letter.Key, "")
	require.ErrorContains(t, err, "it is refused again (undecodable): time of the event: it is not a time in RFC 3339")
	stop()

	w.write(config)
	w.add(fmt.Sprintf("amqp: {url: %q, queue: orders, topology: declare, mapping: {occurred_at: {headers: [at]}}}", v.URL))
	client, _ = w.start()
	client.Operator = "ann"
	var done api.Requeued
	w.eventually("the log is open", func() bool {
		var err error
		done, err = client.Requeue(t.Context(), letter.Key, "the clock was mended")
		return err == nil
	})
	require.True(t, done.Admitted)
	rows := w.rows(client, 1)
	require.Equal(t, event.Processed, rows[0].Outcome)
	require.Equal(t, "o-1", rows[0].EventID)
	page, err := client.DeadLetters(t.Context(), store.LetterQuery{})
	require.NoError(t, err)
	require.Empty(t, page.Items, "it is dealt with")
	entries, err := client.History(t.Context(), rows[0].Key)
	require.NoError(t, err)
	require.Equal(t, "the clock was mended", entries[0].Operation.Reason)
}

// publishAt publishes an order by AMQP that says when it occurred.
func publishAt(w *world, url, at string) {
	w.Helper()
	p, err := bridge.NewPublisher(url)
	require.NoError(w, err)
	defer p.Close()
	msg := amqp.Publishing{
		MessageId: "o-1", Type: "order.placed", AppId: "shop", ContentType: "application/json",
		DeliveryMode: amqp.Persistent, Body: w.order("/ok"), Headers: amqp.Table{"occurred-at": at},
	}
	w.eventually("the queue is there", func() bool { return p.Publish(w.Context(), "", "orders", msg) == nil })
}

// letter waits for a dead letter.
func (w *world) letter(client *api.Client) api.LetterLine {
	w.Helper()
	var page api.LetterLines
	w.eventually("there is a dead letter", func() bool {
		var err error
		page, err = client.DeadLetters(w.Context(), store.LetterQuery{})
		return err == nil && len(page.Items) == 1
	})
	return page.Items[0]
}
