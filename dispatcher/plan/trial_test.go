package plan_test

import (
	"maps"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"tidings/dispatcher/plan"
	"tidings/streams/event"
)

// trial is a test of the event with that data, which goes to an address.
func trial(to, data string, more ...string) event.Envelope {
	e := placed(data)
	e.Source, e.Extensions = event.TestSource, map[string]string{event.ExtensionTestTo: to}
	for i := 0; i < len(more); i += 2 {
		e.Extensions[more[i]] = more[i+1]
	}
	return e
}

func hookRoute(p *plan.Route) {
	p.Name, p.Channel, p.Template, p.Recipients = "hook", "shop", "", "data.url"
}

const everybody = `{"name":"Ann","order":"7","email":["ann@example.com","bob@example.com"],"url":"https://partner.example/in"}`

func told(t *testing.T, p *plan.Planner, e event.Envelope) []string {
	t.Helper()
	out, err := p.Plan(key, e)
	require.NoError(t, err)
	found := []string{}
	for _, m := range out.Messages {
		found = append(found, m.Address)
	}
	return found
}

func TestATestTellsOnlyItsAddress(t *testing.T) {
	p := compile(t, greeting, mailRoute(), mailRoute(hookRoute))
	t.Run("once, however many its data names", func(t *testing.T) {
		require.Equal(t, []string{"me@shop.example"}, told(t, p, trial("me@shop.example", everybody)))
		out, err := p.Plan(key, trial("me@shop.example", everybody))
		require.NoError(t, err)
		require.Equal(t, "Hello Ann", out.Messages[0].Content.Subject)
		require.Equal(t, "no_recipient", out.Fact.Routes[1].Verdict)
		require.Equal(t, "the address of the test is not an absolute http or https URL", out.Fact.Routes[1].Detail)
	})
	t.Run("or by webhook, where it is a URL", func(t *testing.T) {
		require.Equal(t, []string{"https://my.example/in"}, told(t, p, trial("https://my.example/in", everybody)))
	})
	t.Run("also where its data names nobody", func(t *testing.T) {
		require.Equal(t, []string{"me@shop.example"}, told(t, p, trial("me@shop.example", `{"name":"Ann","order":"7"}`)))
	})
	t.Run("and nobody, where it has none", func(t *testing.T) {
		require.Empty(t, told(t, p, trial("", everybody)))
		e := placed(everybody)
		e.Source = event.TestSource
		require.Empty(t, told(t, p, e), "such as one whose extensions were lost")
	})
	t.Run("with the language and details of the first of its recipients", func(t *testing.T) {
		p := compile(t, files("greeting/subject.txt", "Hello {{.recipient.name}}", "greeting/text.txt", "{{.recipient.address}}",
			"greeting/subject.de.txt", "Hallo {{.recipient.name}}", "greeting/text.de.txt", "{{.recipient.address}}"), mailRoute())
		out, err := p.Plan(key, trial("me@shop.example", `{"email":[{"address":"ann@example.com","locale":"de","name":"Ann"}]}`))
		require.NoError(t, err)
		require.Equal(t, plan.Content{Subject: "Hallo Ann", Text: "me@shop.example"}, out.Messages[0].Content)
	})
	t.Run("on one channel, or by one route whatever its condition says", func(t *testing.T) {
		never := mailRoute(func(r *plan.Route) { r.Name, r.When = "never", "false" })
		p := compile(t, greeting, never, mailRoute(hookRoute))
		to := "me@shop.example"
		require.Empty(t, told(t, p, trial(to, everybody)))
		require.Empty(t, told(t, p, trial(to, everybody, event.ExtensionTestChannel, "shop")))
		require.Equal(t, []string{to}, told(t, p, trial(to, everybody, event.ExtensionTestRoute, "never")))
	})
	t.Run("and an event of a producer never, whatever its extensions say", func(t *testing.T) {
		e := trial("me@shop.example", everybody)
		e.Source = "shop"
		require.Equal(t, []string{"ann@example.com", "bob@example.com", "https://partner.example/in"}, told(t, p, e))
	})
}

func TestCheckOfATest(t *testing.T) {
	p := compile(t, greeting, mailRoute(), mailRoute(hookRoute))
	for name, c := range map[string]struct {
		event event.Envelope
		want  string
	}{
		"which can go":            {trial("me@shop.example", "{}"), ""},
		"to a URL":                {trial("https://my.example/", "{}"), ""},
		"to what is no address":   {trial("me", "{}", event.ExtensionTestRoute, "mail"), "the address is not an e-mail address, which the route's channel needs"},
		"on no such channel":      {trial("me@shop.example", "{}", event.ExtensionTestChannel, "sms"), `there is no channel "sms": the channels are mail, shop`},
		"by no such route":        {trial("me@shop.example", "{}", event.ExtensionTestRoute, "x"), `there is no route "x": the routes are hook, mail`},
		"on a channel of others":  {trial("me@shop.example", "{}", event.ExtensionTestChannel, "shop"), "the address is not an absolute http or https URL, which the route's channel needs"},
		"which is none":           {placed("{}"), "the event is no test"},
		"of a type of no route's": {func() event.Envelope { e := trial("me@shop.example", "{}"); e.Type = "x"; return e }(), `no such route is for events of type "x"`},
	} {
		t.Run(name, func(t *testing.T) {
			err := p.CheckTest(c.event)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, c.want)
		})
	}
}

func TestSampleOfARoute(t *testing.T) {
	with := func(sample string) fstest.MapFS {
		out := maps.Clone(greeting)
		out["greeting/_sample.json"] = &fstest.MapFile{Data: []byte(sample)}
		return out
	}
	every := mailRoute(func(r *plan.Route) { r.Name, r.Event = "every", "order.*" })
	p := compile(t, with(`{"name":"Ann"}`), every, mailRoute(), mailRoute(hookRoute))
	found, err := p.Sample("acme", "mail")
	require.NoError(t, err)
	require.Equal(t, plan.Sample{
		Type: "order.placed", To: "somebody@example.com", Data: []byte(`{"name":"Ann"}`), File: "templates/greeting/_sample.json",
	}, found)
	found, err = p.Sample("acme", "every")
	require.NoError(t, err)
	require.Empty(t, found.Type, "it is for several")
	found, err = p.Sample("acme", "hook")
	require.NoError(t, err)
	require.Equal(t, plan.Sample{Type: "order.placed", To: "https://example.com/"}, found)
	_, err = p.Sample("acme", "x")
	require.EqualError(t, err, `there is no route "x": the routes are every, hook, mail`)

	require.Equal(t, compile(t, greeting, mailRoute()).Revision(), compile(t, with("{}"), mailRoute()).Revision())
	_, err = plan.Compile(plan.Rules{Routes: []plan.Route{mailRoute()}}, with("{"), options)
	require.ErrorContains(t, err, "templates/greeting/_sample.json: is not JSON")
}

func TestTheSamplesOfTheShopFillItsTemplates(t *testing.T) {
	p := shopPlanner(t)
	s, err := p.Sample("acme", "order-shipped")
	require.NoError(t, err)
	e := trial("me@shop.example", string(s.Data), event.ExtensionTestRoute, "order-shipped")
	e.Type = s.Type
	out, err := p.Plan(key, e)
	require.NoError(t, err)
	require.Equal(t, "Your order 1042 is on its way", out.Messages[0].Content.Subject)
	require.Contains(t, out.Messages[0].Content.Text, "Hello Ann,")
}
