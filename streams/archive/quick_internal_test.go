package archive

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tidings/streams"
)

// slowEntry is how any JSON is read.
func slowEntry(line []byte) (string, streams.Entry, error) {
	l, err := decode[entryLine](line)
	if err != nil {
		return "", streams.Entry{}, err
	}
	e, err := l.entry()
	return l.Stream, e, err
}

func drawEntry(t *rapid.T) streams.Entry {
	text := rapid.OneOf(rapid.StringMatching(`[a-zA-Z0-9_.-]{1,12}`), rapid.SampledFrom([]string{`a"b`, `a\b`, "ü", "\xff", " "}))
	e := streams.Entry{
		Sequence: rapid.Uint64Min(1).Draw(t, "sequence"),
		Time:     time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "seconds"), rapid.Int64Range(0, 999999999).Draw(t, "nanoseconds")).UTC(),
		Subject:  rapid.SampledFrom([]string{"outcomes.acme.x", "audit.a%20b", "plans.\xff", "dead.ü.x"}).Draw(t, "subject"),
		Data: []byte(rapid.SampledFrom([]string{
			"", "{}", `{"a":1}`, `{"a":{"b":"}}"}}`, `{"a":"\\","data":{}}`, `{"a":1} `, "{\n}", "[1]", "null", "x", `{"a":"ü"}`, "{\"a\":\"\xff\"}",
		}).Draw(t, "data")),
	}
	for _, name := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"Tidings-Kind", "X", "Ü", "Y\"", "\xff", "data"}), rapid.ID).Draw(t, "names") {
		if e.Header == nil {
			e.Header = nats.Header{}
		}
		e.Header[name] = rapid.SliceOfN(text, 1, 3).Draw(t, "values")
	}
	return e
}

func TestAnEntryIsReadAsItWasWritten(t *testing.T) {
	quickly := 0
	rapid.Check(t, func(t *rapid.T) {
		want := drawEntry(t)
		line := appendEntry(nil, streams.OutcomesStream, want)
		stream, have, err := decodeEntry(line)
		require.NoError(t, err)
		require.Equal(t, streams.OutcomesStream, stream)
		if len(want.Data) == 0 {
			want.Data = have.Data
			require.Empty(t, have.Data)
		}
		require.Equal(t, want, have)
		_, slow, err := slowEntry(line)
		require.NoError(t, err)
		require.Equal(t, slow, have, "both ways are one")
		if _, _, ok := quickEntry(line); ok {
			quickly++
		}
	})
	require.Positive(t, quickly)
}

func FuzzQuickEntry(f *testing.F) {
	for _, e := range []streams.Entry{
		{Sequence: 1, Time: time.Unix(1, 2), Subject: "audit.x", Data: []byte(`{"a":1}`), Header: nats.Header{"A": {"b", "c"}, "D": {"e"}}},
		{Sequence: 2, Time: time.Unix(1, 0), Subject: "audit.x", Data: []byte(`{}`)},
	} {
		f.Add(appendEntry(nil, streams.OutcomesStream, e))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		stream, have, ok := quickEntry(line)
		if !ok {
			return
		}
		slowStream, slow, err := slowEntry(line)
		if err != nil || !isObject(have.Data) {
			return // somebody's idea of a line, which is checked as an entry later
		}
		if strings.Count(string(line), `"data":`) > 1 {
			return
		}
		require.Equal(t, slowStream, stream)
		require.Equal(t, slow, have)
	})
}
