package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/bridge"
	"tidings/cmd/internal/api"
	"tidings/streams"
	"tidings/streams/event"
	"tidings/streams/streamstest"
)

// order is a structured CloudEvent.
func order(id string, n int) string {
	return fmt.Sprintf(`{"specversion":"1.0","id":%q,"source":"/shop","type":"order.placed","tenantid":"acme","data":{"n":%d}}`, id, n)
}

func orders(n int) []string {
	var events []string
	for i := range n {
		events = append(events, order(fmt.Sprintf("o-%d", i), i))
	}
	return events
}

func (w *world) postBatch(body string) *http.Response {
	w.t.Helper()
	return w.ask(http.MethodPost, "/v1/events", body, "Content-Type", "application/cloudevents-batch+json; charset=utf-8",
		"Traceparent", "00-a-b-01")
}

// batch posts a batch that is taken in.
func (w *world) batch(events ...string) []api.Accepted {
	w.t.Helper()
	return accepted(w.t, w.postBatch("["+strings.Join(events, ", ")+"]"))
}

func accepted(t *testing.T, res *http.Response) []api.Accepted {
	t.Helper()
	body := text(t, res)
	require.Equal(t, http.StatusAccepted, res.StatusCode, body)
	require.Equal(t, "application/json", res.Header.Get("Content-Type"))
	var list []api.Accepted
	require.NoError(t, json.Unmarshal([]byte(body), &list))
	return list
}

// withLog puts a real door before the log.
func (w *world) withLog(log *streams.Log) *bridge.Door {
	w.t.Helper()
	w.stream = log
	door := bridge.NewDoor(bridge.DoorOptions{Events: log.Events, Letters: log.DeadLetters, Audit: log.Outcomes})
	w.options.Door, w.options.Letters, w.options.MaxBody = door, log.DeadLetters, 0
	w.serve()
	return door
}

func (w *world) counts() (events, letters, duplicates uint64) {
	w.t.Helper()
	var n [3]uint64
	for i, info := range []func(context.Context) (streams.StreamInfo, error){
		w.stream.Events.Info, w.stream.DeadLetters.Info, w.stream.Outcomes.Info,
	} {
		got, err := info(w.t.Context())
		require.NoError(w.t, err)
		n[i] = got.Messages
	}
	return n[0], n[1], n[2]
}

func (w *world) hasCounts(events, letters, duplicates int) {
	w.t.Helper()
	e, l, d := w.counts()
	require.Equal(w.t, []int{events, letters, duplicates}, []int{int(e), int(l), int(d)}, "events, letters, duplicates")
}

func TestBatchToTheLog(t *testing.T) {
	t.Run("each event is stored as if it had come alone, and its place in the answer is its own", func(t *testing.T) {
		w := newWorld(t)
		w.withLog(w.stream)
		got := w.batch(orders(100)...)
		require.Len(t, got, 100)
		for i, a := range got {
			require.False(t, a.Duplicate)
			require.Empty(t, a.Quarantined)
			stored, err := w.stream.Events.Get(t.Context(), a.Sequence)
			require.NoError(t, err)
			require.Equal(t, a.Key, stored.Ref.Key)
			require.Equal(t, fmt.Sprintf("o-%d", i), stored.Envelope.ID)
			require.Equal(t, "acme", stored.Ref.Tenant)
			require.Equal(t, "00-a-b-01", stored.Envelope.Traceparent)
			require.JSONEq(t, fmt.Sprintf(`{"n":%d}`, i), string(stored.Envelope.Data))
		}
		w.hasCounts(100, 0, 0)

		alone, err := w.client.Publish(t.Context(), http.Header{"Content-Type": {"application/cloudevents+json"}}, []byte(order("o-7", 7)))
		require.NoError(t, err)
		require.Equal(t, api.Accepted{Key: got[7].Key, Sequence: got[7].Sequence, Duplicate: true}, alone)
	})
	t.Run("the first of those that are the same is the event, another is its duplicate or conflict", func(t *testing.T) {
		w := newWorld(t)
		w.withLog(w.stream)
		got := w.batch(order("a", 1), order("b", 1), order("a", 1), order("a", 2), order("a", 1))
		require.Equal(t, api.Accepted{Key: got[0].Key, Sequence: got[0].Sequence, Duplicate: true}, got[2])
		require.Equal(t, got[2], got[4])
		require.NotEqual(t, got[0].Key, got[1].Key)
		require.Equal(t, event.CauseIDConflict, got[3].Quarantined)
		stored, err := w.stream.Events.Get(t.Context(), got[0].Sequence)
		require.NoError(t, err)
		require.JSONEq(t, `{"n":1}`, string(stored.Envelope.Data))
		w.hasCounts(2, 1, 2)
	})
	t.Run("one that is no event is a dead letter of its own bytes, and the others come in", func(t *testing.T) {
		w := newWorld(t)
		w.withLog(w.stream)
		noType := `{"specversion":"1.0", "id":"x"}`
		got := w.batch(order("a", 1), noType, "17", "{\"id\":\"\xff\"}", order("b", 1))
		require.Empty(t, got[0].Quarantined)
		require.Empty(t, got[4].Quarantined)
		for i, raw := range map[int]string{1: noType, 2: "17", 3: "{\"id\":\"\xff\"}"} {
			require.Equal(t, event.CauseUndecodable, got[i].Quarantined)
			letter, sequence, err := w.stream.DeadLetters.Get(t.Context(), event.DefaultTenant, got[i].Key)
			require.NoError(t, err)
			require.Equal(t, sequence, got[i].Sequence)
			require.Equal(t, raw, string(letter.Data))
			require.Equal(t, "application/cloudevents+json", letter.Delivery.Properties["content_type"])
		}
		w.hasCounts(2, 3, 0)

		alone, err := w.client.Publish(t.Context(), http.Header{
			"Content-Type": {"application/cloudevents+json"}, "Traceparent": {"00-a-b-01"},
		}, []byte(noType))
		require.NoError(t, err)
		require.Equal(t, got[1], alone, "the same letter as alone")
	})
	t.Run("a body that is no list is one dead letter, once", func(t *testing.T) {
		w := newWorld(t)
		w.withLog(w.stream)
		broken := "[" + order("a", 1) + ","
		got := accepted(t, w.postBatch(broken))
		require.Len(t, got, 1)
		require.Equal(t, event.CauseUndecodable, got[0].Quarantined)
		letter, _, err := w.stream.DeadLetters.Get(t.Context(), event.DefaultTenant, got[0].Key)
		require.NoError(t, err)
		require.Equal(t, broken, string(letter.Data))
		require.Equal(t, "the content type is application/cloudevents-batch+json and the body is no JSON array", letter.Detail)
		require.Equal(t, got, accepted(t, w.postBatch(broken)))
		w.hasCounts(0, 1, 0)
	})
	t.Run("an empty list is refused, and nothing is kept", func(t *testing.T) {
		w := newWorld(t)
		w.withLog(w.stream)
		require.Contains(t, problem(t, w.postBatch("[ ]"), http.StatusBadRequest), "urn:tidings:empty-batch")
		w.hasCounts(0, 0, 0)
	})
	t.Run("1000 events are taken in, one more is refused whole", func(t *testing.T) {
		w := newWorld(t)
		w.withLog(w.stream)
		res := w.postBatch("[" + strings.Join(orders(1001), ",") + "]")
		require.Contains(t, problem(t, res, http.StatusRequestEntityTooLarge), "more than 1000 events: send it in parts")
		require.Empty(t, res.Header.Get("Retry-After"))
		w.hasCounts(0, 0, 0)
		require.Len(t, w.batch(orders(1000)...), 1000)
		w.hasCounts(1000, 0, 0)
	})
	t.Run("the bound on bytes is that of the whole", func(t *testing.T) {
		w := newWorld(t)
		w.options.Door = w.withLog(w.stream)
		w.options.MaxBody = int64(len(order("o-0", 0))) * 2
		w.serve()
		require.Contains(t, problem(t, w.postBatch("["+strings.Join(orders(2), ",")+"]"), http.StatusRequestEntityTooLarge), "urn:tidings:too-large")
		w.hasCounts(0, 0, 0)
		require.Len(t, w.batch(order("o-0", 0)), 1)
	})
}

func TestBatchWhenTheLogStops(t *testing.T) {
	t.Run("in the middle: 503 with Retry-After, and the whole batch may be sent again", func(t *testing.T) {
		w := newWorld(t)
		server := streamstest.NewServer(t)
		door := w.withLog(server.Log())
		var calls atomic.Int32
		w.options.Door = doorFunc(func(ctx context.Context, a bridge.Arrival) (bridge.Receipt, error) {
			if calls.Add(1) == 100 {
				server.Stop()
			}
			return door.Accept(ctx, a)
		})
		w.serve()
		events := append(orders(900), "17")
		res := w.postBatch("[" + strings.Join(events, ",") + "]")
		require.Contains(t, problem(t, res, http.StatusServiceUnavailable), "send the batch again; those of its events that are stored are recognised")
		require.Equal(t, "5", res.Header.Get("Retry-After"))
		require.Less(t, int(calls.Load()), 900, "the rest is not tried")

		server.Start()
		require.Eventually(t, func() bool { // the connection comes back
			_, err := w.stream.Events.Info(t.Context())
			return err == nil
		}, 30*time.Second, 10*time.Millisecond)
		stored, _, _ := w.counts()
		require.NotZero(t, stored)
		require.Less(t, stored, uint64(900))
		got := w.batch(events...)
		require.Len(t, got, 901)
		duplicates, keys := 0, map[event.Key]bool{}
		for _, a := range got {
			keys[a.Key] = true
			if a.Duplicate {
				duplicates++
			}
		}
		require.Len(t, keys, 901)
		require.Equal(t, int(stored), duplicates)
		require.Equal(t, event.CauseUndecodable, got[900].Quarantined)
		w.hasCounts(900, 1, int(stored))
	})
	t.Run("a log that is full says so", func(t *testing.T) {
		w := newWorld(t)
		w.door = func(context.Context, bridge.Arrival) (bridge.Receipt, error) {
			return bridge.Receipt{}, streams.ErrFull
		}
		require.Contains(t, problem(t, w.postBatch("[1]"), http.StatusServiceUnavailable), "make room; then send the batch again")
	})
}

func TestBatchAtTheDoor(t *testing.T) {
	t.Run("a panic in one is an answer, not the end of the process", func(t *testing.T) {
		w := newWorld(t)
		w.door = func(context.Context, bridge.Arrival) (bridge.Receipt, error) { panic("hunter2") }
		require.NotContains(t, problem(t, w.postBatch("[1,2]"), http.StatusInternalServerError), "hunter2")
	})
	t.Run("the client publishes one event, and says so", func(t *testing.T) {
		w := newWorld(t)
		_, err := w.client.Publish(t.Context(), http.Header{"Content-Type": {bridge.TypeBatch}}, []byte("[]"))
		require.ErrorIs(t, err, api.ErrBatch)
	})
	t.Run("the description has it", func(t *testing.T) {
		w := newWorld(t)
		var spec struct {
			Paths map[string]map[string]struct {
				RequestBody struct {
					Content map[string]struct {
						Schema struct{ MaxItems int }
					}
				}
				Responses map[string]struct {
					Content map[string]struct {
						Schema struct{ OneOf []struct{ Type string } }
					}
				}
			}
		}
		require.NoError(t, json.Unmarshal([]byte(text(t, w.ask(http.MethodGet, "/openapi.json", ""))), &spec))
		post := spec.Paths["/v1/events"]["post"]
		require.Equal(t, 1000, post.RequestBody.Content[bridge.TypeBatch].Schema.MaxItems)
		require.Equal(t, "array", post.Responses["202"].Content["application/json"].Schema.OneOf[1].Type)
		require.Contains(t, post.Responses, "400")
	})
}
