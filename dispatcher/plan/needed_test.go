package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tidings/dispatcher/plan"
	"tidings/streams/event"
)

func TestWhatWouldHaveBeenNeeded(t *testing.T) {
	const ann = `{"name":"Ann","order":7,"total":120.5,"status":"open","email":"","empty":null,"customer":{"vip":false}}`
	when := func(source string) func(*plan.Route) { return func(r *plan.Route) { r.When = source } }
	recipients := func(source string) func(*plan.Route) { return func(r *plan.Route) { r.Recipients = source } }
	for _, c := range []struct {
		name    string
		route   func(*plan.Route)
		needed  string
		missing []string
		locales []string
	}{
		{name: "a condition", route: when("data.total > 200"), needed: "data.total > 200 must be true"},
		{
			name: "the first part of a condition that does not hold", route: when(`data.total > 100 && data.status == "paid" and data.country == "DE"`),
			needed: `data.status == "paid" must be true`,
		},
		{
			name: "a part that is guarded by the one before", route: when("data.customer.since != nil && data.customer.since.year > 2000"),
			needed: "data.customer.since != nil must be true", missing: []string{"data.customer.since"},
		},
		{
			name: "all of a condition with or, and what it names that is not there", route: when("data.customer.vip || data.shop.kind == 'big' || subject == 'urgent'"),
			needed: `data.customer.vip || data.shop.kind == "big" || subject == "urgent" must be true`, missing: []string{"data.shop", "subject"},
		},
		{name: "a condition without texts that may be of a person", route: when(`data.email in ["bob@example.com", "Bob Smith", "+49301234"]`), needed: `data.email in ["…", "…", "…"] must be true`, missing: []string{"data.email"}},
		{name: "an address", route: recipients("data.customer.mail"), needed: "recipients must give an e-mail address: data.customer.mail", missing: []string{"data.customer.mail"}},
		{name: "an address where the whole path is absent", route: recipients("data.buyer?.mail"), needed: "recipients must give an e-mail address: data.buyer?.mail", missing: []string{"data.buyer"}},
		{name: "an address where the member is empty", route: recipients("data.email"), needed: "recipients must give an e-mail address: data.email", missing: []string{"data.email"}},
		{name: "an address where something else is", route: recipients("data.name"), needed: "recipients must give an e-mail address: data.name"},
		{name: "an element of what is walked over", route: recipients("map(data.people, .mail)"), needed: "recipients must give an e-mail address: map(data.people, .mail)", missing: []string{"data.people"}},
		{
			name: "a template, in the languages that it was looked for in", route: func(r *plan.Route) { r.Template, r.Locale = "farewell", "'de-DE'" },
			needed: "templates/farewell must have subject.txt, and text.txt, html.html or message.md", locales: []string{"de-DE", "en"},
		},
		{
			name: "a template where the wanted language is none", route: func(r *plan.Route) { r.Template, r.Locale = "farewell", "data.name" },
			needed: "templates/farewell must have subject.txt, and text.txt, html.html or message.md", locales: []string{"en"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := compile(t, greeting, mailRoute(c.route)).Plan(key, placed(ann))
			require.NoError(t, err)
			require.Empty(t, got.Messages)
			d := got.Fact.Routes[0]
			require.Equal(t, c.needed, d.Needed)
			require.Equal(t, c.missing, d.Missing)
			require.Equal(t, c.locales, d.Locales)
		})
	}
	t.Run("a route, of which the nearest are named", func(t *testing.T) {
		var routes []plan.Route
		for i := range 9 {
			routes = append(routes, mailRoute(func(r *plan.Route) { r.Name, r.Event = fmt.Sprint("r", i), fmt.Sprint("other.", i) }))
		}
		routes = append(routes, mailRoute(func(r *plan.Route) { r.Event = "order.placed" }))
		e := placed(ann)
		e.Type = "order.place"
		got, err := compile(t, greeting, routes...).Plan(key, e)
		require.NoError(t, err)
		require.Equal(t, `a route must be for this type: "mail" is for order.placed, "r0" is for other.0, "r1" is for other.1, "r2" is for other.2, "r3" is for other.3, and 5 more`,
			got.Fact.Routes[0].Needed)
	})
	t.Run("is not said where there are messages", func(t *testing.T) {
		got, err := compile(t, greeting, mailRoute(when("data.never")), mailRoute(func(r *plan.Route) { r.Name = "two" })).
			Plan(key, placed(`{"name":"Ann","email":"ann@example.com","order":7}`))
		require.NoError(t, err)
		require.Len(t, got.Messages, 1)
		for _, d := range got.Fact.Routes {
			require.Empty(t, d.Needed)
			require.Empty(t, d.Missing)
		}
	})
	t.Run("is bounded, in number and size", func(t *testing.T) {
		var terms []string
		for i := range 40 {
			terms = append(terms, fmt.Sprintf("data.member%d == 1", i))
		}
		var routes []plan.Route
		for i := range 40 {
			routes = append(routes, mailRoute(when(strings.Join(terms, " || ")), func(r *plan.Route) { r.Name = fmt.Sprint("r", i) }))
		}
		got, err := compile(t, greeting, routes...).Plan(key, placed(ann))
		require.NoError(t, err)
		require.Len(t, got.Fact.Routes, 40)
		said := 0
		for _, d := range got.Fact.Routes {
			require.LessOrEqual(t, len(d.Needed), 250)
			require.LessOrEqual(t, len(d.Missing), 8)
			if d.Needed != "" {
				said++
			}
		}
		require.Equal(t, 16, said)
	})
}

// What is said is made of the rules and never of what is in the event.
func TestWhatWouldHaveBeenNeededHoldsNoValue(t *testing.T) {
	data := `{"email":"secret value","list":[{"mail":"secret value"}],"nested":{"secret":"secret value"}}`
	for _, source := range []string{"data.email", "data.list", "data.nested.secret", "data.list[0].mail", "[data.email]"} {
		got, err := compile(t, greeting, mailRoute(func(r *plan.Route) {
			r.Recipients, r.When = source, "1 == 1"
			if source == "data.list" {
				r.Recipients = "map(data.list, .mail)"
			}
		})).Plan(key, placed(data))
		require.NoError(t, err, source)
		require.Equal(t, event.NoRecipient, got.Fact.Nothing)
		require.NotContains(t, fmt.Sprint(got.Fact), "secret value")
	}
}
