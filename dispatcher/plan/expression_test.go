package plan_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/dispatcher/plan"
	"tidings/streams/event"
)

// hook is a route that needs no template.
func hook(change func(*plan.Route)) plan.Route {
	r := plan.Route{Name: "hook", Event: "**", Channel: "shop", Recipients: `"https://example.com/"`}
	change(&r)
	return r
}

func TestConditionsSeeTheEvent(t *testing.T) {
	p := func(t *testing.T, when string) *plan.Planner {
		compiled, err := plan.Compile(plan.Rules{
			Vars:   map[string]string{"region": "eu"},
			Routes: []plan.Route{hook(func(r *plan.Route) { r.When = when })},
		}, nil, options)
		require.NoError(t, err)
		return compiled
	}
	e := placed(`{"total":120.50,"count":3,"big":9007199254740993,"tags":["a","b"],"by":{"z":1,"a":2},"huge":1e999,"flag":true}`)
	e.Subject, e.CorrelationID = "basket/7", "c-1"
	e.OccurredAt = time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC)
	e.Extensions = map[string]string{"region": "eu"}
	for _, when := range []string{
		`id == "1" and source == "shop" and type == "order.placed" and tenant == "default"`,
		`subject == "basket/7" and correlation_id == "c-1"`,
		`occurred_at.Year() == 2030`,
		`extensions.region == vars.region`,
		`extensions.none == ""`,
		`data.total > 100 and data.total == 120.5`,
		`data.count == 3 and data.count % 2 == 1`,
		`data.big == 9007199254740993`,
		`data.huge == "1e999"`,
		`"b" in data.tags and not ("c" in data.tags)`,
		`any(data.tags, # startsWith "a")`,
		`len(filter(data.tags, # != "a")) == 1`,
		`keys(data.by) == ["a", "z"] and values(data.by) == [2, 1]`,
		`toPairs(data.by)[0] == ["a", 2]`,
		`keys(data.none) == []`,
		`data.flag`,
		`data.none == nil and data.none.none == nil and data.tags[7] == nil and data["none"]["none"] == nil`,
		`data.tags[-1] == "b" and data["count"] == 3`,
		`(data.none.none ?? 5) == 5`,
		`count(data.none, .x) == 0 and all(data.none, .x)`,
		`let limit = 100; data.total > limit`,
		`fromJSON(toJSON(data.by)).z == 1`,
	} {
		t.Run(when, func(t *testing.T) {
			got, err := p(t, when).Plan(key, e)
			require.NoError(t, err)
			require.Equal(t, "planned", got.Fact.Routes[0].Verdict)
		})
	}
}

func TestDataIsJSONOrText(t *testing.T) {
	for _, c := range []struct{ name, contentType, body, when string }{
		{"declared JSON", "application/json; charset=utf-8", `{"a":1}`, `data.a == 1`},
		{"declared JSON of a vendor", "application/vnd.shop+json", `"text"`, `data == "text"`},
		{"undeclared JSON", "", `[1]`, `data[0] == 1`},
		{"JSON that is declared as bytes", "application/octet-stream", `{"a":1}`, `data.a == 1`},
		{"text that happens to be a number", "text/plain", `42`, `data == "42"`},
		{"text", "text/plain", `disk full`, `data contains "full"`},
		{"JSON with something behind it is text", "", `{"a":1} {}`, `data startsWith "{"`},
		{"no payload", "application/json", "", `data == nil`},
		{"bytes", "application/octet-stream", "\xff\x00", `data == nil`},
		{"null", "application/json", "null", `data == nil`},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := compile(t, nil, hook(func(r *plan.Route) { r.When = c.when }))
			got, err := p.Plan(key, event.Envelope{Type: "a", ContentType: c.contentType, Data: []byte(c.body)})
			require.NoError(t, err)
			require.Equal(t, "planned", got.Fact.Routes[0].Verdict)
		})
	}
}

func TestAValueOfTheWrongTypeIsADeadLetterThatSaysWhere(t *testing.T) {
	const private = "ann@example.com 4711"
	for _, c := range []struct{ name, key, source, data, want string }{
		{"a comparison with nothing", "when", `data.total > 100`, `{}`, `line 1, column 12: invalid operation: <nil> > int`},
		{"a comparison of text and number", "when", "data.vip and\ndata.total > 100", `{"vip":true,"total":"` + private + `"}`, `line 2, column 12: invalid operation: string > int`},
		{"a condition that is a text", "when", `data.total`, `{"total":"` + private + `"}`, `yields a text, want true or false`},
		{"a condition that is half a text", "when", `data.vip and data.vip`, `{"vip":"` + private + `"}`, `line 1, column 10: interface conversion: interface {} is string, not bool`},
		{"a member of a text", "recipients", `data.customer.email`, `{"customer":"` + private + `"}`, `line 1, column 15: a value there is not of the type that is needed`},
		{"a member of a text that is the payload", "recipients", `data.email`, private, `line 1, column 6: a value there is not of the type that is needed`},
		{"an element of a text", "recipients", `data.customer[0]`, `{"customer":"` + private + `"}`, `line 1, column 14: only a list and an object have elements`},
		{"an element by a text of the payload", "recipients", `data.list[data.at]`, `{"list":[],"at":"` + private + `"}`, `line 1, column 10: only a list and an object have elements`},
		{"a loop over a text", "recipients", `map(data.customer, .email)`, `{"customer":"` + private + `"}`, `line 1, column 10: want a list here`},
		{"a text that is no number", "when", `int(data.n) > 1`, `{"n":"` + private + `"}`, `line 1, column 1: a value there is not of the type that is needed`},
		{"members of a text", "when", `len(keys(data.n)) > 1`, `{"n":"` + private + `"}`, `line 1, column 5: want an object here`},
		{"a recipient that is a number", "recipients", `data.to`, `{"to":4711}`, `yields a number, want an address, an object {address, locale, timezone} or a list of these`},
		{"a list with a number", "recipients", `data.to`, `{"to":["a@example.com",true]}`, `a list with an element that yields true or false, want an address, an object {address, locale, timezone} or a list of these`},
		{"a list in a list", "recipients", `data.to`, `{"to":[["a@example.com"]]}`, `a list with an element that yields a list, want an address, an object {address, locale, timezone} or a list of these`},
		{"an address that is a number", "recipients", `data.to`, `{"to":{"address":4711}}`, `yields a number, want an address, an object {address, locale, timezone} or a list of these`},
		{"a locale that is a number", "locale", `data.locale`, `{"locale":4711}`, `yields a number, want a language tag such as de or pt-BR`},
		{"a text that is not JSON", "when", `fromJSON(data.n).x`, `{"n":"` + private + `"}`, `line 1, column 1: a value there is not of the type that is needed`},
		{"a pattern that is none", "when", `"a" matches data.n`, `{"n":"(` + private + `"}`, `line 1, column 5: a value there is not of the type that is needed`},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := compile(t, nil, hook(func(r *plan.Route) {
				switch c.key {
				case "when":
					r.When = c.source
				case "locale":
					r.Locale = c.source
				default:
					r.Recipients = c.source
				}
			}))
			e := placed(c.data)
			e.ContentType = ""
			_, err := p.Plan(key, e)
			require.Equal(t, &plan.Error{Cause: event.CauseTemplateError, Detail: `route "hook": ` + c.key + ": " + c.want}, err)
			for _, word := range strings.Fields(private) {
				require.NotContains(t, err.Error(), word)
			}
		})
	}
}

func TestExpressionsAreBounded(t *testing.T) {
	list := make([]int, 3000)
	data, err := json.Marshal(map[string]any{"list": list, "long": strings.Repeat("a", 1<<20)})
	require.NoError(t, err)
	for _, when := range []string{
		`any(data.list, any(data.list, any(data.list, # == 1)))`,
		`any(1..1000, any(1..1000, any(1..1000, # == 0)))`,
		`any(data.list, 7 in data.list)`,
		`any(data.list, data.long contains "b")`,
		`any(data.list, data.long matches "^b+$")`,
		`any(data.list, max(data.list) > 1)`,
		`any(data.list, upper(data.long) == "")`,
		`len(1..100000000) > 1`,
		`sum(data.list, sum(data.list, sum(data.list, 1))) > 1`,
		`reduce(data.list, concat(#acc, data.list), []) == []`,
		`reduce(data.list, #acc + data.long, "") == ""`,
		`reduce(1..60, #acc + #acc, "a") == ""`,
		`any(data.list, len(sortBy(data.list, #)) == 1)`,
	} {
		t.Run(when, func(t *testing.T) {
			p := compile(t, nil, hook(func(r *plan.Route) { r.When = when }))
			_, err := p.Plan(key, placed(string(data)))
			var bad *plan.Error
			require.ErrorAs(t, err, &bad)
			require.Equal(t, event.CauseTemplateError, bad.Cause)
			require.Regexp(t, `walks over too much data|memory budget exceeded`, bad.Detail)
		})
	}
}
