package plan_test

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"tidings/dispatcher/plan"
	"tidings/streams/event"
)

const key = event.Key("0123456789abcdefghijkl")

var options = plan.Options{
	Secret: []byte("for tests"),
	Channels: map[string]plan.Channel{
		"mail": {Kind: plan.Email},
		"shop": {Kind: plan.Webhook},
	},
}

// files makes templates of pairs of name and content.
func files(pairs ...string) fstest.MapFS {
	out := fstest.MapFS{}
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1])}
	}
	return out
}

var greeting = files(
	"greeting/subject.txt", "Hello {{.data.name}}\n", "greeting/text.txt", "Your order {{.data.order}}.\n",
	"greeting/subject.de.txt", "Hallo {{.data.name}}\n", "greeting/text.de.txt", "Ihre Bestellung {{.data.order}}.\n",
)

func mailRoute(change ...func(*plan.Route)) plan.Route {
	r := plan.Route{Name: "mail", Event: "order.placed", Channel: "mail", Template: "greeting", Recipients: "data.email"}
	for _, c := range change {
		c(&r)
	}
	return r
}

func compile(t *testing.T, templates fstest.MapFS, routes ...plan.Route) *plan.Planner {
	t.Helper()
	p, err := plan.Compile(plan.Rules{Routes: routes}, templates, options)
	require.NoError(t, err)
	return p
}

func placed(data string) event.Envelope {
	return event.Envelope{Tenant: "default", Source: "shop", ID: "1", Type: "order.placed", ContentType: "application/json", Data: []byte(data)}
}

func TestAnEventBecomesItsMessage(t *testing.T) {
	p := compile(t, greeting, mailRoute())
	got, err := p.Plan(key, placed(`{"name":"Ann","email":"Ann@Example.com","order":7}`))
	require.NoError(t, err)
	require.Len(t, got.Messages, 1)

	m := got.Messages[0]
	require.Equal(t, event.NewMessageID(key, "mail", "mail", "ann@example.com"), m.ID)
	require.Equal(t, "Ann@Example.com", m.Address)
	require.Equal(t, event.NewRecipient(options.Secret, "ann@example.com").Hash, m.Recipient.Hash)
	require.Equal(t, "en", m.Locale)
	require.Equal(t, event.Hold, m.OnUnknown)
	require.NotEmpty(t, m.Version)
	require.Equal(t, plan.Content{Subject: "Hello Ann", Text: "Your order 7.\n"}, m.Content)

	require.Equal(t, event.Planned{
		Config:   p.Revision(),
		Routes:   []event.RouteDecision{{Route: "mail", Verdict: "planned", Count: 1}},
		Messages: []event.PlannedMessage{m.PlannedMessage},
	}, got.Fact)
}
