package streams

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tidings/streams/event"
)

// overTheWire writes headers as the client does and reads them back.
func overTheWire(t require.TestingT, h nats.Header) nats.Header {
	var b bytes.Buffer
	b.WriteString("NATS/1.0\r\n")
	for name, values := range h {
		for _, v := range values {
			require.False(t, strings.ContainsAny(name+v, "\r\n\x00"), "%q: %q", name, v)
			b.WriteString(name + ": " + v + "\r\n")
		}
	}
	b.WriteString("\r\n")
	require.Equal(t, b.Len(), headerSize(h))
	back, err := nats.DecodeHeadersMsg(b.Bytes())
	require.NoError(t, err)
	return back
}

var envelopes = rapid.Custom(func(t *rapid.T) event.Envelope {
	e := event.Envelope{
		Tenant: hostile.Filter(notEmpty).Draw(t, "tenant"), Source: hostile.Draw(t, "source"),
		ID: hostile.Filter(notEmpty).Draw(t, "id"), Type: hostile.Draw(t, "type"), Subject: hostile.Draw(t, "subject"),
		IDSource: rapid.SampledFrom([]event.IDSource{
			event.IDCloudEvents, event.IDMessageID, event.IDHeader, event.IDDerived, event.IDContent,
		}).Draw(t, "id source"),
		CorrelationID: hostile.Draw(t, "correlation"), ContentType: hostile.Draw(t, "content type"),
		DataSchema: hostile.Draw(t, "schema"), Traceparent: hostile.Draw(t, "traceparent"), Tracestate: hostile.Draw(t, "tracestate"),
		Data: rapid.SliceOf(rapid.Byte()).Draw(t, "data"),
	}
	if rapid.Bool().Draw(t, "has time") {
		e.OccurredAt = time.Unix(rapid.Int64Range(-60_000_000_000, 250_000_000_000).Draw(t, "s"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns")).UTC()
	}
	names := rapid.OneOf(hostile, rapid.SampledFrom([]string{"id", "type", "specversion", "partitionkey", "Case", "case", ""}))
	if ext := rapid.MapOfN(names, hostile, 0, 5).Draw(t, "extensions"); len(ext) > 0 {
		e.Extensions = ext
	}
	return e
})

func notEmpty(s string) bool { return s != "" }

func TestAnyEnvelopeComesBackAsItWas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := Incoming{Envelope: envelopes.Draw(t, "envelope"), Nonce: hostile.Draw(t, "nonce")}
		h, id, err := eventHeaders(&in, event.Identity{}, 0)
		require.NoError(t, err)
		require.Equal(t, headerSize(h.Header), h.size)
		back := overTheWire(t, h.Header)
		got, err := decodeEvent(back, in.Envelope.Data, 7, time.Unix(1, 0))
		require.NoError(t, err)
		require.Equal(t, in.Envelope, got.Envelope)
		require.Equal(t, in.Nonce, got.Nonce)

		want := event.Identity{}.Key(in.Envelope)
		if in.Envelope.IDSource == event.IDContent {
			want = event.ContentKey(in.Envelope.ID, 7)
			require.Equal(t, in.Envelope.ID, id)
		} else {
			require.Equal(t, string(want), id)
		}
		require.Equal(t, want, got.Ref.Key)
		require.Equal(t, event.Digest(in.Envelope.Data), got.Ref.Digest)
	})
}

func FuzzEnvelope(f *testing.F) {
	f.Add("acme", "shop", "1", "order.placed", "name", "value", []byte("{}"))
	f.Add("a\r\nX: y", "\x00", "%0D%0A", "..", "id", "\"quoted\" ", []byte(nil))
	f.Fuzz(func(t *testing.T, tenant, source, id, typ, name, value string, data []byte) {
		in := Incoming{Envelope: event.Envelope{
			Tenant: tenant, Source: source, ID: id, Type: typ, IDSource: event.IDHeader,
			Extensions: map[string]string{name: value}, Data: data,
		}}
		in.Envelope.Identify()
		h, _, err := eventHeaders(&in, event.Identity{}, 0)
		require.NoError(t, err)
		got, err := decodeEvent(overTheWire(t, h.Header), data, 1, time.Time{})
		require.NoError(t, err)
		require.Equal(t, in.Envelope, got.Envelope)
	})
}

func TestEventsAreCloudEventsInTheBinaryMode(t *testing.T) {
	in := Incoming{
		Nonce: "n", Headers: json.RawMessage("{\n  \"x-count\": {\"int64\": 3}\n}"),
		Envelope: event.Envelope{
			Tenant: "acme", Source: "/shop", ID: "A 234", IDSource: event.IDCloudEvents, Type: "order.placed",
			Subject: "Euro € 😀", OccurredAt: time.Date(2018, 4, 5, 17, 31, 0, 5e8, time.FixedZone("", 3600)),
			ContentType: "application/json", DataSchema: "urn:x", CorrelationID: "c", Traceparent: "00-ab-cd-01", Tracestate: "a=b",
			Extensions: map[string]string{"partitionkey": "p%", "type": "shadow", "Weird-Name": ""}, Data: []byte("{}"),
		},
	}
	h, _, err := eventHeaders(&in, event.Identity{IgnoreSource: true}, 0)
	require.NoError(t, err)
	flat := map[string]string{}
	for name, values := range h.Header {
		flat[name] = values[0]
	}
	require.Equal(t, map[string]string{
		"ce-specversion": "1.0", "ce-id": "A%20234", "ce-source": "/shop", "ce-type": "order.placed",
		"ce-subject": "Euro%20%E2%82%AC%20%F0%9F%98%80", "ce-time": "2018-04-05T16:31:00.5Z",
		"ce-datacontenttype": "application/json", "ce-dataschema": "urn:x",
		"ce-traceparent": "00-ab-cd-01", "ce-tracestate": "a=b", "ce-partitionkey": "p%25",
		"Tidings-Extension-type": "shadow", "Tidings-Extension-%57eird%2D%4Eame": "",
		"Nats-Msg-Id": string(event.NewKey("event", "acme", "A 234")), "Tidings-Tenant": "acme",
		"Tidings-Door": event.Digest([]byte("{}")) + " cloudevents n", "Tidings-Correlation-Id": "c",
		"Tidings-Amqp-Headers": `{"x-count":{"int64":3}}`,
	}, flat)
}

func TestWhatCannotBeAHeaderIsRefused(t *testing.T) {
	ok := event.Envelope{Tenant: "t", ID: "1"}
	for name, in := range map[string]Incoming{
		"AMQP headers that are not JSON":  {Envelope: ok, Headers: json.RawMessage(`{"a":`)},
		"AMQP headers that are not ASCII": {Envelope: ok, Headers: json.RawMessage(`{"a":"é"}`)},
		"a year of five digits":           {Envelope: event.Envelope{Tenant: "t", ID: "1", OccurredAt: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := eventHeaders(&in, event.Identity{}, 0)
			require.Error(t, err)
		})
	}
}

func TestHeadersOfRecordsAndLettersNeverBreakALine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := envelopes.Draw(t, "envelope")
		ref := event.Ref{Key: event.NewKey("x"), Tenant: e.Tenant, Source: e.Source, ID: e.ID, Type: e.Type, Traceparent: e.Traceparent}
		record := overTheWire(t, recordHeaders(event.NewRecord(ref, event.State{}, time.Now(), event.Settled{})))
		require.Equal(t, e.Tenant, getHeader(record, HeaderTenant))
		require.Equal(t, e.Type, getHeader(record, HeaderType))
		letter := event.Letter{Key: ref.Key, Tenant: e.Tenant, Cause: event.Cause(e.Subject), Event: &ref}
		require.Equal(t, e.Subject, getHeader(overTheWire(t, letterHeaders(letter, "n")), HeaderCause))
		w := Wakeup{Tenant: e.Tenant, Key: ref.Key, Sequence: 1 << 63}
		require.Equal(t, w, decodeWakeup(overTheWire(t, wakeupHeaders(w))))
	})
}
