package bridge_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tidings/bridge"
	"tidings/streams/event"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// fullPlain has every property and header that a plain event is made of.
func fullPlain() amqp.Delivery {
	return amqp.Delivery{
		MessageId: "m-1", Type: "order.placed", AppId: "shop", CorrelationId: "c-1", Timestamp: noon,
		ContentType: "application/json; charset=utf-8", RoutingKey: "eu.order.placed", Body: []byte(`{"n":1}`),
		Headers: amqp.Table{
			"tenant-id": "acme", "event-id": "h-1", "event-type": "h.type", "event-source": "h-source",
			"correlation-id": "h-c", "occurred-at": "2020-01-01T00:00:00Z",
			"traceparent": "00-aa-bb-01", "tracestate": "a=1",
		},
	}
}

func TestPlainDelivery(t *testing.T) {
	t.Run("gives its properties, the tenant and the trace", func(t *testing.T) {
		e, err := bridge.Mapping{}.FromAMQP(fullPlain())
		require.NoError(t, err)
		require.Equal(t, event.Envelope{
			Tenant: "acme", Source: "shop", ID: "m-1", IDSource: event.IDMessageID, Type: "order.placed",
			CorrelationID: "c-1", OccurredAt: noon, ContentType: "application/json; charset=utf-8",
			Traceparent: "00-aa-bb-01", Tracestate: "a=1", Data: []byte(`{"n":1}`),
		}, e)
	})
	t.Run("without properties gives its headers", func(t *testing.T) {
		d := fullPlain()
		d = amqp.Delivery{Headers: d.Headers, RoutingKey: d.RoutingKey, Body: d.Body}
		e, err := bridge.Mapping{}.FromAMQP(d)
		require.NoError(t, err)
		require.Equal(t, event.Envelope{
			Tenant: "acme", Source: "h-source", ID: "h-1", IDSource: event.IDHeader, Type: "h.type",
			CorrelationID: "h-c", OccurredAt: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC),
			Traceparent: "00-aa-bb-01", Tracestate: "a=1", Data: []byte(`{"n":1}`),
		}, e)
	})
	t.Run("without anything has the routing key as type, and no id", func(t *testing.T) {
		e, err := bridge.Mapping{}.FromAMQP(amqp.Delivery{RoutingKey: "eu.order.placed"})
		require.NoError(t, err)
		require.Equal(t, event.Envelope{Type: "eu.order.placed"}, e)
	})
	t.Run("prefers configured headers to properties", func(t *testing.T) {
		m := bridge.Mapping{
			ID: bridge.Attribute{Headers: []string{"order-id", "event-id"}}, Type: bridge.Attribute{Headers: []string{"event-type"}},
			Source: bridge.Attribute{Headers: []string{"event-source"}}, CorrelationID: bridge.Attribute{Headers: []string{"correlation-id"}},
			OccurredAt: bridge.Attribute{Headers: []string{"occurred-at"}},
		}
		e, err := m.FromAMQP(fullPlain())
		require.NoError(t, err)
		require.Equal(t, "h-1", e.ID)
		require.Equal(t, event.IDHeader, e.IDSource)
		require.Equal(t, "h.type", e.Type)
		require.Equal(t, "h-source", e.Source)
		require.Equal(t, "h-c", e.CorrelationID)
		require.Equal(t, 2020, e.OccurredAt.Year())
	})
	t.Run("falls back to properties where configured headers are missing", func(t *testing.T) {
		m := bridge.Mapping{ID: bridge.Attribute{Headers: []string{"order-id"}}}
		e, err := m.FromAMQP(fullPlain())
		require.NoError(t, err)
		require.Equal(t, "m-1", e.ID)
		require.Equal(t, event.IDMessageID, e.IDSource)
	})
	t.Run("takes words of the routing key", func(t *testing.T) {
		m := bridge.Mapping{Tenant: bridge.Attribute{Headers: []string{"none"}, RoutingKeyWord: 1}, Source: bridge.Attribute{RoutingKeyWord: -1}}
		d := fullPlain()
		d.AppId = ""
		delete(d.Headers, "event-source")
		e, err := m.FromAMQP(d)
		require.NoError(t, err)
		require.Equal(t, "eu", e.Tenant)
		require.Equal(t, "placed", e.Source)
	})
	t.Run("has no word beyond the routing key", func(t *testing.T) {
		m := bridge.Mapping{Tenant: bridge.Attribute{RoutingKeyWord: 4}, Source: bridge.Attribute{RoutingKeyWord: -4}}
		e, err := m.FromAMQP(amqp.Delivery{RoutingKey: "a.b.c"})
		require.NoError(t, err)
		require.Empty(t, e.Tenant)
		require.Empty(t, e.Source)
	})
	t.Run("cannot overrule a constant", func(t *testing.T) {
		m := bridge.Mapping{Tenant: bridge.Attribute{Constant: "ours"}}
		e, err := m.FromAMQP(fullPlain())
		require.NoError(t, err)
		require.Equal(t, "ours", e.Tenant)
	})
	t.Run("may have its attributes as other types than text", func(t *testing.T) {
		for name, c := range map[string]struct {
			value any
			want  string
		}{
			"int32":   {int32(-7), "-7"},
			"int64":   {int64(math.MaxInt64), "9223372036854775807"},
			"uint8":   {byte(7), "7"},
			"bool":    {true, "true"},
			"float32": {float32(0.1), "0.1"},
			"float64": {1e21, "1e+21"},
			"bytes":   {[]byte("seven"), "seven"},
			"binary":  {[]byte{0xff}, "/w=="},
			"time":    {noon, "2026-05-01T12:00:00Z"},
			"nothing": {nil, ""},
		} {
			e, err := bridge.Mapping{}.FromAMQP(amqp.Delivery{Type: "t", Headers: amqp.Table{"event-id": c.value}})
			require.NoError(t, err, name)
			require.Equal(t, c.want, e.ID, name)
		}
	})
	t.Run("keeps ids and types of any length and character", func(t *testing.T) {
		for _, s := range []string{"x", strings.Repeat("x", 5000), "a..b", "a.", "a b*>\n\r\x00"} {
			e, err := bridge.Mapping{}.FromAMQP(amqp.Delivery{Headers: amqp.Table{"event-id": s, "event-type": s}})
			require.NoError(t, err)
			require.Equal(t, s, e.ID)
			require.Equal(t, s, e.Type)
		}
	})
	t.Run("may be empty, or anything that its content type does not call JSON", func(t *testing.T) {
		for _, d := range []amqp.Delivery{
			{Type: "t", ContentType: "application/json"},
			{Type: "t", ContentType: "text/plain", Body: []byte("{oops")},
			{Type: "t", Body: []byte{0, 0xff}},
			{Type: "t", ContentType: "application/problem+json", Body: []byte(`"text"`)},
		} {
			e, err := bridge.Mapping{}.FromAMQP(d)
			require.NoError(t, err)
			require.Equal(t, d.Body, e.Data)
		}
	})
	t.Run("may occur from year 0 to year 9999", func(t *testing.T) {
		for _, at := range []time.Time{time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)} {
			e, err := bridge.Mapping{}.FromAMQP(amqp.Delivery{Type: "t", Timestamp: at.Local()})
			require.NoError(t, err)
			require.True(t, at.Equal(e.OccurredAt))
		}
	})
}

func TestDeliveryThatIsNoEvent(t *testing.T) {
	structured := func(body string) amqp.Delivery {
		return amqp.Delivery{ContentType: "application/cloudevents+json", Body: []byte(body)}
	}
	binary := func(headers amqp.Table) amqp.Delivery {
		all := amqp.Table{"ce-specversion": "1.0", "ce-id": "1", "ce-type": "t", "ce-source": "s"}
		for name, v := range headers {
			all[name] = v
		}
		return amqp.Delivery{Headers: all}
	}
	for name, c := range map[string]struct {
		d    amqp.Delivery
		want string
	}{
		"JSON that is none":           {amqp.Delivery{ContentType: "application/json", Body: []byte("{oops")}, "the content type is application/json and the body is not JSON"},
		"JSON that is none, bad type": {amqp.Delivery{ContentType: "Application/JSON; x", Body: []byte("{oops")}, "the body is not JSON"},
		"compressed JSON":             {amqp.Delivery{ContentType: "application/json", ContentEncoding: "gzip", Body: []byte{0x1f, 0x8b}}, `content encoding "gzip" is not understood`},
		"id not UTF-8":                {amqp.Delivery{MessageId: "\xff"}, "the id is not UTF-8"},
		"type not UTF-8":              {amqp.Delivery{RoutingKey: "\xff"}, "the type is not UTF-8"},
		"tenant not UTF-8":            {amqp.Delivery{Headers: amqp.Table{"tenant-id": "\xff"}}, "the tenant is not UTF-8"},
		"tenant too long":             {amqp.Delivery{Headers: amqp.Table{"tenant-id": strings.Repeat("t", 256)}}, "the tenant has 256 bytes, more than 255"},
		"source not UTF-8":            {amqp.Delivery{AppId: "\xff"}, "the source is not UTF-8"},
		"correlation not UTF-8":       {amqp.Delivery{CorrelationId: "\xff"}, "the correlation id is not UTF-8"},
		"content type not UTF-8":      {amqp.Delivery{ContentType: "\xff"}, "the content type is not UTF-8"},
		"id a table":                  {amqp.Delivery{Headers: amqp.Table{"event-id": amqp.Table{}}}, `header "event-id": a table, an array or a decimal is no text`},
		"timestamp in milliseconds":   {amqp.Delivery{Timestamp: time.Unix(1767225600000, 0)}, "1767225600000 seconds since 1970 are beyond the years 0 to 9999: AMQP timestamps count seconds, not milliseconds"},
		"timestamp at the edge":       {amqp.Delivery{Timestamp: time.Unix(math.MaxInt64, 0)}, "beyond the years"},
		"no type":                     {amqp.Delivery{MessageId: "1", Body: []byte("x")}, "it has no type: set the AMQP property type, the header event-type, or a routing key"},
		"time no time":                {amqp.Delivery{Headers: amqp.Table{"occurred-at": "yesterday"}}, "time of the event: it is not a time in RFC 3339"},

		"structured, no JSON":            {structured(`oops`), "the body is no JSON object in UTF-8"},
		"structured, empty":              {structured(``), "the body is no JSON object in UTF-8"},
		"structured, an array":           {structured(`[]`), "the body is no JSON object in UTF-8"},
		"structured, null":               {structured(`null`), "the body is no JSON object in UTF-8"},
		"structured, not UTF-8":          {structured("{\"id\":\"\xff\"}"), "the body is no JSON object in UTF-8"},
		"structured, no specversion":     {structured(`{"id":"1","type":"t","source":"s"}`), "the required attribute specversion is missing"},
		"structured, no id":              {structured(`{"specversion":"1.0","type":"t","source":"s"}`), "the required attribute id is missing"},
		"structured, empty id":           {structured(`{"specversion":"1.0","id":"","type":"t","source":"s"}`), "the required attribute id is missing"},
		"structured, no type":            {structured(`{"specversion":"1.0","id":"1","source":"s"}`), "the required attribute type is missing"},
		"structured, version 0.3":        {structured(`{"specversion":"0.3","id":"1","type":"t"}`), "its specversion is not 1.0"},
		"structured, id an object":       {structured(`{"specversion":"1.0","id":{},"type":"t"}`), "the CloudEvents attribute id is an object or an array"},
		"structured, a bad name":         {structured(`{"specversion":"1.0","id":"1","type":"t","Tenant-Id":"a"}`), `"Tenant-Id" is no name of a CloudEvents attribute`},
		"structured, data twice":         {structured(`{"specversion":"1.0","id":"1","type":"t","data":1,"data_base64":"AA=="}`), "both data and data_base64"},
		"structured, data no base64":     {structured(`{"specversion":"1.0","id":"1","type":"t","data_base64":"%"}`), "data_base64 of the CloudEvent is not base64"},
		"structured, base64 a number":    {structured(`{"specversion":"1.0","id":"1","type":"t","data_base64":1}`), "data_base64 of the CloudEvent is no string"},
		"structured, base64 not JSON":    {structured(`{"specversion":"1.0","id":"1","type":"t","datacontenttype":"application/json","data_base64":"AA=="}`), "the body is not JSON"},
		"structured, time no time":       {structured(`{"specversion":"1.0","id":"1","type":"t","time":"noon"}`), "time of the event"},
		"another format of CloudEvents":  {amqp.Delivery{ContentType: "application/cloudevents+avro"}, "content type application/cloudevents+avro is not understood"},
		"a batch of CloudEvents":         {amqp.Delivery{ContentType: "application/cloudevents-batch+json", Body: []byte("[]")}, "send one event as application/cloudevents+json"},
		"binary, no id":                  {binary(amqp.Table{"ce-id": nil}), "the required attribute id is missing"},
		"binary, no type":                {binary(amqp.Table{"ce-type": ""}), "the required attribute type is missing"},
		"binary, version 2":              {binary(amqp.Table{"ce-specversion": "2.0"}), "its specversion is not 1.0"},
		"binary, an array":               {binary(amqp.Table{"ce-subject": []any{}}), `header "ce-subject"`},
		"binary, two different ids":      {binary(amqp.Table{"cloudEvents:id": "2"}), "the CloudEvents attribute id is given twice, with different values"},
		"binary, an extension not UTF-8": {binary(amqp.Table{"ce-ext": "\xff"}), "the extension ext is not UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := bridge.Mapping{}.FromAMQP(c.d)
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "oops", "no piece of the body")
		})
	}
	t.Run("and is read the same way each time, so that it is one dead letter", func(t *testing.T) {
		d := binary(amqp.Table{"ce-id": "1", "ce-ID": "2", "ce-iD": "3", "ce-Id": "4"})
		first, err := bridge.Mapping{}.FromAMQP(d)
		require.Error(t, err)
		for range 100 {
			again, _ := bridge.Mapping{}.FromAMQP(d)
			require.Equal(t, first, again)
		}
	})
	t.Run("still shows what could be read of it", func(t *testing.T) {
		d := fullPlain()
		d.Body = []byte("{oops")
		e, err := bridge.Mapping{}.FromAMQP(d)
		require.Error(t, err)
		require.Equal(t, "acme", e.Tenant)
		require.Equal(t, "m-1", e.ID)
	})
}

func TestBinaryCloudEvent(t *testing.T) {
	for _, prefix := range []string{"cloudEvents:", "cloudEvents_", "ce-"} {
		t.Run("with names like "+prefix+"id gives its attributes", func(t *testing.T) {
			d := fullPlain()
			for name, v := range map[string]any{
				"specversion": "1.0", "id": "ce-1", "source": "/shop", "type": "com.shop.order", "subject": "o-1",
				"time": "2026-05-01T14:00:00.5+02:00", "dataschema": "urn:s", "tenantid": "globex",
				"correlationid": "ce-c", "traceparent": "00-cc-dd-01", "priority": int32(5), "nothing": nil,
			} {
				d.Headers[prefix+name] = v
			}
			e, err := bridge.Mapping{}.FromAMQP(d)
			require.NoError(t, err)
			require.Equal(t, event.Envelope{
				Tenant: "globex", Source: "/shop", ID: "ce-1", IDSource: event.IDCloudEvents, Type: "com.shop.order",
				Subject: "o-1", CorrelationID: "ce-c", OccurredAt: noon.Add(500 * time.Millisecond), DataSchema: "urn:s",
				ContentType: "application/json; charset=utf-8", Traceparent: "00-cc-dd-01", Tracestate: "a=1",
				Extensions: map[string]string{"priority": "5", "amqpmessageid": "m-1"}, Data: d.Body,
			}, e)
		})
	}
	t.Run("without tenant, time or source takes those of the delivery", func(t *testing.T) {
		d := fullPlain()
		d.MessageId = "ce-1"
		for name, v := range map[string]any{"specversion": "1.0", "id": "ce-1", "type": "t"} {
			d.Headers["ce-"+name] = v
		}
		e, err := bridge.Mapping{}.FromAMQP(d)
		require.NoError(t, err)
		require.Equal(t, "acme", e.Tenant)
		require.Equal(t, noon, e.OccurredAt)
		require.Equal(t, "shop", e.Source)
		require.Equal(t, "c-1", e.CorrelationID)
		require.Empty(t, e.Extensions, "the same id is nothing to note")
	})
	t.Run("with a message-id of bytes that are no text has that as base64, and its own id", func(t *testing.T) {
		e, err := bridge.Mapping{}.FromAMQP(amqp.Delivery{
			MessageId: "\xff\x00", Headers: amqp.Table{"ce-specversion": "1.0", "ce-id": "1", "ce-type": "t"},
		})
		require.NoError(t, err)
		require.Equal(t, "1", e.ID)
		require.Equal(t, map[string]string{event.ExtensionMessageID: "/wA="}, e.Extensions)
	})
	t.Run("cannot overrule a constant, and leaves nothing of it behind", func(t *testing.T) {
		m := bridge.Mapping{Tenant: bridge.Attribute{Constant: "ours"}}
		e, err := m.FromAMQP(amqp.Delivery{Headers: amqp.Table{"ce-specversion": "1.0", "ce-id": "1", "ce-type": "t", "ce-tenantid": "theirs"}})
		require.NoError(t, err)
		require.Equal(t, "ours", e.Tenant)
		require.Empty(t, e.Extensions)
	})
	t.Run("needs the specversion: other headers that look like it do not make one", func(t *testing.T) {
		e, err := bridge.Mapping{}.FromAMQP(amqp.Delivery{MessageId: "m-1", Type: "t", Headers: amqp.Table{"ce-id": "1", "ce-Odd Name": "x"}})
		require.NoError(t, err)
		require.Equal(t, "m-1", e.ID)
	})
}

func TestStructuredCloudEvent(t *testing.T) {
	parse := func(t *testing.T, body string) event.Envelope {
		t.Helper()
		e, err := bridge.Mapping{}.FromAMQP(amqp.Delivery{
			ContentType: "application/cloudevents+json; charset=UTF-8", MessageId: "m-1", RoutingKey: "k", Body: []byte(body),
		})
		require.NoError(t, err)
		return e
	}
	t.Run("gives its attributes, and its data byte for byte", func(t *testing.T) {
		e := parse(t, `{"specversion":"1.0","id":"1","source":"/s","type":"t","subject":"u","time":"2026-05-01T12:00:00Z",
			"datacontenttype":"application/json","dataschema":"urn:s","tenantid":"acme","correlationid":"c","traceparent":"00-a-b-01",
			"priority":5,"urgent":true,"nothing":null,"data":{"b": 1,  "a":[1.0]}}`)
		require.Equal(t, event.Envelope{
			Tenant: "acme", Source: "/s", ID: "1", IDSource: event.IDCloudEvents, Type: "t", Subject: "u", CorrelationID: "c",
			OccurredAt: noon, ContentType: "application/json", DataSchema: "urn:s", Traceparent: "00-a-b-01",
			Extensions: map[string]string{"priority": "5", "urgent": "true", "amqpmessageid": "m-1"}, Data: []byte(`{"b": 1,  "a":[1.0]}`),
		}, e)
	})
	for name, c := range map[string]struct{ members, contentType, data string }{
		"no data":                   {``, "", ""},
		"null data":                 {`,"data":null`, "", ""},
		"JSON by implication":       {`,"data":"text"`, "application/json", `"text"`},
		"a string that is JSON":     {`,"datacontenttype":"application/json","data":"text"`, "application/json", `"text"`},
		"a string that is text":     {`,"datacontenttype":"text/plain","data":"té\nxt"`, "text/plain", "té\nxt"},
		"JSON under another name":   {`,"datacontenttype":"application/xml","data":{"a":1}`, "application/xml", `{"a":1}`},
		"bytes":                     {`,"datacontenttype":"image/png","data_base64":"AP8="`, "image/png", "\x00\xff"},
		"bytes without a type":      {`,"data_base64":"AP8="`, "", "\x00\xff"},
		"a number":                  {`,"data":12345678901234567890`, "application/json", "12345678901234567890"},
		"both, one of them nothing": {`,"data":null,"data_base64":"AA=="`, "", "\x00"},
	} {
		t.Run("may carry "+name, func(t *testing.T) {
			e := parse(t, `{"specversion":"1.0","id":"1","source":"s","type":"t"`+c.members+`}`)
			require.Equal(t, c.contentType, e.ContentType)
			require.Equal(t, c.data, string(e.Data))
		})
	}
}

func FuzzFromAMQP(f *testing.F) {
	f.Add("application/cloudevents+json", `{"specversion":"1.0","id":"1","source":"s","type":"t","data":{"a":1}}`, `{}`, "k", int64(5))
	f.Add("application/json", `{"a":1}`, `{"ce-specversion":"1.0","ce-id":{"I":1},"ce-type":"t","event-id":[{"F":{}}]}`, "a.b", int64(-1))
	f.Fuzz(func(t *testing.T, contentType, body, typed, key string, at int64) {
		headers, _ := bridge.DecodeHeaders([]byte(typed))
		e, err := bridge.Mapping{}.FromAMQP(amqp.Delivery{
			ContentType: contentType, Body: []byte(body), Headers: headers, RoutingKey: key, Timestamp: time.Unix(at, 0),
		})
		_, encoded := json.Marshal(e)
		require.NoError(t, encoded, "a dead letter must be able to hold it")
		if err == nil {
			e.Identify()
			require.NotEmpty(t, e.ID)
		}
	})
}

// Whatever a delivery holds, Watermill's message and a dead letter give it back.
func TestDeliveryRoundTrip(t *testing.T) { rapid.Check(t, deliveryRoundTrip) }

func FuzzDelivery(f *testing.F) { f.Fuzz(rapid.MakeFuzz(deliveryRoundTrip)) }

func deliveryRoundTrip(rt *rapid.T) {
	text := rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 8), func(b []byte) string { return string(b) })
	want := amqp.Publishing{
		Headers: table(2).Draw(rt, "headers"), ContentType: text.Draw(rt, "content type"), ContentEncoding: text.Draw(rt, "encoding"),
		DeliveryMode: rapid.Byte().Draw(rt, "mode"), Priority: rapid.Byte().Draw(rt, "priority"),
		CorrelationId: text.Draw(rt, "correlation"), ReplyTo: text.Draw(rt, "reply to"), Expiration: text.Draw(rt, "expiration"),
		MessageId: text.Draw(rt, "id"), Timestamp: time.Unix(rapid.Int64().Draw(rt, "time"), 0).UTC(), Type: text.Draw(rt, "type"),
		UserId: text.Draw(rt, "user"), AppId: text.Draw(rt, "app"), Body: []byte(text.Draw(rt, "body")),
	}
	got := bridge.RoundTrip(rt, want)
	requireSame(rt, want.Headers, got.Headers)
	want.Headers, got.Headers = nil, nil
	require.Equal(rt, want, got)
}
