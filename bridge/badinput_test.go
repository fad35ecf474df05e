package bridge_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"tidings/bridge"
	"tidings/bridge/bridgetest"
	"tidings/streams/event"
)

// oddity is a message that is bad, or only looks like it, and what becomes of it.
type oddity struct {
	msg amqp.Publishing
	// Of an event: its attributes, and its subject in EVENTS. The id is that of
	// the content if it is empty.
	id, typ, subject string
	idSource         event.IDSource
	occurred         time.Time
	// Of a dead letter: why, and how that is said in words.
	cause  event.Cause
	detail string
}

// odd is a plain message, changed.
func odd(change func(*amqp.Publishing)) amqp.Publishing {
	msg := plain("m-1")
	change(&msg)
	return msg
}

// named is a message with that id and type.
func named(id, typ string) amqp.Publishing {
	return odd(func(m *amqp.Publishing) { m.MessageId, m.Type = id, typ })
}

// headed is a message with these headers, and one with that id and type in them:
// properties hold 255 bytes.
func headed(headers amqp.Table) amqp.Publishing {
	return odd(func(m *amqp.Publishing) {
		m.Headers = headers
		if headers["event-id"] != nil {
			m.MessageId = ""
		}
		if headers["event-type"] != nil {
			m.Type = ""
		}
	})
}

func dated(at time.Time) amqp.Publishing {
	return odd(func(m *amqp.Publishing) { m.Timestamp = at })
}

// many returns headers of that many names.
func many(n int) amqp.Table {
	headers := amqp.Table{}
	for i := range n {
		headers[fmt.Sprintf("h%04d", i)] = true
	}
	return headers
}

const usual = "events.default.order.placed"

// oddities is everything that a producer may send by mistake, and what becomes of it.
func oddities() map[string]oddity {
	long, longType := strings.Repeat("i", 4000), strings.Repeat("t", 5000)
	structured := func(attributes string) amqp.Publishing {
		return amqp.Publishing{ContentType: "application/cloudevents+json", Body: []byte(`{"specversion":"1.0",` + attributes + `}`)}
	}
	list := map[string]oddity{
		"an empty body": {
			msg: odd(func(m *amqp.Publishing) { m.Body, m.ContentType = nil, "" }),
			id:  "m-1", typ: "order.placed", subject: usual,
		},
		"an empty body that should be JSON": {
			msg: odd(func(m *amqp.Publishing) { m.Body = nil }),
			id:  "m-1", typ: "order.placed", subject: usual,
		},
		"an empty body that should be a CloudEvent": {
			msg:   odd(func(m *amqp.Publishing) { m.Body, m.ContentType = nil, "application/cloudevents+json" }),
			cause: event.CauseUndecodable, detail: "the body is no JSON object",
		},
		"a body of 16 MiB": {
			msg:   odd(func(m *amqp.Publishing) { m.Body, m.ContentType = make([]byte, 16<<20), "" }),
			cause: event.CauseOversize, detail: "payload of 16777216 bytes, the limit is 8 MiB",
		},
		"8,192 headers": {
			msg: headed(many(8192)), cause: event.CauseHeadersTooLarge, detail: "headers of",
		},
		"100 kB of headers": {
			msg:   headed(amqp.Table{"h": strings.Repeat("x", 100_000)}),
			cause: event.CauseHeadersTooLarge, detail: "headers of",
		},
		"a header that is not UTF-8": {
			msg: headed(amqp.Table{"h": "\xff\xfe", "\xff": "x"}),
			id:  "m-1", typ: "order.placed", subject: usual,
		},
		"CR and LF in headers": {
			msg: headed(amqp.Table{"h": "a\r\nSubject: b", "a\r\nb": "x", "end": "x\r\n\r\nbody"}),
			id:  "m-1", typ: "order.placed", subject: usual,
		},
		"CR and LF in the content type": {
			msg: odd(func(m *amqp.Publishing) { m.ContentType = "text/plain\r\nNats-Msg-Id: x" }),
			id:  "m-1", typ: "order.placed", subject: usual,
		},
		"a timestamp of year 0": {
			msg: dated(time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)),
			id:  "m-1", typ: "order.placed", subject: usual, occurred: time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC),
		},
		"a time of year 0 in a header": {
			msg: headed(amqp.Table{"occurred-at": "0000-01-01T00:00:00Z"}),
			id:  "m-1", typ: "order.placed", subject: usual, occurred: time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC),
		},
		"a timestamp of year 9999": {
			msg:   dated(time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)),
			cause: event.CauseFuture, detail: "it claims to occur at 9999-12-31T23:59:59Z",
		},
		"a time of year 9999 in a header": {
			msg:   headed(amqp.Table{"occurred-at": "9999-12-31T23:59:59Z"}),
			cause: event.CauseFuture, detail: "it claims to occur at 9999-12-31T23:59:59Z",
		},
		"the source of tests": {
			msg:   odd(func(m *amqp.Publishing) { m.AppId = event.TestSource }),
			cause: event.CauseReservedSource, detail: `the source "tidings:test" is reserved`,
		},
		"a timestamp in milliseconds": {
			msg:   dated(time.Unix(1_777_636_800_000, 0)),
			cause: event.CauseUndecodable, detail: "AMQP timestamps count seconds, not milliseconds",
		},
		"an id of 0 bytes": {
			msg: named("", "order.placed"), typ: "order.placed", subject: usual, idSource: event.IDContent,
		},
		"an id of 0 bytes in a CloudEvent": {
			msg: structured(`"id":"","type":"t"`), cause: event.CauseUndecodable, detail: "the required attribute id is missing",
		},
		"an id of 1 byte":      {msg: named("i", "order.placed"), id: "i", typ: "order.placed", subject: usual},
		"an id of 4,000 bytes": {msg: headed(amqp.Table{"event-id": long}), id: long, idSource: event.IDHeader, typ: "order.placed", subject: usual},
		"an id of 4,000 bytes in a CloudEvent": {
			msg: structured(`"type":"t","id":"` + long + `"`), id: long, idSource: event.IDCloudEvents, typ: "t", subject: "events.default.t",
		},
		"an id of 30,000 bytes, in its header too": {
			msg: headed(amqp.Table{"event-id": strings.Repeat("i", 30_000)}), cause: event.CauseHeadersTooLarge, detail: "headers of",
		},
		"an id that is not UTF-8":  {msg: named("\xff", "order.placed"), cause: event.CauseUndecodable, detail: "the id is not UTF-8"},
		"a type that is not UTF-8": {msg: named("m-1", "\xff"), cause: event.CauseUndecodable, detail: "the type is not UTF-8"},
		"a type of 5,000 bytes": {
			msg: headed(amqp.Table{"event-type": longType}), id: "m-1", typ: longType,
			subject: "events.default." + longType[:255-23] + "~" + string(event.NewKey("cut", longType)),
		},
		"a type of 0 bytes, which is the routing key": {msg: named("m-1", ""), id: "m-1", typ: "orders", subject: "events.default.orders"},
		"a type with an empty word":                   {msg: named("m-1", "a..b"), id: "m-1", typ: "a..b", subject: "events.default.a.~.b"},
		"a type that ends in a dot":                   {msg: named("m-1", "a.b."), id: "m-1", typ: "a.b.", subject: "events.default.a.b.~"},
		"a type of dots":                              {msg: named("m-1", ".."), id: "m-1", typ: "..", subject: "events.default.~.~.~"},
		"a tenant of all of these": {
			msg: headed(amqp.Table{"tenant-id": "a..*> \n\x00."}), id: "m-1", typ: "order.placed",
			subject: "events.a%2E%2E%2A%3E%20%0A%00%2E.order.placed",
		},
		"a tenant of 256 bytes": {
			msg:   headed(amqp.Table{"tenant-id": strings.Repeat("t", 256)}),
			cause: event.CauseUndecodable, detail: "the tenant has 256 bytes, more than 255",
		},
	}
	for name, c := range map[string]string{"a blank": " ", "a star": "*", "a >": ">", "a newline": "\n", "a NUL": "\x00"} {
		list["id and type with "+name] = oddity{
			msg: named("i"+c+"d", "t"+c+"y."+c), id: "i" + c + "d", typ: "t" + c + "y." + c,
			subject: fmt.Sprintf("events.default.t%%%02Xy.%%%02X", c[0], c[0]),
		}
		escaped, _ := json.Marshal("i" + c + "d")
		list["id and type of a CloudEvent with "+name] = oddity{
			msg: structured(fmt.Sprintf(`"id":%s,"type":%s`, escaped, escaped)), id: "i" + c + "d", typ: "i" + c + "d", idSource: event.IDCloudEvents,
			subject: fmt.Sprintf("events.default.i%%%02Xd", c[0]),
		}
	}
	return list
}

func TestBadInput(t *testing.T) {
	w := withQueue(t)
	w.start()
	came := 0
	for name, c := range oddities() {
		t.Run(name, func(t *testing.T) {
			w := &world{T: t, vhost: w.vhost, log: w.log, said: w.said, config: w.config, bridge: w.bridge}
			// Each has a source of its own, so that none is another's duplicate.
			if c.msg.AppId == "" {
				c.msg.AppId = fmt.Sprint("source-", came)
			}
			came++
			w.publish(c.msg)
			w.eventually("an acknowledgement", func() bool { return w.bridge.Status().Acked == uint64(came) })
			if c.cause != "" {
				w.isLetter(c)
			} else {
				w.isEvent(c)
			}
		})
	}
	ch := w.channel()
	s := w.bridge.Status()
	require.EqualValues(t, came, s.Acked, "each once")
	require.Zero(t, s.Reconnects)
	require.Zero(t, s.InHand)
	require.Empty(t, w.duplicates())
	w.acknowledged()
	require.Zero(t, w.waiting(ch))
}

// isEvent checks that the last message became an event, the last one in the log.
func (w *world) isEvent(want oddity) {
	w.Helper()
	info, err := w.log.Events.Info(w.Context())
	require.NoError(w, err)
	got, err := w.log.Events.Get(w.Context(), info.Last)
	require.NoError(w, err)
	entry, err := w.log.Events.Entry(w.Context(), info.Last)
	require.NoError(w, err)

	require.Equal(w, want.msg.AppId, got.Envelope.Source, "it did not become an event")
	if want.id == "" {
		want.id = event.ContentHash("default", want.msg.AppId, want.typ, want.msg.Body)
	}
	require.Equal(w, want.id, got.Envelope.ID)
	require.Equal(w, want.typ, got.Envelope.Type)
	require.Equal(w, want.subject, entry.Subject)
	if want.idSource == "" {
		want.idSource = event.IDMessageID
	}
	require.Equal(w, want.idSource, got.Envelope.IDSource)
	require.Equal(w, want.occurred, got.Envelope.OccurredAt)
	if want.idSource != event.IDCloudEvents {
		require.True(w, bytes.Equal(want.msg.Body, got.Envelope.Data))
		require.Equal(w, want.msg.ContentType, got.Envelope.ContentType)
	}
	headers, err := bridge.DecodeHeaders(got.Headers)
	require.NoError(w, err)
	require.Equal(w, want.msg.Headers, headers)
}

// isLetter checks that the last message became a dead letter, the last one in
// the log, that gives back all that was sent.
func (w *world) isLetter(want oddity) {
	w.Helper()
	letters := w.letters()
	require.NotEmpty(w, letters)
	got, _, err := w.log.DeadLetters.Get(w.Context(), letters[len(letters)-1].Tenant, letters[len(letters)-1].Key)
	require.NoError(w, err)
	require.Equal(w, want.msg.AppId, got.Delivery.Properties["app_id"], "it did not become a letter")
	require.Equal(w, want.cause, got.Cause)
	require.Contains(w, got.Detail, want.detail)
	require.False(w, got.Delivery.Redelivered)
	require.Equal(w, "orders", got.Delivery.RoutingKey)
	sent, err := bridge.Publishing(*got.Delivery, w.payload(got))
	require.NoError(w, err)
	want.msg.DeliveryMode = amqp.Persistent
	if !want.msg.Timestamp.IsZero() {
		want.msg.Timestamp = want.msg.Timestamp.UTC()
	}
	require.True(w, bytes.Equal(want.msg.Body, sent.Body))
	want.msg.Body, sent.Body = nil, nil
	require.Equal(w, want.msg, sent)
}

// The client library reads no more than 8,192 names in a table and no more than
// a frame of headers, and ends the connection over such a message.
func TestHeadersThatCannotBeRead(t *testing.T) {
	isolated := func(t *testing.T, w *world) {
		t.Helper()
		w.start()
		ch, dead := w.channel(), *w
		dead.config.Queue = "orders.dead"
		w.eventually("the dead-lettered message", func() bool { return dead.waiting(ch) == 1 })
		w.settled(2)
		require.Empty(t, w.letters())
		require.Equal(t, 1, dead.waiting(ch))
	}
	around := func(w *world, poison amqp.Publishing) {
		w.publish(plain("a"))
		w.publishWide(poison)
		w.publish(plain("b"))
	}

	t.Run("10,000 of them: the queue dead-letters the message, and the others are events", func(t *testing.T) {
		w := newWorld(t)
		w.config.DeliveryLimit = 6
		w.declared()
		around(w, headed(many(10_000)))
		isolated(t, w)
	})
	t.Run("200 kB of them are refused by the broker, whose frames have 128 KiB", func(t *testing.T) {
		w := withQueue(t)
		conn, err := amqp.Dial(w.vhost.URL)
		require.NoError(t, err)
		closed := conn.NotifyClose(make(chan *amqp.Error, 1))
		ch, err := conn.Channel()
		require.NoError(t, err)
		// The broker may be quicker than the rest of the message.
		if err := ch.PublishWithContext(t.Context(), "", "orders", false, false, headed(wide())); err != nil {
			require.ErrorIs(t, err, amqp.ErrClosed)
		}
		require.Equal(t, amqp.FrameError, (<-closed).Code)
	})
	t.Run("200 kB of them are a dead letter, where the broker's frames are larger", func(t *testing.T) {
		w := withQueue(t)
		w.frames(1 << 20)
		w.publishWide(headed(wide()))
		w.start()
		w.eventually("a letter", func() bool { return len(w.letters()) == 1 })
		w.acknowledged()
		l := w.letters()[0]
		require.Equal(t, event.CauseHeadersTooLarge, l.Cause)
		got, err := bridge.DecodeHeaders(l.Delivery.Headers)
		require.NoError(t, err)
		require.Equal(t, wide(), got)
	})
	t.Run("200 kB of them, from when the broker's frames were larger: the queue dead-letters the message", func(t *testing.T) {
		w := newWorld(t)
		w.config.DeliveryLimit = 6
		w.declared()
		w.frames(1 << 20)
		around(w, headed(wide()))
		w.frames(128 << 10)
		isolated(t, w)
	})
}

// wide is 200 kB of headers.
func wide() amqp.Table { return amqp.Table{"h": strings.Repeat("x", 200_000)} }

// frames sets how large the frames of new connections to the broker may be,
// until the test ends.
func (w *world) frames(size int) {
	w.Helper()
	set := func(size int) error {
		_, err := bridgetest.Private(w).Ctl(context.Background(), "eval", fmt.Sprintf("application:set_env(rabbit, frame_max, %d).", size))
		return err
	}
	require.NoError(w, set(size))
	w.Cleanup(func() { require.NoError(w, set(128<<10)) })
}

// publishWide publishes a message on a connection with the largest frames that
// the broker allows.
func (w *world) publishWide(msg amqp.Publishing) {
	w.Helper()
	conn, err := amqp.DialConfig(w.vhost.URL, amqp.Config{FrameSize: amqp.FrameSizeUnlimited})
	require.NoError(w, err)
	defer conn.Close()
	ch, err := conn.Channel()
	require.NoError(w, err)
	require.NoError(w, ch.Confirm(false))
	msg.DeliveryMode = amqp.Persistent
	confirm, err := ch.PublishWithDeferredConfirm("", w.config.Queue, true, false, msg)
	require.NoError(w, err)
	acked, err := confirm.WaitContext(w.Context())
	require.NoError(w, err)
	require.True(w, acked)
}
