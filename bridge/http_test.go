package bridge_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"tidings/bridge"
	"tidings/streams/event"
)

func TestFromHTTP(t *testing.T) {
	t.Run("reads a binary CloudEvent, percent-decoded", func(t *testing.T) {
		e, err := bridge.FromHTTP(http.Header{
			"Content-Type": {"application/json"}, "Ce-Specversion": {"1.0"}, "Ce-Id": {"a%20b"}, "Ce-Type": {`"quoted \"t\""`},
			"Ce-Source": {"/shop"}, "Ce-Time": {"2026-05-01T12:00:00Z"}, "Ce-Tenantid": {"acme"}, "Ce-Name": {"%E2%82%AC"},
			"Traceparent": {"00-a-b-01"}, "Tracestate": {"a=1"}, "X-Other": {"1"},
		}, []byte(`{"n":1}`))
		require.NoError(t, err)
		require.Equal(t, event.Envelope{
			Tenant: "acme", Source: "/shop", ID: "a b", IDSource: event.IDCloudEvents, Type: `quoted "t"`, OccurredAt: noon,
			ContentType: "application/json", Traceparent: "00-a-b-01", Tracestate: "a=1",
			Extensions: map[string]string{"name": "€"}, Data: []byte(`{"n":1}`),
		}, e)
	})
	t.Run("reads a structured CloudEvent", func(t *testing.T) {
		e, err := bridge.FromHTTP(http.Header{"Content-Type": {"application/cloudevents+json"}},
			[]byte(`{"specversion":"1.0","id":"1","source":"/s","type":"t","data":{"a":1}}`))
		require.NoError(t, err)
		require.Equal(t, "1", e.ID)
		require.Equal(t, `{"a":1}`, string(e.Data))
		require.Equal(t, "application/json", e.ContentType)
	})
	for name, c := range map[string]struct {
		header http.Header
		body   string
		want   string
	}{
		"no CloudEvent":       {http.Header{"Content-Type": {"application/json"}}, "{}", "this is no CloudEvent: send the header ce-specversion"},
		"no id":               {http.Header{"Ce-Specversion": {"1.0"}, "Ce-Type": {"t"}}, "", "the required attribute id is missing"},
		"half a percent":      {http.Header{"Ce-Specversion": {"1.0"}, "Ce-Type": {"t"}, "Ce-Id": {"%2"}}, "", "header ce-id"},
		"bytes not UTF-8":     {http.Header{"Ce-Specversion": {"1.0"}, "Ce-Type": {"t"}, "Ce-Id": {"%FF"}}, "", "the id is not UTF-8"},
		"two ids":             {http.Header{"Ce-Specversion": {"1.0"}, "Ce-Type": {"t"}, "Ce-Id": {"1", "2"}}, "", "header ce-id: it is given more than once"},
		"a batch":             {http.Header{"Content-Type": {"application/cloudevents-batch+json"}}, "[]", "send one event as"},
		"JSON that is broken": {http.Header{"Ce-Specversion": {"1.0"}, "Ce-Type": {"t"}, "Ce-Id": {"1"}, "Content-Type": {"application/json"}}, "{", "the body is not JSON"},
	} {
		t.Run("refuses "+name, func(t *testing.T) {
			_, err := bridge.FromHTTP(c.header, []byte(c.body))
			require.ErrorContains(t, err, c.want)
		})
	}
}
