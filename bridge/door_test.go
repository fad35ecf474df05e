package bridge_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/bridge"
	"tidings/streams"
	"tidings/streams/event"
	"tidings/streams/streamstest"
)

// porch is a door before a real log.
type porch struct {
	*world
	*bridge.Door
}

func newPorch(t *testing.T, change ...func(*bridge.DoorOptions)) porch {
	t.Helper()
	w := &world{T: t, log: streamstest.New(t), said: &recorder{}}
	o := bridge.DoorOptions{
		Events: w.log.Events, Letters: w.log.DeadLetters, Audit: w.log.Outcomes,
		Now: func() time.Time { return noon },
	}
	for _, c := range change {
		c(&o)
	}
	return porch{world: w, Door: bridge.NewDoor(o)}
}

func (p porch) accept(a bridge.Arrival) bridge.Receipt {
	p.Helper()
	r, err := p.Accept(p.Context(), a)
	require.NoError(p, err)
	return r
}

// arrival is an order with that id.
func arrival(id string) bridge.Arrival {
	data := []byte(`{"n":1}`)
	return bridge.Arrival{
		Envelope: event.Envelope{ID: id, IDSource: event.IDMessageID, Type: "order.placed", Source: "shop", Data: data},
		Delivery: event.Delivery{
			Queue: "orders", Exchange: "shop", RoutingKey: "order.placed",
			Properties: map[string]string{"content_type": "application/json"}, Headers: json.RawMessage(`{"n":{"I":1}}`),
		},
		Body: data, Where: "amqp queue orders", Stage: event.StageBridge,
	}
}

func TestDoorLetsEventsIn(t *testing.T) {
	t.Run("and says where they are", func(t *testing.T) {
		p := newPorch(t)
		r := p.accept(arrival("a"))
		require.Equal(t, bridge.Receipt{Key: event.Identity{}.Key(event.Envelope{Tenant: "default", Source: "shop", ID: "a"}), Sequence: 1}, r)
		stored := p.events()[0]
		require.Equal(t, r.Key, stored.Ref.Key)
		require.Equal(t, "default", stored.Envelope.Tenant)
		require.JSONEq(t, `{"n":{"I":1}}`, string(stored.Headers))
	})
	t.Run("that have no id but a time, under the same id each time", func(t *testing.T) {
		p := newPorch(t)
		a := arrival("")
		a.Envelope.OccurredAt = noon
		first, second := p.accept(a), p.accept(a)
		require.Equal(t, first.Key, second.Key)
		require.True(t, second.Duplicate)
		require.Equal(t, event.IDDerived, p.events()[0].Envelope.IDSource)
	})
	t.Run("that have neither id nor time, by their content", func(t *testing.T) {
		p := newPorch(t)
		first, second := p.accept(arrival("")), p.accept(arrival(""))
		require.Equal(t, first.Key, second.Key)
		require.True(t, second.Duplicate)
		require.Equal(t, event.IDContent, p.events()[0].Envelope.IDSource)
		require.Equal(t, event.ContentKey(p.events()[0].Envelope.ID, 1), first.Key)
	})
	t.Run("that are tests of an operator, apart from all others", func(t *testing.T) {
		p := newPorch(t)
		a := arrival("a")
		a.Envelope.Source, a.Test = event.TestSource, true
		require.Equal(t, event.TestKey("default", "a"), p.accept(a).Key)
		require.False(t, p.accept(arrival("a")).Duplicate)
		require.True(t, p.accept(a).Duplicate)
	})
	t.Run("from an hour ahead", func(t *testing.T) {
		p := newPorch(t)
		a := arrival("a")
		a.Envelope.OccurredAt = noon.Add(time.Hour)
		require.Empty(t, p.accept(a).Quarantined)
	})
}

func TestDoorKnowsEvents(t *testing.T) {
	t.Run("that come again: one audit entry, and no second copy", func(t *testing.T) {
		p := newPorch(t)
		first, second := p.accept(arrival("a")), p.accept(arrival("a"))
		require.Equal(t, bridge.Receipt{Key: first.Key, Sequence: first.Sequence, Duplicate: true}, second)
		require.Len(t, p.events(), 1)
		d := p.duplicates()[0]
		require.Len(t, p.duplicates(), 1)
		require.Equal(t, p.events()[0].Ref, d.Event)
		require.Equal(t, event.StageBridge, d.Stage)
		require.Equal(t, "amqp queue orders", d.Delivery)
		require.Equal(t, noon, d.At)
	})
	t.Run("that come again and again: an entry each", func(t *testing.T) {
		p := newPorch(t)
		for range 3 {
			p.accept(arrival("a"))
		}
		ids := map[string]bool{}
		for _, d := range p.duplicates() {
			ids[d.ID] = true
		}
		require.Len(t, ids, 2)
	})
	t.Run("that are its own repeat after a lost answer: no duplicate", func(t *testing.T) {
		p := newPorch(t)
		a := arrival("a")
		a.Nonce = event.NewNonce()
		first := p.accept(a)
		a.Again = true
		require.Equal(t, first, p.accept(a))
		require.Empty(t, p.duplicates())
	})
	t.Run("whose entry it could not write: the repeat is the same entry", func(t *testing.T) {
		var audit forgetful
		p := newPorch(t, func(o *bridge.DoorOptions) { audit.Audit = o.Audit; o.Audit = &audit })
		p.accept(arrival("a"))
		a := arrival("a")
		a.Nonce = event.NewNonce()
		_, err := p.Accept(t.Context(), a)
		require.ErrorIs(t, err, streams.ErrUnknown)
		p.accept(a)
		duplicates := p.duplicates()
		require.Len(t, duplicates, 2)
		require.Equal(t, duplicates[0].ID, duplicates[1].ID)
	})
	t.Run("that share an id and have another body: a dead letter for the second, once", func(t *testing.T) {
		p := newPorch(t)
		first := p.accept(arrival("a"))
		other := arrival("a")
		other.Envelope.Data = []byte(`{"n":2}`)
		other.Body = other.Envelope.Data
		r := p.accept(other)
		require.Equal(t, event.CauseIDConflict, r.Quarantined)
		require.Equal(t, event.ConflictKey(first.Key, event.Digest(other.Body)), r.Key)
		require.Equal(t, r, p.accept(other))
		letters := p.letters()
		require.Len(t, letters, 1)
		require.Equal(t, `{"n":2}`, string(letters[0].Data))
		require.Contains(t, letters[0].Detail, string(first.Key))
		require.Len(t, p.events(), 1)
		require.Empty(t, p.duplicates())
	})
	t.Run("even if their copy has ended and is gone", func(t *testing.T) {
		p := newPorch(t)
		first := p.accept(arrival("a"))
		p.accept(arrival("b"))
		require.NoError(t, p.log.Events.Trim(t.Context(), 2))
		second := p.accept(arrival("a"))
		require.True(t, second.Duplicate)
		require.Equal(t, first.Key, p.duplicates()[0].Event.Key)
		require.Equal(t, "a", p.duplicates()[0].Event.ID)
	})
	t.Run("with another body, also if their copy has ended and is gone", func(t *testing.T) {
		p := newPorch(t)
		first := p.accept(arrival("a"))
		ended := event.NewRecord(p.events()[0].Ref, event.State{}, noon, event.Planned{Nothing: event.NoRecipient}, event.Settled{})
		_, err := p.log.Outcomes.Append(t.Context(), ended, 0)
		require.NoError(t, err)
		p.accept(arrival("b"))
		require.NoError(t, p.log.Events.Trim(t.Context(), 2))
		other := arrival("a")
		other.Envelope.Data = []byte(`{"n":2}`)
		other.Body = other.Envelope.Data
		r := p.accept(other)
		require.Equal(t, event.CauseIDConflict, r.Quarantined)
		require.Equal(t, event.ConflictKey(first.Key, event.Digest(other.Body)), r.Key)
		require.Equal(t, `{"n":2}`, string(p.letters()[0].Data))
		require.True(t, p.accept(arrival("a")).Duplicate, "the event itself is still a repeat")
	})
	t.Run("also if their copy is gone, and their history knows no body", func(t *testing.T) {
		p := newPorch(t)
		p.accept(arrival("a"))
		ref := p.events()[0].Ref
		ref.Digest = ""
		restored := event.NewRecord(ref, event.State{}, noon, event.Restored{From: event.FromLedger}, event.Planned{Nothing: event.NoRecipient}, event.Settled{})
		_, err := p.log.Outcomes.Append(t.Context(), restored, 0)
		require.NoError(t, err)
		p.accept(arrival("b"))
		require.NoError(t, p.log.Events.Trim(t.Context(), 2))
		require.True(t, p.accept(arrival("a")).Duplicate)
		require.Empty(t, p.letters())
	})
	t.Run("from one source only as long as sources count", func(t *testing.T) {
		p := newPorch(t)
		other := arrival("a")
		other.Envelope.Source = "warehouse"
		require.NotEqual(t, p.accept(arrival("a")).Key, p.accept(other).Key)
	})
}

// forgetful loses its first answer.
type forgetful struct {
	bridge.Audit
	done bool
}

func (f *forgetful) AppendDuplicate(ctx context.Context, d event.Duplicate) error {
	err := f.Audit.AppendDuplicate(ctx, d)
	if !f.done {
		f.done = true
		return errors.Join(streams.ErrUnknown, err)
	}
	return err
}

func TestDoorQuarantines(t *testing.T) {
	quarantine := func(o *bridge.DoorOptions) { o.MissingID = bridge.MissingQuarantine }
	for name, c := range map[string]struct {
		a      func() bridge.Arrival
		cause  event.Cause
		detail string
	}{
		"what is no event": {func() bridge.Arrival {
			a := arrival("a")
			a.Err = errors.New("the body is not JSON")
			return a
		}, event.CauseUndecodable, "the body is not JSON"},
		"what has no id, where one is wanted": {func() bridge.Arrival {
			return arrival("")
		}, event.CauseMissingID, "it has no id, and events without one are refused here"},
		"what claims to occur more than an hour from now": {func() bridge.Arrival {
			a := arrival("a")
			a.Envelope.OccurredAt = noon.Add(time.Hour + time.Second)
			return a
		}, event.CauseFuture, "it claims to occur at 2026-05-01T13:00:01Z, more than 1h0m0s from now"},
		"what occurs in the year 9999": {func() bridge.Arrival {
			a := arrival("a")
			a.Envelope.OccurredAt = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
			return a
		}, event.CauseFuture, "it claims to occur at 9999-12-31T00:00:00Z, more than 1h0m0s from now"},
		"what claims the source of tests": {func() bridge.Arrival {
			a := arrival("a")
			a.Envelope.Source = event.TestSource
			return a
		}, event.CauseReservedSource, `the source "tidings:test" is reserved for the tests of operators: name another`},
		"what has too many headers": {func() bridge.Arrival {
			a := arrival("a")
			a.Delivery.Headers = json.RawMessage(`{"big":"` + strings.Repeat("x", 50_000) + `"}`)
			return a
		}, event.CauseHeadersTooLarge, "headers of"},
		"what is too large for an event": {func() bridge.Arrival {
			a := arrival("a")
			a.Body = bytes.Repeat([]byte("x"), 8<<20+1)
			a.Envelope.Data = a.Body
			return a
		}, event.CauseOversize, "payload of 8388609 bytes"},
		"what is too large for a letter": {func() bridge.Arrival {
			a := arrival("a")
			a.Body = bytes.Repeat([]byte("x"), 16<<20)
			a.Envelope.Data = a.Body
			return a
		}, event.CauseOversize, "payload of 16777216 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPorch(t, quarantine)
			a := c.a()
			r := p.accept(a)
			require.Equal(t, c.cause, r.Quarantined)
			require.True(t, r.Key.Valid())

			again := p.accept(c.a())
			require.Equal(t, r, again, "once, however often it comes")

			letters := p.letters()
			require.Len(t, letters, 1)
			l := letters[0]
			require.Equal(t, event.LetterDelivery, l.Kind)
			require.Contains(t, l.Detail, c.detail)
			require.Equal(t, noon, l.At)
			require.True(t, bytes.Equal(a.Body, p.payload(l)))
			require.Equal(t, a.Delivery, *l.Delivery)
			require.Equal(t, "order.placed", l.Envelope.Type)
			require.Empty(t, p.events())
		})
	}
	t.Run("what has larger attributes than an event, without them in the list", func(t *testing.T) {
		p := newPorch(t)
		large := strings.Repeat("ä", 5<<20)
		for name, body := range map[string]string{
			"a value":     `{"specversion":"1.0","id":"1","type":"t","subject":"` + large + `"}`,
			"an id":       `{"specversion":"1.0","type":"t","id":"` + large + `"}`,
			"an extra":    `{"specversion":"1.0","id":"1","type":"t","extra":"` + large + `"}`,
			"a bad name":  `{"specversion":"1.0","id":"1","type":"t","` + large + `":1}`,
			"a long name": `{"specversion":"1.0","id":"1","type":"t","` + strings.Repeat("a", 5<<20) + `":1}`,
		} {
			a := bridge.Arrival{Body: []byte(body), Stage: event.StageHTTP}
			a.Envelope, a.Err = bridge.FromHTTP(http.Header{"Content-Type": {bridge.TypeStructured}}, a.Body)
			r := p.accept(a)
			got, _, err := p.log.DeadLetters.Get(t.Context(), "default", r.Key)
			require.NoError(t, err, name)
			require.Equal(t, body, string(p.payload(got)), name)
			got.Data = nil
			listed, err := json.Marshal(got)
			require.NoError(t, err, name)
			require.Less(t, len(listed), 64<<10, name)
		}
	})
	t.Run("each for itself, where another has the same body", func(t *testing.T) {
		p := newPorch(t)
		for i, change := range []func(*event.Envelope){
			func(*event.Envelope) {},
			func(e *event.Envelope) { e.ID = "b" },
			func(e *event.Envelope) { e.Source = "till" },
			func(e *event.Envelope) { e.Type = "order.gone" },
			func(e *event.Envelope) { e.Tenant = "\xff" },
			func(e *event.Envelope) { e.OccurredAt = noon },
		} {
			a := arrival("a")
			a.Err = errors.New("no event")
			change(&a.Envelope)
			p.accept(a)
			require.Len(t, p.letters(), i+1)
		}
	})
	t.Run("under its tenant, if that can be one", func(t *testing.T) {
		for tenant, want := range map[string]string{"acme": "acme", "": "default", "\xff": "default", strings.Repeat("t", 256): "default"} {
			p := newPorch(t)
			a := arrival("a")
			a.Envelope.Tenant, a.Err = tenant, errors.New("no event")
			p.accept(a)
			require.Equal(t, want, p.letters()[0].Tenant)
		}
	})
}

func TestDoorStaysShut(t *testing.T) {
	broken := errors.New("no server")
	t.Run("when the event cannot be stored", func(t *testing.T) {
		p := newPorch(t, func(o *bridge.DoorOptions) {
			o.Events = &gatedEvents{Events: o.Events, ask: func(context.Context, event.Envelope) error { return broken }}
		})
		_, err := p.Accept(t.Context(), arrival("a"))
		require.ErrorIs(t, err, broken)
	})
	t.Run("when the dead letter cannot be stored", func(t *testing.T) {
		p := newPorch(t, func(o *bridge.DoorOptions) { o.Letters = noLetters{broken} })
		a := arrival("a")
		a.Err = errors.New("no event")
		_, err := p.Accept(t.Context(), a)
		require.ErrorIs(t, err, broken)
	})
}

type noLetters struct{ err error }

func (n noLetters) Put(context.Context, event.Letter) (uint64, bool, error) { return 0, false, n.err }

func TestReadSaysWhatIsTooLargeBeforeItIsOffered(t *testing.T) {
	p := newPorch(t)
	body, headers := arrival("1"), arrival("2")
	body.Envelope.Data = make([]byte, streams.MaxData+1)
	body.Nonce = event.NewNonce()
	headers.Delivery.Headers = json.RawMessage(`{"big":{"S":"` + strings.Repeat("h", streams.MaxHeaders) + `"}}`)
	headers.Nonce = event.NewNonce()
	for cause, a := range map[event.Cause]bridge.Arrival{event.CauseOversize: body, event.CauseHeadersTooLarge: headers} {
		t.Run(string(cause), func(t *testing.T) {
			_, _, err := p.Read(a)
			_, offered := p.Offer(t.Context(), a)

			refused, ok := errors.AsType[*bridge.RefusedError](err)
			require.True(t, ok, "%v", err)
			require.Equal(t, cause, refused.Cause)
			require.Equal(t, offered, err)
		})
	}
}
