package plan_test

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"tidings/dispatcher/plan"
	"tidings/streams/event"
)

// words has a template that shows what it was told of the recipient.
var words = fstest.MapFS{
	"news/subject.txt":    {Data: []byte(`News of {{.vars.shop}}`)},
	"news/text.txt":       {Data: []byte(`{{.locale}} {{.timezone}}`)},
	"news/subject.de.txt": {Data: []byte(`Neues von {{.vars.shop}}`)},
	"news/text.de.txt":    {Data: []byte(`{{.locale}} {{.timezone}}`)},
}

func compileRules(t *testing.T, rules plan.Rules) *plan.Planner {
	t.Helper()
	p, err := plan.Compile(rules, words, options)
	require.NoError(t, err)
	return p
}

func planned(t *testing.T, p *plan.Planner, tenant, data string) plan.Plan {
	t.Helper()
	e := placed(data)
	e.Tenant = tenant
	out, err := p.Plan(event.NewKey(tenant), e)
	require.NoError(t, err)
	return out
}

func news(change ...func(*plan.Route)) plan.Route {
	return mailRoute(append([]func(*plan.Route){func(r *plan.Route) { r.Name, r.Template = "news", "news" }}, change...)...)
}

func TestATenantHasWhatIsItsOwnAndAllElseAsEverybody(t *testing.T) {
	p := compileRules(t, plan.Rules{
		Vars: map[string]string{"shop": "Example"}, Groups: map[string][]any{"oncall": {"ops@example.com"}},
		Routes: []plan.Route{
			news(),
			news(func(r *plan.Route) { r.Name, r.Recipients = "duty", "groups.oncall" }),
			news(func(r *plan.Route) { r.Name, r.Recipients = "boss", `"boss@example.com"` }),
		},
		Tenants: map[string]plan.Overlay{"acme": {
			DefaultLocale: "de", Timezone: "Europe/Berlin",
			Vars: map[string]string{"shop": "ACME"}, Groups: map[string][]any{"oncall": {"duty@acme.example"}},
			Routes: []plan.RouteOverlay{
				{Route: plan.Route{Name: "duty", Category: "alerts"}},
				{Route: plan.Route{Name: "boss"}, Disabled: true},
				{Route: news(func(r *plan.Route) { r.Name, r.Recipients, r.To = "sales", "", []any{"sales@acme.example"} })},
			},
		}},
	})
	acme := planned(t, p, "acme", `{"email":"ann@example.com"}`)
	require.Equal(t, []string{"ann@example.com", "duty@acme.example", "sales@acme.example"}, addresses(acme))
	require.Equal(t, "Neues von ACME", acme.Messages[0].Content.Subject)
	require.Equal(t, "de Europe/Berlin", acme.Messages[0].Content.Text)
	require.Equal(t, []string{"", "alerts", ""}, []string{acme.Messages[0].Category, acme.Messages[1].Category, acme.Messages[2].Category})

	others := planned(t, p, "globex", `{"email":"ann@example.com"}`)
	require.Equal(t, []string{"ann@example.com", "ops@example.com", "boss@example.com"}, addresses(others))
	require.Equal(t, "News of Example", others.Messages[0].Content.Subject)
	require.Equal(t, "en UTC", others.Messages[0].Content.Text)
	require.NotEqual(t, acme.Messages[0].ID, others.Messages[0].ID, "the same address of two tenants has two messages")
}

func TestATenantNeedsTheChannelsOfItsOwnRoutes(t *testing.T) {
	p := compileRules(t, plan.Rules{
		Routes: []plan.Route{mailRoute(hookRoute)},
		Tenants: map[string]plan.Overlay{"acme": {Routes: []plan.RouteOverlay{
			{Route: plan.Route{Name: "hook"}, Disabled: true},
			{Route: news()},
		}}},
		Vars: map[string]string{"shop": "Example"},
	})
	require.Equal(t, []plan.Need{{Channel: "mail", Held: true}}, p.Needs("acme", "order.placed"))
	require.Equal(t, []plan.Need{{Channel: "shop"}}, p.Needs("globex", "order.placed"))
}

func TestTheZoneAndTheLanguageOfARecipient(t *testing.T) {
	route := news(func(r *plan.Route) { r.Locale, r.Timezone, r.Recipients = "data.lang", "data.tz", "data.to" })
	p := compileRules(t, plan.Rules{
		Timezone: "America/St_Johns", Vars: map[string]string{"shop": "Example"}, Routes: []plan.Route{route},
		Tenants: map[string]plan.Overlay{"acme": {DefaultLocale: "de", Timezone: "Asia/Tokyo"}},
	})
	for name, c := range map[string]struct{ tenant, data, want string }{
		"are those that it names":             {"acme", `{"to":{"address":"a@example.com","locale":"en","timezone":"Europe/Paris"},"lang":"de","tz":"Europe/Rome"}`, "en Europe/Paris"},
		"else those that the route finds":     {"acme", `{"to":"a@example.com","lang":"en","tz":"Europe/Rome"}`, "en Europe/Rome"},
		"else those of the tenant":            {"acme", `{"to":"a@example.com"}`, "de Asia/Tokyo"},
		"else those of everybody":             {"globex", `{"to":"a@example.com"}`, "en America/St_Johns"},
		"and a language that nobody has":      {"acme", `{"to":{"address":"a@example.com","locale":"ja"}}`, "de Asia/Tokyo"},
		"and a zone that there is not":        {"acme", `{"to":{"address":"a@example.com","timezone":"Mars/Olympus"},"tz":"Europe/Rome"}`, "de Europe/Rome"},
		"and a zone that is a path":           {"acme", `{"to":{"address":"a@example.com","timezone":"../../etc/passwd"}}`, "de Asia/Tokyo"},
		"and the zone of whichever machine":   {"acme", `{"to":{"address":"a@example.com","timezone":"Local"}}`, "de Asia/Tokyo"},
		"and a zone that is not a text":       {"acme", `{"to":{"address":"a@example.com","timezone":7}}`, "de Asia/Tokyo"},
		"and a variant of a language (de-AT)": {"globex", `{"to":{"address":"a@example.com","locale":"de-AT"}}`, "de America/St_Johns"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, planned(t, p, c.tenant, c.data).Messages[0].Content.Text)
		})
	}
}

func TestFixedRecipientsComeBesideThoseOfTheEvent(t *testing.T) {
	route := news(func(r *plan.Route) {
		r.To = []any{"ops@example.com", map[string]any{"address": "eva@example.com", "locale": "de"}}
	})
	p := compileRules(t, plan.Rules{Vars: map[string]string{"shop": "Example"}, Routes: []plan.Route{route}})
	out := planned(t, p, "acme", `{"email":"Ann <ann@example.com>"}`)
	require.Equal(t, []string{"ops@example.com", "eva@example.com", "ann@example.com"}, addresses(out))
	require.Equal(t, "de UTC", out.Messages[1].Content.Text)
	require.Equal(t, []string{"ops@example.com", "eva@example.com"}, addresses(planned(t, p, "acme", `{"email":"OPS@example.com"}`)), "each address once")
}

func TestRulesOfTenantsAndGroupsAreCheckedAtStart(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*plan.Rules)
		want   string
	}{
		"a zone that there is not": {
			func(r *plan.Rules) { r.Timezone = "Mars/Olympus" },
			`timezone: there is no time zone "Mars/Olympus": want a name of the IANA database, such as Europe/Berlin`,
		},
		"a tenant's zone": {
			func(r *plan.Rules) { r.Tenants["acme"] = plan.Overlay{Timezone: "CEST"} },
			`tenants.acme.timezone: there is no time zone "CEST": want a name of the IANA database, such as Europe/Berlin`,
		},
		"a tenant's language": {
			func(r *plan.Rules) { r.Tenants["acme"] = plan.Overlay{DefaultLocale: "!"} },
			`tenants.acme.default_locale: is not a language tag such as en or pt-BR`,
		},
		"a group with a number": {
			func(r *plan.Rules) { r.Groups = map[string][]any{"oncall": {"a@example.com", 7}} },
			`groups.oncall[1]: want an address, or an object with an address`,
		},
		"a group with somebody in no zone": {
			func(r *plan.Rules) {
				r.Groups = map[string][]any{"oncall": {map[string]any{"address": "a@example.com", "timezone": "Nowhere"}}}
			},
			`groups.oncall[0].timezone: there is no time zone "Nowhere": want a name of the IANA database, such as Europe/Berlin`,
		},
		"a group that there is not": {
			func(r *plan.Rules) { r.Routes[0].Recipients = "groups.nobody" },
			`routes[0].recipients (route "news"):1:8: unknown field nobody`,
		},
		"a fixed address that is none": {
			func(r *plan.Rules) { r.Routes[0].To = []any{"https://example.com/"} },
			`routes[0].to[0] (route "news"): is not an e-mail address, which channel "mail" needs`,
		},
		"a category that is no word": {
			func(r *plan.Rules) { r.Routes[0].Category = "Our News" },
			`routes[0].category (route "news"): a category has 1 to 32 of the characters a-z, 0-9, - and _`,
		},
		"a provider that there is not": {
			func(r *plan.Rules) { r.Routes[0].Providers = []string{"ses"} },
			`routes[0].providers[0] (route "news"): channel "mail" has no provider "ses": there are no providers`,
		},
		"a route that is taken away and is not there": {
			func(r *plan.Rules) {
				r.Tenants["acme"] = plan.Overlay{Routes: []plan.RouteOverlay{{Route: plan.Route{Name: "old"}, Disabled: true}}}
			},
			`tenants.acme.routes[0].disabled: there is no route "old" to take away`,
		},
		"a change of a route that is wrong": {
			func(r *plan.Rules) {
				r.Tenants["acme"] = plan.Overlay{Routes: []plan.RouteOverlay{{Route: plan.Route{Name: "news", When: "data.total >"}}}}
			},
			`tenants.acme.routes[0].when (route "news"):1:12: unexpected token EOF`,
		},
		"a route that is changed twice": {
			func(r *plan.Rules) {
				twice := plan.RouteOverlay{Route: plan.Route{Name: "news", Category: "a"}}
				r.Tenants["acme"] = plan.Overlay{Routes: []plan.RouteOverlay{twice, twice}}
			},
			`tenants.acme.routes[1].name (route "news"): routes[0] has this name already: ids of messages need it to be unique`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			rules := plan.Rules{Vars: map[string]string{"shop": "Example"}, Routes: []plan.Route{news()}, Tenants: map[string]plan.Overlay{}}
			c.change(&rules)
			_, err := plan.Compile(rules, words, options)
			require.EqualError(t, err, c.want)
		})
	}
}

func TestTheRevisionKnowsTenants(t *testing.T) {
	rules := plan.Rules{Vars: map[string]string{"shop": "Example"}, Routes: []plan.Route{news()}}
	before := compileRules(t, rules).Revision()
	rules.Tenants = map[string]plan.Overlay{"acme": {Vars: map[string]string{"shop": "ACME"}}}
	require.NotEqual(t, before, compileRules(t, rules).Revision())
}
