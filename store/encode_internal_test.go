package store

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tidings/streams/event"
)

// fill draws every field of a row and of an entry.
type fill struct{ *rapid.T }

func (f fill) text() string {
	return rapid.OneOf(rapid.SampledFrom([]string{"", "order-1", `<"ä\>`, "\x00\xff\u2028&"}), rapid.String()).Draw(f.T, "text")
}

func (f fill) int() int { return rapid.SampledFrom([]int{0, 1, -1, 1 << 60}).Draw(f.T, "number") }

func (f fill) time() time.Time {
	return rapid.SampledFrom([]time.Time{
		{},
		time.Unix(1, 2).UTC(), time.Unix(1, 0).In(time.FixedZone("", 7200)), time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC),
		time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC), time.Unix(1, 0).In(time.FixedZone("", 25*3600)),
	}).Draw(f.T, "time")
}

func (f fill) row() Row {
	return Row{
		Key: event.Key(f.text()), Tenant: f.text(), Source: f.text(), Test: rapid.Bool().Draw(f.T, "test"), EventID: f.text(),
		IDSource: event.IDSource(f.text()), Type: f.text(), CorrelationID: f.text(), AMQPMessageID: f.text(),
		Outcome: event.Outcome(f.text()), Phase: event.Phase(f.text()), Cause: event.Cause(f.text()),
		Messages: event.Counts{Created: f.int(), Delivered: f.int(), Failed: f.int(), Suppressed: f.int(), Uncertain: f.int()},
		Tries:    f.int(), Duplicates: f.int(), Generation: f.int(), Round: f.int(), Crashes: f.int(), Revision: f.int(),
		Due: f.time(), OccurredAt: f.time(), ReceivedAt: f.time(), StartedAt: f.time(), ChangedAt: f.time(),
		Sequence: uint64(f.int()), RecordSequence: uint64(f.int()),
	}
}

func (f fill) entry() Entry {
	return Entry{
		Sequence: uint64(f.int()), StoredAt: f.time(), Key: event.Key(f.text()), Kind: event.Kind(f.text()), ID: f.text(), At: f.time(),
		Revision: f.int(), Generation: f.int(), Phase: event.Phase(f.text()), Outcome: event.Outcome(f.text()),
		Facts: rapid.SampledFrom([]event.Facts{nil, {}, {event.Settled{}}, {event.GaveUp{Message: "m", Reason: "held"}, event.Settled{}}}).Draw(f.T, "facts"),
	}
}

func TestWhatIsWrittenIsWhatEncodingJSONMakesOfIt(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		row, entry := fill{rt}.row(), fill{rt}.entry()
		got, err := appendRow(nil, &row)
		requireSame(rt, row, got, err)
		facts, err := encodeJSON(entry.Facts)
		require.NoError(rt, err)
		got, err = appendRecordEntry([]byte("before"), entry, facts)
		if err == nil {
			require.Equal(rt, "before", string(got[:6]))
			got = got[6:]
		}
		requireSame(rt, entry, got, err)
	})
}

// requireSame compares what an encoder made of v with what encoding/json makes of it.
func requireSame(t require.TestingT, v any, got []byte, err error) {
	want, wantErr := json.Marshal(v)
	if wantErr != nil {
		require.Error(t, err)
		return
	}
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}

func TestStoredRowsComeBack(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		row := Row{EventID: rapid.String().Draw(rt, "id")}
		messages := rapid.String().Draw(rt, "messages")
		records := rapid.SliceOfN(rapid.Uint64(), 0, 5).Draw(rt, "records")
		sorted := sortedOnce(records)
		want, err := json.Marshal(row)
		require.NoError(rt, err)
		value := appendStored(nil, want, sorted, 0, messages)
		got, err := splitStored(value)
		require.NoError(rt, err)
		require.Equal(rt, string(want), string(got.row))
		require.Equal(rt, messages, string(got.messages))
		require.Equal(rt, sorted, got.sequences())
		for n := range value[:len(value)-len(messages)] {
			_, err := splitStored(value[:n])
			require.ErrorIs(rt, err, errStored)
		}
	})
}

func sortedOnce(list []uint64) []uint64 {
	slices.Sort(list)
	if len(list) == 0 {
		return nil
	}
	return slices.Compact(list)
}
