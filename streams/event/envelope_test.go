package event_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/streams/event"
)

func TestIdentifyKeepsTheIDThatCame(t *testing.T) {
	for _, source := range []event.IDSource{event.IDCloudEvents, event.IDMessageID, event.IDHeader} {
		t.Run(string(source), func(t *testing.T) {
			e := event.Envelope{Tenant: "acme", ID: "1", IDSource: source, OccurredAt: t0, Data: []byte("x")}
			before := e
			e.Identify()
			require.Equal(t, before, e)
		})
	}
}

func TestIdentifyDerivesAnID(t *testing.T) {
	derive := func(edit func(*event.Envelope)) event.Envelope {
		e := event.Envelope{Tenant: "acme", Source: "/shop", Type: "order.confirmed", OccurredAt: t0, Data: []byte("x")}
		if edit != nil {
			edit(&e)
		}
		e.Identify()
		return e
	}
	first := derive(nil)
	require.Equal(t, event.IDDerived, first.IDSource)
	require.Regexp(t, keyForm, first.ID)

	for name, edit := range map[string]func(*event.Envelope){
		"the same for a redelivery":                 nil,
		"the same in another time zone":             func(e *event.Envelope) { e.OccurredAt = t0.In(time.FixedZone("", 7200)) },
		"the same whatever else the envelope holds": func(e *event.Envelope) { e.CorrelationID, e.ContentType = "c", "text/plain" },
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, first.ID, derive(edit).ID) })
	}
	for name, edit := range map[string]func(*event.Envelope){
		"another for another tenant": func(e *event.Envelope) { e.Tenant = "b" },
		"another for another source": func(e *event.Envelope) { e.Source = "/till" },
		"another for another type":   func(e *event.Envelope) { e.Type = "order.cancelled" },
		"another a moment later":     func(e *event.Envelope) { e.OccurredAt = t0.Add(1) },
		"another for another body":   func(e *event.Envelope) { e.Data = []byte("y") },
	} {
		t.Run(name, func(t *testing.T) { require.NotEqual(t, first.ID, derive(edit).ID) })
	}
}

func TestIdentifyFallsBackToTheContent(t *testing.T) {
	e := event.Envelope{Source: "/disk", Type: "disk.full", Data: []byte("x")}
	e.Identify()
	require.Equal(t, event.DefaultTenant, e.Tenant)
	require.Equal(t, event.IDContent, e.IDSource)
	require.Equal(t, event.ContentHash(event.DefaultTenant, "/disk", "disk.full", []byte("x")), e.ID)

	t.Run("and a second call changes nothing", func(t *testing.T) {
		before := e
		e.Identify()
		require.Equal(t, before, e)
	})
	t.Run("another body is another id", func(t *testing.T) {
		other := event.Envelope{Source: "/disk", Type: "disk.full", Data: []byte("y")}
		other.Identify()
		require.NotEqual(t, e.ID, other.ID)
	})
}

func TestEveryIDSourceIsReached(t *testing.T) {
	reached := map[string]bool{
		string(event.IDCloudEvents): true, string(event.IDMessageID): true, string(event.IDHeader): true, string(event.IDOperator): true, // given
		string(event.IDDerived): true, string(event.IDContent): true, // by Identify
	}
	for _, c := range constants(t)["IDSource"] {
		require.True(t, reached[c.value], "no test for id source %s", c.value)
	}
}

func TestAge(t *testing.T) {
	r := event.Ref{ReceivedAt: t0, OccurredAt: t0.Add(-time.Hour)}
	require.Equal(t, time.Hour+time.Minute, r.Age(t0.Add(time.Minute)))

	t.Run("is counted from the stored copy where the producer did not say", func(t *testing.T) {
		r.OccurredAt = time.Time{}
		require.Equal(t, time.Minute, r.Age(t0.Add(time.Minute)))
	})
}
