package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/cmd/internal/api"
	"tidings/streams/event"
	"tidings/streams/streamstest"
)

// oddity is a request that is bad, or only looks like it, and what becomes of it.
type oddity struct {
	headers []string // as they are written, "name: value"
	body    string
	// Of an event: its attributes, and its subject in EVENTS. The id is that of
	// the content if it is empty.
	id, typ, subject string
	occurred         time.Time
	// Of a dead letter: why, and how that is said in words.
	cause  event.Cause
	detail string
	// Of a request that is refused: the status, and what it says.
	status int
	says   string
}

// binary is a CloudEvent in binary mode with an id and a type, percent-encoded.
func binary(id, typ string, more ...string) []string {
	return append([]string{"ce-specversion: 1.0", "ce-id: " + id, "ce-type: " + typ}, more...)
}

// simple is no CloudEvent, but has the headers of an event.
func simple(headers ...string) []string { return append(headers, "event-type: order.placed") }

const usual = "events.default.order.placed"

// oddities is everything that a client may send by mistake, and what becomes of it.
func oddities() map[string]oddity {
	long, longType := strings.Repeat("i", 4000), strings.Repeat("t", 5000)
	manyHeaders := simple()
	for i := range 10_000 {
		manyHeaders = append(manyHeaders, fmt.Sprintf("h%04d: x", i))
	}
	structured := []string{"content-type: application/cloudevents+json"}
	list := map[string]oddity{
		"an empty body":                             {headers: simple("event-id: i"), id: "i", typ: "order.placed", subject: usual},
		"nothing at all":                            {cause: event.CauseUndecodable, detail: "it has no type"},
		"an empty body that should be JSON":         {headers: simple("event-id: i", "content-type: application/json"), id: "i", typ: "order.placed", subject: usual},
		"an empty body that should be a CloudEvent": {headers: structured, cause: event.CauseUndecodable, detail: "the body is no JSON object"},
		"a body of 16 MiB": {
			headers: simple(), body: strings.Repeat("x", 16<<20),
			status: http.StatusRequestEntityTooLarge, says: "the body has more than 8 MiB",
		},
		"10,000 headers": {headers: manyHeaders, status: http.StatusRequestHeaderFieldsTooLarge},
		"200 kB of headers": {
			headers: simple("h: " + strings.Repeat("x", 200_000)), status: http.StatusRequestHeaderFieldsTooLarge,
		},
		"50 kB of headers of an event": {
			headers: binary("i", "t", "ce-subject: "+strings.Repeat("x", 50_000)), body: "x",
			cause: event.CauseHeadersTooLarge, detail: "headers of",
		},
		"50 kB of attributes in the body": {
			headers: structured, body: `{"specversion":"1.0","id":"i","type":"t","subject":"` + strings.Repeat("x", 50_000) + `"}`,
			cause: event.CauseHeadersTooLarge, detail: "headers of",
		},
		"a header that is not UTF-8":               {headers: simple("event-id: i", "h: \xff"), id: "i", typ: "order.placed", subject: usual},
		"an id that is not UTF-8":                  {headers: simple("event-id: \xff"), body: "x", cause: event.CauseUndecodable, detail: "the id is not UTF-8"},
		"an id that is not UTF-8, percent-encoded": {headers: binary("%FF", "t"), body: "x", cause: event.CauseUndecodable, detail: "the id is not UTF-8"},
		"CR in a header":                           {headers: simple("event-id: a\rb"), status: http.StatusBadRequest},
		"LF in a header, which ends it":            {headers: simple("event-id: i\nh: b"), id: "i", typ: "order.placed", subject: usual},
		"NUL in a header":                          {headers: simple("event-id: a\x00b"), status: http.StatusBadRequest},
		"a time of year 0": {
			headers: simple("event-id: i", "occurred-at: 0000-01-01T00:00:00Z"),
			id:      "i", typ: "order.placed", subject: usual, occurred: time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC),
		},
		"a time of year 9999": {
			headers: binary("i", "t", "ce-time: 9999-12-31T23:59:59Z"),
			cause:   event.CauseFuture, detail: "it claims to occur at 9999-12-31T23:59:59Z",
		},
		"the source of tests": {
			headers: simple("event-id: i", "event-source: "+event.TestSource), body: "x",
			cause: event.CauseReservedSource, detail: `the source "tidings:test" is reserved`,
		},
		"the source of tests in a CloudEvent": {
			headers: structured, body: `{"specversion":"1.0","id":"i","type":"t","source":"tidings:test","tidingstestto":"me@example.com"}`,
			cause: event.CauseReservedSource, detail: `the source "tidings:test" is reserved`,
		},
		"an id of 0 bytes":                 {headers: simple("event-id: "), body: "x", typ: "order.placed", subject: usual},
		"an id of 0 bytes in a CloudEvent": {headers: binary("", "t"), cause: event.CauseUndecodable, detail: "the required attribute id is missing"},
		"an id of 1 byte":                  {headers: binary("i", "t"), id: "i", typ: "t", subject: "events.default.t"},
		"an id of 4,000 bytes":             {headers: binary(long, "t"), id: long, typ: "t", subject: "events.default.t"},
		"a type of 5,000 bytes": {
			headers: binary("i", longType), id: "i", typ: longType,
			subject: "events.default." + longType[:255-23] + "~" + string(event.NewKey("cut", longType)),
		},
		"a type of 0 bytes":         {headers: []string{"event-id: i", "event-type: "}, cause: event.CauseUndecodable, detail: "it has no type"},
		"a type with an empty word": {headers: binary("i", "a..b"), id: "i", typ: "a..b", subject: "events.default.a.~.b"},
		"a type that ends in a dot": {headers: binary("i", "a.b."), id: "i", typ: "a.b.", subject: "events.default.a.b.~"},
	}
	for name, c := range map[string]string{"a blank": " ", "a star": "*", "a >": ">", "CR and LF": "\r\n", "a NUL": "\x00"} {
		coded := ""
		for _, b := range []byte(c) {
			coded += fmt.Sprintf("%%%02X", b)
		}
		want := oddity{headers: binary("i"+coded, "t"+coded), id: "i" + c, typ: "t" + c, subject: "events.default.t" + coded}
		list["id and type with "+name] = want
		id, _ := json.Marshal("i" + c)
		typ, _ := json.Marshal("t" + c)
		want.headers, want.body = structured, fmt.Sprintf(`{"specversion":"1.0","id":%s,"type":%s}`, id, typ)
		list["id and type in the body with "+name] = want
	}
	return list
}

func TestBadInput(t *testing.T) {
	for name, c := range oddities() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.withLog(streamstest.New(t))
			status, answer := w.post(c)
			switch {
			case c.status != 0:
				require.Equal(t, c.status, status)
				require.Contains(t, answer, c.says)
				w.hasCounts(0, 0, 0)
			case c.cause != "":
				require.Equal(t, http.StatusAccepted, status, answer)
				w.isLetter(c, answer)
			default:
				require.Equal(t, http.StatusAccepted, status, answer)
				w.isEvent(c, answer)
			}
		})
	}
}

// post writes a request as it is, to the server as it runs for others.
func (w *world) post(c oddity) (status int, answer string) {
	w.t.Helper()
	l, err := api.Listen(w.t.Context(), "127.0.0.1:0")
	require.NoError(w.t, err)
	s, err := api.New(w.options)
	require.NoError(w.t, err)
	streamstest.Run(w.t, func(ctx context.Context) error { return s.Run(ctx, l) })
	conn, err := net.Dial("tcp", l.Addr().String())
	require.NoError(w.t, err)
	defer conn.Close()
	head := fmt.Sprintf("POST /v1/events HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n", token, len(c.body))
	go func() { // it may be answered before all of it is read
		_, _ = conn.Write([]byte(head + strings.Join(append(c.headers, "x: y"), "\r\n") + "\r\n\r\n" + c.body))
	}()
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(w.t, err)
	defer res.Body.Close()
	return res.StatusCode, text(w.t, res)
}

// isEvent checks that what was answered is an event, the only thing in the log.
func (w *world) isEvent(want oddity, answer string) {
	w.t.Helper()
	w.hasCounts(1, 0, 0)
	got, err := w.stream.Events.Get(w.t.Context(), 1)
	require.NoError(w.t, err)
	require.JSONEq(w.t, fmt.Sprintf(`{"key":%q,"sequence":1,"duplicate":false}`, got.Ref.Key), answer)
	if want.id == "" {
		want.id = event.ContentHash("default", "", want.typ, []byte(want.body))
	}
	require.Equal(w.t, want.id, got.Envelope.ID)
	require.Equal(w.t, want.typ, got.Envelope.Type)
	require.Equal(w.t, want.occurred, got.Envelope.OccurredAt)
	entry, err := w.stream.Events.Entry(w.t.Context(), 1)
	require.NoError(w.t, err)
	require.Equal(w.t, want.subject, entry.Subject)
}

// isLetter checks that what was answered is a dead letter, the only thing in the log.
func (w *world) isLetter(want oddity, answer string) {
	w.t.Helper()
	w.hasCounts(0, 1, 0)
	var accepted api.Accepted
	require.NoError(w.t, json.Unmarshal([]byte(answer), &accepted))
	require.Equal(w.t, want.cause, accepted.Quarantined)
	got, _, err := w.stream.DeadLetters.Get(w.t.Context(), event.DefaultTenant, accepted.Key)
	require.NoError(w.t, err)
	require.Equal(w.t, want.cause, got.Cause)
	require.Contains(w.t, got.Detail, want.detail)
	require.Equal(w.t, want.body, string(got.Data))
	for _, h := range want.headers {
		name, value, _ := strings.Cut(h, ": ")
		if name == "content-type" {
			name = "content_type"
		}
		if value != "" {
			require.Equal(w.t, kept(value), got.Delivery.Properties[name])
		}
	}
}

// kept is how a letter keeps a value that JSON could not.
func kept(value string) string {
	if value == "\xff" {
		return "\x00/w=="
	}
	return value
}
