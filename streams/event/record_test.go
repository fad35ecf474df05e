package event_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/streams/event"
)

func TestKindIsThePhaseThatTheRecordLedTo(t *testing.T) {
	held := history(claimA)
	planHeld := history(claimA, change{plan(hold)})
	settled := history(claimA, change{plan(hold), tried("m1", event.TryUnknown), gaveUp("m1", "held"), settle})
	for name, c := range map[string]struct {
		before event.State
		facts  change
		want   event.Kind
	}{
		"claimed when a process takes it":                {event.State{}, claimA, event.KindClaimed},
		"claimed when it is taken over":                  {held, change{crashed("r1"), claimed(ownerB)}, event.KindClaimed},
		"claimed when results come with the next claim":  {planHeld, change{tried("m1", event.TryTransient), claimed(ownerA)}, event.KindClaimed},
		"claimed when the plan is frozen":                {held, change{plan(hold)}, event.KindClaimed},
		"opened when a claim ends without a new one":     {held, change{crashed("r1")}, event.KindOpened},
		"opened when it is requeued":                     {settled, change{event.Requeued{Generation: 1}}, event.KindOpened},
		"waiting until it is due":                        {planHeld, change{tried("m1", event.TryTransient), waiting(1, at(9), event.WaitRetry)}, event.KindWaiting},
		"settled at the end":                             {planHeld, change{tried("m1", event.TryDelivered), settle}, event.KindSettled},
		"settled at the end of another generation":       {settled, change{event.Requeued{Generation: 1}, claimed(ownerA), settle}, event.KindSettled},
		"dead at the other end":                          {planHeld, change{event.Dead{Cause: event.CausePanic}}, event.KindDead},
		"late when results come after a takeover":        {planHeld, change{tried("m1", event.TryDelivered)}, event.KindLate},
		"late when results come after the end":           {settled, change{tried("m1", event.TryDelivered)}, event.KindLate},
		"late when decisions come after the end":         {settled, change{event.Dead{Cause: event.CausePanic}}, event.KindLate},
		"settled when it is discarded":                   {history(claimA, change{event.Dead{Cause: event.CausePanic}}), change{event.Discarded{Operator: "ann", Reason: "a test"}}, event.KindSettled},
		"as its state when it is restored":               {settled, change{event.Restored{State: event.State{Phase: event.PhaseWaiting, Revision: 7}}}, event.KindWaiting},
		"late when a requeue does not open a generation": {settled, change{event.Requeued{Generation: 7}}, event.KindLate},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, event.NewRecord(orderRef(), c.before, t0, c.facts...).Kind)
		})
	}
}

func TestNewRecord(t *testing.T) {
	r := event.NewRecord(orderRef(), event.State{}, t0.In(time.FixedZone("", 7200)), claimA...)
	require.Regexp(t, keyForm, r.ID)
	require.Equal(t, event.Schema, r.Schema)
	require.Equal(t, t0, r.At, "records are in UTC")
	require.Equal(t, r.ID, r.State.Claim.ID, "the claim is known by its record")
	require.False(t, r.Final())

	t.Run("has a new id each time", func(t *testing.T) {
		require.NotEqual(t, r.ID, event.NewRecord(orderRef(), event.State{}, t0, claimA...).ID)
	})
	t.Run("is final when it ends the event", func(t *testing.T) {
		require.True(t, event.NewRecord(orderRef(), r.State, t0, settle).Final())
		require.True(t, event.NewRecord(orderRef(), r.State, t0, event.Dead{Cause: event.CausePanic}).Final())
	})
	t.Run("made by the clock of the machine reads back as it was", func(t *testing.T) {
		r := event.NewRecord(orderRef(), event.State{}, time.Now(), claimA...)
		data, err := event.EncodeRecord(r)
		require.NoError(t, err)
		back, err := event.DecodeRecord(data)
		require.NoError(t, err)
		require.Equal(t, r, back)
	})
}

func TestFoldOfAHistory(t *testing.T) {
	records := sampleRecords()
	var s event.State
	for _, r := range records {
		next, err := s.Fold(r)
		require.NoError(t, err)
		require.Equal(t, r.State, next, "a reader comes to the state that the record says")
		s = next
	}
	t.Run("a record that was seen changes nothing", func(t *testing.T) {
		for _, r := range records {
			again, err := s.Fold(r)
			require.NoError(t, err)
			require.Equal(t, s, again)
		}
	})
	t.Run("a missing record is a gap", func(t *testing.T) {
		same, err := records[0].State.Fold(records[2])
		require.ErrorIs(t, err, event.ErrGap)
		require.ErrorContains(t, err, records[2].ID)
		require.Equal(t, records[0].State, same)

		_, err = event.State{}.Fold(records[1])
		require.ErrorIs(t, err, event.ErrGap, "the first records are missing")
	})
}

func TestDuplicateIsOneEntryPerCopy(t *testing.T) {
	entry := func(stage event.Stage, stream string, sequence uint64, nonce string) event.Duplicate {
		return event.NewDuplicate(orderRef(), stage, stream, sequence, nonce, "amqp queue orders", t0)
	}
	first := entry(event.StageDispatcher, "EVENTS", 7, "")
	require.Equal(t, first, entry(event.StageDispatcher, "EVENTS", 7, ""), "a repeat is the same entry")
	require.Equal(t, event.KindDuplicate, first.Kind)
	require.Equal(t, 1, first.Count)
	require.Equal(t, time.UTC, entry(event.StageBridge, "EVENTS", 7, "").At.Location())

	other := event.NewDuplicate(event.Ref{Key: event.NewKey("other")}, event.StageDispatcher, "EVENTS", 7, "", "", t0)
	for name, id := range map[string]string{
		"another stage":    entry(event.StageBridge, "EVENTS", 7, "").ID,
		"another stream":   entry(event.StageDispatcher, "RETRIES", 7, "").ID,
		"another copy":     entry(event.StageDispatcher, "EVENTS", 8, "").ID,
		"another delivery": entry(event.StageDispatcher, "EVENTS", 7, "nonce").ID,
		"another event":    other.ID,
	} {
		t.Run(name+" is another entry", func(t *testing.T) { require.NotEqual(t, first.ID, id) })
	}
}

// newerFact is what a later version may write: blanks apart, every byte of it
// is to be kept, the order of members, escapes and numbers beyond float64 too.
const newerFact = `{"b":"<a href=\"x\">&</a> \u00e9 é","fact":"praised","n":123456789012345678901234567890.10,"a":[null,{}]}`

func newerRecord(t fataler) []byte {
	t.Helper()
	data, err := event.EncodeRecord(sampleRecords()[0])
	require.NoError(t, err)
	text := strings.Replace(string(data), `"schema":1`, `"schema":2,"new":{"x":1}`, 1)
	return []byte(strings.Replace(text, `"facts":[`, `"facts":[`+newerFact+`,`, 1))
}

func TestRecordOfALaterVersion(t *testing.T) {
	data := newerRecord(t)
	r, err := event.DecodeRecord(data)
	require.NoError(t, err)

	t.Run("is read, with the fact that is not known as it is", func(t *testing.T) {
		require.Equal(t, 2, r.Schema)
		require.Equal(t, event.UnknownFact{Kind: "praised", Raw: []byte(newerFact)}, r.Facts[0])
		require.IsType(t, event.Claimed{}, r.Facts[1])
	})
	t.Run("keeps that fact byte for byte when it is written again", func(t *testing.T) {
		again, err := event.EncodeRecord(r)
		require.NoError(t, err)
		require.Contains(t, string(again), `"facts":[`+newerFact+`,{"fact":"claimed"`)
	})
	t.Run("folds by the facts that are known", func(t *testing.T) {
		s, err := event.State{}.Fold(r)
		require.NoError(t, err)
		require.Equal(t, event.PhaseClaimed, s.Phase)
	})
	t.Run("follows the schema", func(t *testing.T) {
		require.NoError(t, validate(t, compile(t, "record"), string(data)))
	})
}

func TestEncodeRefusesAnUnknownFactWithoutJSON(t *testing.T) {
	for name, raw := range map[string]string{"none": "", "broken": `{"fact":`} {
		t.Run(name, func(t *testing.T) {
			r := sampleRecords()[0]
			r.Facts = event.Facts{event.UnknownFact{Kind: "praised", Raw: json.RawMessage(raw)}}
			_, err := event.EncodeRecord(r)
			require.ErrorContains(t, err, r.ID)
		})
	}
}

func TestDecodeRefusesWhatIsNoRecord(t *testing.T) {
	good, err := event.EncodeRecord(sampleRecords()[0])
	require.NoError(t, err)
	for name, text := range map[string]string{
		"nothing":                             "",
		"no JSON":                             "hello",
		"another document":                    `{"id":"x"}`,
		"a duplicate":                         encode(t, sampleDuplicate()),
		"a key that is none":                  strings.Replace(string(good), `"key":"`, `"key":"..`, 1),
		"a state without a revision":          strings.Replace(string(good), `"revision":1`, `"revision":0`, 1),
		"a fact without its kind":             strings.Replace(string(good), `"fact":`, `"fakt":`, 1),
		"a fact that is no object":            strings.Replace(string(good), `"facts":[`, `"facts":[7,`, 1),
		"a fact with a field of another type": strings.Replace(string(good), `"round":0`, `"round":"x"`, 1),
	} {
		t.Run(name, func(t *testing.T) {
			require.NotEqual(t, string(good), text)
			_, err := event.DecodeRecord([]byte(text))
			require.ErrorContains(t, err, "decode record")
		})
	}
}

// FuzzDecodeRecord: an error, or a record that can be written, read and folded.
func FuzzDecodeRecord(f *testing.F) {
	files, err := filepath.Glob(goldenFile("*"))
	require.NoError(f, err)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(data)
	}
	f.Add(newerRecord(f))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := event.DecodeRecord(data)
		if err != nil {
			return
		}
		first, err := event.EncodeRecord(r)
		require.NoError(t, err)
		again, err := event.DecodeRecord(first)
		require.NoError(t, err)
		second, err := event.EncodeRecord(again)
		require.NoError(t, err)
		require.Equal(t, string(first), string(second))

		before := event.State{Revision: r.State.Revision - 1}
		_, err = before.Fold(r)
		require.NoError(t, err)
		next := event.NewRecord(r.Event, r.State, t0, r.Facts...)
		require.Equal(t, r.State.Revision+1, next.State.Revision)
	})
}

func TestFactsThatAreNoneAreRefused(t *testing.T) {
	data, err := event.EncodeRecord(sampleRecords()[0])
	require.NoError(t, err)
	for name, fact := range map[string]string{
		"nothing":             `null`,
		"a text":              `"claimed"`,
		"one without a kind":  `{"round":1}`,
		"one of another form": `{"fact":"claimed","round":"first"}`,
		"one that is cut off": `{"fact":"claimed`,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := event.DecodeRecord([]byte(strings.Replace(string(data), `"facts":[`, `"facts":[`+fact+`,`, 1)))
			require.Error(t, err)
			require.Error(t, new(event.Facts).UnmarshalJSON([]byte(`[`+fact+`]`)))
		})
	}
}
