package demo

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"tidings/cmd/internal/api"
	"tidings/examples"
	"tidings/store"
	"tidings/streams/event"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheSamplesEndAsExpectedOnRealParts(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	r, err := Run(t.Context(), Options{})
	require.NoError(t, err)
	require.True(t, r.OK, r.Summary())

	t.Run("and all seven outcomes are among them", func(t *testing.T) {
		seen := map[event.Outcome]bool{}
		for _, e := range r.Events {
			seen[e.Outcome] = true
			seen[event.DuplicateOutcome] = seen[event.DuplicateOutcome] || e.Duplicates > 0
		}
		for _, o := range append(event.Outcomes(), event.DuplicateOutcome) {
			require.True(t, seen[o], o)
		}
	})
	t.Run("and the JSON has the promised members and no others", func(t *testing.T) {
		data, err := json.Marshal(r)
		require.NoError(t, err)
		var got struct {
			Events          []map[string]any `json:"events"`
			DeadLetters     []map[string]any `json:"dead_letters"`
			SMTPReceived    *int             `json:"smtp_received"`
			WebhookReceived *int             `json:"webhook_received"`
			OK              *bool            `json:"ok"`
		}
		require.NoError(t, strict(data, &got))
		require.ElementsMatch(t, keys(got.Events[0]),
			[]string{"tenant", "source", "event_id", "id_source", "type", "outcome", "messages", "tries", "duplicates"})
		require.ElementsMatch(t, keys(got.Events[0]["messages"].(map[string]any)),
			[]string{"created", "delivered", "failed", "suppressed", "uncertain"})
		require.ElementsMatch(t, keys(got.DeadLetters[0]), []string{"key", "cause", "stage"})
	})
	t.Run("and nothing is left behind", func(t *testing.T) {
		left, err := filepath.Glob(filepath.Join(temp, "*"))
		require.NoError(t, err)
		require.Empty(t, left)
		_, err = os.Stat(temp)
		require.NoError(t, err)
	})
}

func TestJudge(t *testing.T) {
	samples := []sample{{
		Name: "one", Properties: map[string]string{"correlation_id": "c1"},
		Expect: expectation{Outcome: event.Processed, Messages: event.Counts{Created: 1, Delivered: 1}, Tries: 1},
	}, {
		Name: "rubbish", Properties: map[string]string{"correlation_id": "c2"},
		Expect: expectation{DeadLetter: event.CauseUndecodable},
	}}
	row := store.Row{
		CorrelationID: "c1", Outcome: event.Processed, Messages: event.Counts{Created: 1, Delivered: 1}, Tries: 1,
	}
	letter := api.LetterLine{Letter: store.Letter{Cause: event.CauseUndecodable}}
	require.True(t, judge(samples, []store.Row{row}, []api.LetterLine{letter}, 1, 0).OK)

	changed := func(change func(*store.Row)) []store.Row { r := row; change(&r); return []store.Row{r} }
	for name, r := range map[string]Report{
		"another outcome":              judge(samples, changed(func(r *store.Row) { r.Outcome = event.Failed }), []api.LetterLine{letter}, 1, 0),
		"a try too many":               judge(samples, changed(func(r *store.Row) { r.Tries = 2 }), []api.LetterLine{letter}, 2, 0),
		"a duplicate that nobody sent": judge(samples, changed(func(r *store.Row) { r.Duplicates = 1 }), []api.LetterLine{letter}, 1, 0),
		"no row":                       judge(samples, nil, []api.LetterLine{letter}, 0, 0),
		"two rows":                     judge(samples, []store.Row{row, row}, []api.LetterLine{letter}, 2, 0),
		"a row of nobody":              judge(samples, []store.Row{row, {CorrelationID: "x"}}, []api.LetterLine{letter}, 1, 0),
		"a row of what is no event":    judge(samples, []store.Row{row, {CorrelationID: "c2"}}, []api.LetterLine{letter}, 1, 0),
		"no dead letter":               judge(samples, []store.Row{row}, nil, 1, 0),
		"a mail too many":              judge(samples, []store.Row{row}, []api.LetterLine{letter}, 2, 0),
		"a call that never arrived":    judge(samples, []store.Row{row}, []api.LetterLine{letter}, 0, 0),
	} {
		t.Run(name+" is not as expected", func(t *testing.T) {
			require.False(t, r.OK)
			require.NotEmpty(t, r.Summary())
		})
	}
}

func TestSampleTimestampsAreRelative(t *testing.T) {
	samples, err := readSamples(examples.Files("shop"))
	require.NoError(t, err)
	require.Len(t, samples, 12)
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	msg, err := samples[0].publishing(now)
	require.NoError(t, err)
	require.Equal(t, now.Add(-2*time.Minute), msg.Timestamp.UTC())
}

func strict(data []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	return dec.Decode(v)
}

func keys(m map[string]any) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	return out
}
