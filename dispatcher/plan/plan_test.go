package plan_test

import (
	"encoding/json"
	"maps"
	"sync"
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

func TestARouteDecidesWhomAnEventIsTold(t *testing.T) {
	const ann = `{"name":"Ann","email":"ann@example.com","order":7,"total":120.5,"vip":true}`
	for _, c := range []struct {
		name    string
		route   func(*plan.Route)
		data    string
		want    event.RouteDecision // without the route's name
		nothing event.Outcome
	}{
		{"a condition that holds", func(r *plan.Route) { r.When = "data.total > 100" }, ann, event.RouteDecision{Verdict: "planned", Count: 1}, ""},
		{
			"a condition that does not hold is nobody to tell", func(r *plan.Route) { r.When = "data.total > 200" }, ann,
			event.RouteDecision{Verdict: "condition_false", Detail: "when (data.total > 200) is not true"},
			event.NoRecipient,
		},
		{
			"a condition over what is absent does not hold", func(r *plan.Route) { r.When = "data.customer.vip" }, ann,
			event.RouteDecision{Verdict: "condition_false", Detail: "when (data.customer.vip) is not true"},
			event.NoRecipient,
		},
		{
			"recipients that are absent are nobody", func(r *plan.Route) { r.Recipients = "data.customer.email" }, ann,
			event.RouteDecision{Verdict: "no_recipient", Detail: "recipients (data.customer.email) gave nothing"},
			event.NoRecipient,
		},
		{
			"so they are when asked for with care", func(r *plan.Route) { r.Recipients = "data?.customer?.email" }, ann,
			event.RouteDecision{Verdict: "no_recipient", Detail: "recipients (data?.customer?.email) gave nothing"},
			event.NoRecipient,
		},
		{
			"recipients that are null are nobody", nil, `{"email":null}`,
			event.RouteDecision{Verdict: "no_recipient", Detail: "recipients (data.email) gave nothing"},
			event.NoRecipient,
		},
		{
			"recipients that are blank are nobody", nil, `{"email":" "}`,
			event.RouteDecision{Verdict: "no_recipient", Detail: "recipients (data.email) gave nothing"},
			event.NoRecipient,
		},
		{
			"an empty list is nobody", nil, `{"email":[]}`,
			event.RouteDecision{Verdict: "no_recipient", Detail: "recipients (data.email) gave nothing"},
			event.NoRecipient,
		},
		{
			"a list of nothing is nobody", nil, `{"email":[null,"",{},{"address":null},{"locale":"de"}]}`,
			event.RouteDecision{Verdict: "no_recipient", Detail: "recipients (data.email) gave nothing"},
			event.NoRecipient,
		},
		{
			"an event without a payload has no members", nil, ``,
			event.RouteDecision{Verdict: "no_recipient", Detail: "recipients (data.email) gave nothing"},
			event.NoRecipient,
		},
		{
			"an element that is not there is nobody", func(r *plan.Route) { r.Recipients = "data.list[3].email" }, `{"list":[]}`,
			event.RouteDecision{Verdict: "no_recipient", Detail: "recipients (data.list[3].email) gave nothing"},
			event.NoRecipient,
		},
		{
			"a loop over what is absent is nobody", func(r *plan.Route) { r.Recipients = "map(data.list, .email)" }, `{}`,
			event.RouteDecision{Verdict: "no_recipient", Detail: "recipients (map(data.list, .email)) gave nothing"},
			event.NoRecipient,
		},
		{
			"an expression with a text in it is not quoted: it may be an address",
			func(r *plan.Route) { r.Recipients = `data.vip ? nil : "boss@example.com"` }, ann,
			event.RouteDecision{Verdict: "no_recipient", Detail: "recipients gave nothing"},
			event.NoRecipient,
		},
		{
			"what is no address is refused and not quoted", nil, `{"email":"not an address"}`,
			event.RouteDecision{Verdict: "no_recipient", Detail: "recipients (data.email): 1 of its values is not an e-mail address"},
			event.NoRecipient,
		},
		{
			"a line break in an address is refused", nil, `{"email":"ann@example.com\r\nBcc: all@example.com"}`,
			event.RouteDecision{Verdict: "no_recipient", Detail: "recipients (data.email): 1 of its values is not an e-mail address"},
			event.NoRecipient,
		},
		{
			"the others of a list are told all the same", nil, `{"name":"Ann","order":1,"email":["ann@example.com","nobody","none@","bob@example.com"]}`,
			event.RouteDecision{Verdict: "planned", Count: 2, Detail: "recipients (data.email): 2 of its values are not an e-mail address"},
			"",
		},
		{
			"a template that does not exist", func(r *plan.Route) { r.Template = "farewell" }, ann,
			event.RouteDecision{Verdict: "no_template", Detail: "templates/farewell has no template"},
			event.NoTemplate,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var changes []func(*plan.Route)
			if c.route != nil {
				changes = append(changes, c.route)
			}
			got, err := compile(t, greeting, mailRoute(changes...)).Plan(key, placed(c.data))
			require.NoError(t, err)
			c.want.Route = "mail"
			require.Len(t, got.Fact.Routes, 1)
			decision := got.Fact.Routes[0]
			require.Equal(t, c.nothing != "", decision.Needed != "", "see TestWhatWouldHaveBeenNeeded")
			decision.Needed, decision.Missing, decision.Locales = "", nil, nil
			require.Equal(t, c.want, decision)
			require.Equal(t, c.nothing, got.Fact.Nothing)
			require.Len(t, got.Messages, c.want.Count)
		})
	}
}

func TestWithoutARouteThereAreNoWords(t *testing.T) {
	e := placed(`{}`)
	e.Type = "order.refunded"
	got, err := compile(t, greeting, mailRoute()).Plan(key, e)
	require.NoError(t, err)
	require.Equal(t, event.NoTemplate, got.Fact.Nothing)
	require.Equal(t, []event.RouteDecision{{
		Verdict: "no_template", Detail: `no route for events of type "order.refunded"`,
		Needed: `a route must be for this type: "mail" is for order.placed`,
	}}, got.Fact.Routes)
	require.NotEmpty(t, got.Fact.Config)
}

func TestNobodyToTellWinsOverNoWords(t *testing.T) {
	p := compile(t, greeting,
		mailRoute(func(r *plan.Route) { r.Template = "farewell" }),
		mailRoute(func(r *plan.Route) { r.Name = "second" }))
	got, err := p.Plan(key, placed(`{}`))
	require.NoError(t, err)
	require.Equal(t, event.NoRecipient, got.Fact.Nothing)
	require.Len(t, got.Fact.Routes, 2)
}

func TestRecipientsHaveManyForms(t *testing.T) {
	for _, c := range []struct {
		name, recipients, data string
		want                   []string // addresses
	}{
		{"a text", `data.to`, `{"to":"a@example.com"}`, []string{"a@example.com"}},
		{"a fixed text", `"ops@example.com"`, `{}`, []string{"ops@example.com"}},
		{"a fixed list", `["ops@example.com", "dev@example.com"]`, `{}`, []string{"ops@example.com", "dev@example.com"}},
		{"a list of texts, in its order", `data.to`, `{"to":["b@example.com","a@example.com"]}`, []string{"b@example.com", "a@example.com"}},
		{"an object", `data.to`, `{"to":{"address":"a@example.com"}}`, []string{"a@example.com"}},
		{"a list of both", `data.to`, `{"to":[{"address":"a@example.com"},"b@example.com"]}`, []string{"a@example.com", "b@example.com"}},
		{"a loop", `map(data.to, .mail)`, `{"to":[{"mail":"a@example.com"},{},{"mail":"b@example.com"}]}`, []string{"a@example.com", "b@example.com"}},
		{"a loop that makes objects", `map(data.to, {{address: .mail, locale: .lang}})`, `{"to":[{"mail":"a@example.com","lang":"de"}]}`, []string{"a@example.com"}},
		{"members of an object, sorted by name", `values(data.to)`, `{"to":{"z":"a@example.com","a":"b@example.com"}}`, []string{"b@example.com", "a@example.com"}},
		{"the same address in another case, once", `data.to`, `{"to":["A@Example.com","a@example.com"," a@example.com"]}`, []string{"A@Example.com"}},
		{"a display name is left out", `data.to`, `{"to":["Ann <a@example.com>","a@example.com"]}`, []string{"a@example.com"}},
		{"a quoted local part stays quoted", `data.to`, `{"to":"\"a b\"@example.com"}`, []string{`"a b"@example.com`}},
		{"an international address", `data.to`, `{"to":"jörg@bücher.example"}`, []string{"jörg@bücher.example"}},
		{"an extension", `extensions.contact`, `{}`, []string{"ext@example.com"}},
		{"what stands in for nothing", `(data.to ?? tenant) + "@example.com"`, `{}`, []string{"default@example.com"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			templates := files("greeting/subject.txt", "Hello", "greeting/text.txt", "Hello")
			p := compile(t, templates, mailRoute(func(r *plan.Route) { r.Recipients = c.recipients }))
			e := placed(c.data)
			e.Extensions = map[string]string{"contact": "ext@example.com"}
			got, err := p.Plan(key, e)
			require.NoError(t, err)
			require.Equal(t, c.want, addresses(got))
		})
	}
}

func addresses(p plan.Plan) []string {
	var out []string
	for _, m := range p.Messages {
		out = append(out, m.Address)
	}
	return out
}

func TestAWebhookGoesToAbsoluteURLs(t *testing.T) {
	p := compile(t, nil, plan.Route{Name: "hook", Event: "**", Channel: "shop", Recipients: "data.to"})
	for to, ok := range map[string]bool{
		"https://example.com/hook":            true,
		"http://127.0.0.1:8090/a?b=c":         true,
		"https://user:secret@example.com/":    true,
		"ftp://example.com/":                  false,
		"example.com/hook":                    false,
		"/hook":                               false,
		"https:///hook":                       false,
		"https://:80/":                        false,
		"https://exa mple.com/":               false,
		"https://example.com/\nX-Injected: 1": false,
		"javascript:alert(1)":                 false,
		"ann@example.com":                     false,
	} {
		t.Run(to, func(t *testing.T) {
			body, err := json.Marshal(map[string]string{"to": to})
			require.NoError(t, err)
			got, err := p.Plan(key, placed(string(body)))
			require.NoError(t, err)
			if ok {
				require.Equal(t, []string{to}, addresses(got))
				require.Equal(t, event.Resend, got.Messages[0].OnUnknown)
			} else {
				require.Empty(t, got.Messages)
				require.Equal(t, "recipients (data.to): 1 of its values is not an absolute http or https URL", got.Fact.Routes[0].Detail)
			}
		})
	}
}

func TestTheSameWordsReachAnAddressOnce(t *testing.T) {
	p := compile(t, greeting,
		mailRoute(),
		mailRoute(func(r *plan.Route) { r.Name, r.Event, r.Recipients = "all", "order.*", "data.everybody" }),
		mailRoute(func(r *plan.Route) { r.Name = "again" }),
		plan.Route{Name: "hook", Event: "order.placed", Channel: "shop", Recipients: `"https://example.com/"`})
	got, err := p.Plan(key, placed(`{"name":"Ann","order":1,"email":"ann@example.com","everybody":["ANN@example.com","bob@example.com"]}`))
	require.NoError(t, err)
	require.Equal(t, []string{"ann@example.com", "bob@example.com", "https://example.com/"}, addresses(got))
	require.Equal(t, []event.RouteDecision{
		{Route: "mail", Verdict: "planned", Count: 1},
		{Route: "all", Verdict: "planned", Count: 1, Detail: `route "mail" tells 1 of its recipients the same`},
		{Route: "again", Verdict: "no_recipient", Detail: `route "mail" tells 1 of its recipients the same`},
		{Route: "hook", Verdict: "planned", Count: 1},
	}, got.Fact.Routes)
	require.Empty(t, got.Fact.Nothing)
}

func TestRoutesMatchTypesByPattern(t *testing.T) {
	for pattern, types := range map[string][2][]string{
		"order.placed": {{"order.placed"}, {"order", "order.placed.late", "order.Placed", "orderXplaced", ""}},
		"order.*":      {{"order.placed", "order."}, {"order", "order.placed.late", "orders.placed"}},
		"*.placed":     {{"order.placed", ".placed"}, {"placed", "a.b.placed"}},
		"order.**":     {{"order.placed", "order.placed.late"}, {"order", "orders.placed"}},
		"*.*.**":       {{"a.b.c", "a.b.c.d"}, {"a.b", "a"}},
		"**":           {{"order", "order.placed", ""}, nil},
		"*":            {{"order", ""}, {"order.placed"}},
	} {
		t.Run(pattern, func(t *testing.T) {
			p := compile(t, nil, plan.Route{Name: "hook", Event: pattern, Channel: "shop", Recipients: `"https://example.com/"`})
			for i, list := range types {
				for _, typ := range list {
					got, err := p.Plan(key, event.Envelope{Type: typ})
					require.NoError(t, err)
					require.Len(t, got.Messages, 1-i, "type %q", typ)
				}
			}
		})
	}
}

func TestAnEventHasABoundedNumberOfMessages(t *testing.T) {
	o := options
	o.MaxMessages = 3
	route := plan.Route{Name: "hook", Event: "**", Channel: "shop", Recipients: `map(1..data.n, "https://example.com/" + string(#))`}
	second := route
	second.Name, second.Recipients = "second", `["https://example.org/"]`
	p, err := plan.Compile(plan.Rules{Routes: []plan.Route{route, second}}, nil, o)
	require.NoError(t, err)

	got, err := p.Plan(key, placed(`{"n":2}`))
	require.NoError(t, err)
	require.Len(t, got.Messages, 3, "as many as may be")

	_, err = p.Plan(key, placed(`{"n":3}`))
	require.Equal(t, &plan.Error{Cause: event.CauseTooManyRecipients, Detail: `route "second": more than 3 messages for one event`}, err, "over all routes")
	_, err = p.Plan(key, placed(`{"n":10000}`))
	require.Equal(t, &plan.Error{Cause: event.CauseTooManyRecipients, Detail: `route "hook": more than 3 messages for one event`}, err)
}

func TestIdsDependOnNothingThatMayChangeWhileAnEventWaits(t *testing.T) {
	before, err := compile(t, greeting, mailRoute()).Plan(key, placed(`{"name":"Ann","order":1,"email":"ann@example.com"}`))
	require.NoError(t, err)
	other := files("other/subject.txt", "Other words", "other/text.txt", "Other words")
	after, err := compile(t, other, mailRoute(func(r *plan.Route) {
		r.Template, r.Recipients, r.Event = "other", `[{address: "Ann <ANN@example.com>"}]`, "order.*"
	})).Plan(key, placed(`{}`))
	require.NoError(t, err)
	require.Equal(t, before.Messages[0].ID, after.Messages[0].ID)
	require.Equal(t, before.Messages[0].Recipient.Hash, after.Messages[0].Recipient.Hash)
	require.NotEqual(t, before.Messages[0].Version, after.Messages[0].Version)
	require.NotEqual(t, before.Fact.Config, after.Fact.Config)
}

func TestTheRevisionCoversWhatAPlanDependsOn(t *testing.T) {
	rules := func() plan.Rules {
		return plan.Rules{Vars: map[string]string{"a": "1", "b": "2"}, Routes: []plan.Route{mailRoute()}}
	}
	revision := func(r plan.Rules, templates fstest.MapFS, o plan.Options) string {
		p, err := plan.Compile(r, templates, o)
		require.NoError(t, err)
		return p.Revision()
	}
	base := revision(rules(), greeting, options)
	require.Equal(t, base, revision(rules(), greeting, options), "the same again")

	secret := options
	secret.Secret = []byte("another")
	require.Equal(t, base, revision(rules(), greeting, secret), "a secret does not show in a public hash")

	vars := rules()
	vars.Vars["a"] = "2"
	require.NotEqual(t, base, revision(vars, greeting, options))
	renamed := rules()
	renamed.Routes[0].Name = "post"
	require.NotEqual(t, base, revision(renamed, greeting, options))
	words := maps.Clone(greeting)
	words["greeting/text.de.txt"] = &fstest.MapFile{Data: []byte("Andere Worte")}
	require.NotEqual(t, base, revision(rules(), words, options))
	policy := options
	policy.Channels = map[string]plan.Channel{"mail": {Kind: plan.Email, OnUnknown: event.Resend}}
	require.NotEqual(t, base, revision(rules(), greeting, policy))
}

func TestTheVersionOfAMessageIsThatOfItsWords(t *testing.T) {
	version := func(templates fstest.MapFS, locale string) string {
		got, err := compile(t, templates, mailRoute(func(r *plan.Route) { r.Locale = "data.locale" })).
			Plan(key, placed(`{"name":"Ann","order":1,"email":"ann@example.com","locale":"`+locale+`"}`))
		require.NoError(t, err)
		return got.Messages[0].Version
	}
	changed := maps.Clone(greeting)
	changed["greeting/text.de.txt"] = &fstest.MapFile{Data: []byte("Andere Worte")}
	require.Equal(t, version(greeting, "en"), version(changed, "en"))
	require.NotEqual(t, version(greeting, "de"), version(changed, "de"))
	require.NotEqual(t, version(greeting, "de"), version(greeting, "en"))
}

func TestWhatBecomesOfUnknownFates(t *testing.T) {
	for _, c := range []struct {
		name    string
		channel plan.Channel
		route   event.OnUnknown
		want    event.OnUnknown
	}{
		{"e-mail is held", plan.Channel{Kind: plan.Email}, "", event.Hold},
		{"a webhook gets its idempotency key again", plan.Channel{Kind: plan.Webhook}, "", event.Resend},
		{"the channel's policy", plan.Channel{Kind: plan.Email, OnUnknown: event.Resend}, "", event.Resend},
		{"the route's policy", plan.Channel{Kind: plan.Webhook, OnUnknown: event.Resend}, event.Hold, event.Hold},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := plan.Options{Secret: options.Secret, Channels: map[string]plan.Channel{"mail": c.channel}}
			templates := files("greeting/subject.txt", "a", "greeting/text.txt", "a", "greeting/body.txt", "a")
			p, err := plan.Compile(plan.Rules{Routes: []plan.Route{mailRoute(func(r *plan.Route) {
				r.OnUnknown, r.Recipients = c.route, `["a@example.com", "https://example.com/"]`
			})}}, templates, o)
			require.NoError(t, err)
			got, err := p.Plan(key, placed(`{}`))
			require.NoError(t, err)
			require.Equal(t, c.want, got.Messages[0].OnUnknown)
		})
	}
}

func TestALocaleIsChosen(t *testing.T) {
	templates := maps.Clone(greeting)
	templates["greeting/subject.pt.txt"] = &fstest.MapFile{Data: []byte("Olá")}
	templates["greeting/text.pt.txt"] = &fstest.MapFile{Data: []byte("Olá")}
	templates["greeting/subject.ru.txt"] = &fstest.MapFile{Data: []byte("Привет")}
	templates["greeting/text.ru.txt"] = &fstest.MapFile{Data: []byte("Привет")}
	p := compile(t, templates, mailRoute(func(r *plan.Route) {
		r.Recipients, r.Locale = "{address: data.email, locale: data.own}", "data.route"
	}))
	for _, c := range []struct{ name, own, route, want string }{
		{"the recipient's own", `"de"`, `"pt"`, "de"},
		{"the route's, where the recipient names none", `null`, `"de"`, "de"},
		{"the route's, where nobody has the recipient's", `"ja"`, `"de"`, "de"},
		{"the default, where nobody has either", `"ja"`, `"fr"`, "en"},
		{"the default, where none is named", `null`, `null`, "en"},
		{"a variant", `"de-AT"`, `null`, "de"},
		{"a variant, as POSIX writes it", `"de_CH"`, `null`, "de"},
		{"a variant of another language", `"pt-BR"`, `null`, "pt"},
		{"not a language that only looks related", `"uk"`, `null`, "en"},
		{"what is no locale", `"no such"`, `null`, "en"},
		{"what is no text", `7`, `null`, "en"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := p.Plan(key, placed(`{"name":"Ann","order":1,"email":"ann@example.com","own":`+c.own+`,"route":`+c.route+`}`))
			require.NoError(t, err)
			require.Equal(t, c.want, got.Messages[0].Locale)
		})
	}
}

func TestAPlannerServesManyAtOnce(t *testing.T) {
	p, e := shopPlanner(t), shopSamples(t)["01-order-placed"].envelope()
	want, err := p.Plan(key, e)
	require.NoError(t, err)
	var group sync.WaitGroup
	plans := make([]plan.Plan, 8)
	for i := range plans {
		group.Go(func() { plans[i], _ = p.Plan(key, e) })
	}
	group.Wait()
	for _, got := range plans {
		require.Equal(t, want, got)
	}
}
