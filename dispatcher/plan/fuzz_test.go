package plan_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tidings/dispatcher/plan"
	"tidings/streams/event"
)

// FuzzPlan plans any payload by rules that touch every part of it.
func FuzzPlan(f *testing.F) {
	for _, data := range []string{
		``, `null`, `[]`, `{"customer":{"email":"ann@example.com","locale":"de"},"total":5,"items":[{"t":"a"}]}`,
		`{"customer":{"email":["a@example.com",{"address":"b@example.com","locale":7},null,""]},"total":1e400}`,
		`{"customer":"x"}`, "{\"customer\":{\"email\":\"a@b\\r\\n\"}}", `{"hook":"https://example.com/","customer":{"name":"\r\n"}}`, "\xff",
	} {
		f.Add([]byte(data), "application/json", "order.placed")
	}
	f.Add([]byte(`text`), "text/plain", "order.")
	p, err := plan.Compile(plan.Rules{Vars: map[string]string{"a": "b"}, Routes: []plan.Route{
		{Name: "mail", Event: "order.*", When: "data.total != 7", Channel: "mail", Template: "greeting", Recipients: "data.customer.email", Locale: "data.customer.locale"},
		{Name: "all", Event: "**", Channel: "mail", Template: "greeting", Recipients: "values(data.customer)"},
		{Name: "hook", Event: "**", Channel: "shop", Recipients: "[data.hook, data.hooks[0]]"},
		{Name: "each", Event: "**", Channel: "shop", Recipients: "map(data.items, .hook)"},
	}}, files(
		"greeting/subject.txt", `Hello {{get .data "customer.name" | default "you"}}`,
		"greeting/text.txt", `{{range get .data "items"}}{{get . "t"}}{{end}}{{json .data}}{{.recipient.address}}`,
		"greeting/html.html", `<p>{{json .data}} {{get .data "total"}}</p>`,
	), options)
	require.NoError(f, err)

	f.Fuzz(func(t *testing.T, data []byte, contentType, typ string) {
		e := event.Envelope{Tenant: "default", ID: "1", Type: typ, ContentType: contentType, Data: data}
		got, err := p.Plan(key, e)
		again, errAgain := p.Plan(key, e)
		require.Equal(t, got, again)
		require.Equal(t, err, errAgain)
		if err != nil {
			var bad *plan.Error
			require.ErrorAs(t, err, &bad)
			require.Contains(t, []event.Cause{event.CauseTemplateError, event.CauseTooManyRecipients}, bad.Cause)
			require.Empty(t, got)
			return
		}
		checkPlan(t, got)
	})
}

func checkPlan(t *testing.T, p plan.Plan) {
	ids := map[string]bool{}
	require.Len(t, p.Fact.Messages, len(p.Messages))
	require.Equal(t, len(p.Messages) == 0, p.Fact.Nothing != "")
	counted := 0
	for _, d := range p.Fact.Routes {
		counted += d.Count
	}
	require.Len(t, p.Messages, counted)
	for i, m := range p.Messages {
		require.Equal(t, p.Fact.Messages[i], m.PlannedMessage)
		require.False(t, ids[m.ID], "ids are unique")
		ids[m.ID] = true
		require.False(t, strings.ContainsFunc(m.Address+m.Content.Subject, unicode.IsControl), "no header can be injected")
	}
	fact, err := json.Marshal(p.Fact)
	require.NoError(t, err)
	for _, m := range p.Messages {
		if local, _, isMail := strings.Cut(m.Address, "@"); isMail && len(local) > 8 {
			require.NotContains(t, string(fact), m.Address, "no address gets into the history")
		}
	}
}

// FuzzPattern compares patterns with the regular expressions they stand for.
func FuzzPattern(f *testing.F) {
	f.Add("order.*", "order.placed")
	f.Add("**", "")
	f.Add("*.b.**", "a.b.c.d")
	f.Fuzz(func(t *testing.T, pattern, typ string) {
		p, err := plan.Compile(plan.Rules{Routes: []plan.Route{hook(func(r *plan.Route) { r.Event = pattern })}}, nil, options)
		if err != nil || !utf8.ValidString(pattern) {
			return // configuration is UTF-8
		}
		got, err := p.Plan(key, event.Envelope{Type: typ})
		require.NoError(t, err)
		require.Equal(t, inRegexp(pattern).MatchString(typ), len(got.Messages) == 1, "%q %q", pattern, typ)
	})
}

func inRegexp(pattern string) *regexp.Regexp {
	var parts []string
	for _, segment := range strings.Split(pattern, ".") {
		switch segment {
		case "**":
			parts = append(parts, `(?s:.*)`)
		case "*":
			parts = append(parts, `[^.]*`)
		default:
			parts = append(parts, regexp.QuoteMeta(segment))
		}
	}
	return regexp.MustCompile(`^` + strings.Join(parts, `\.`) + `\z`)
}

func TestPatternsMatchWhatTheyWereMadeFrom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		typ := rapid.SliceOfN(rapid.StringMatching(`[a-z]{0,3}`), 1, 5).Draw(t, "segments")
		pattern := append([]string{}, typ...)
		for i := range pattern {
			if rapid.Bool().Draw(t, "star") {
				pattern[i] = "*"
			}
		}
		if cut := rapid.IntRange(0, len(pattern)).Draw(t, "cut"); cut < len(pattern) {
			pattern = append(pattern[:cut], "**")
		}
		name := strings.Join(pattern, ".")
		if name == "" {
			return // one empty segment: no pattern
		}
		p, err := plan.Compile(plan.Rules{Routes: []plan.Route{hook(func(r *plan.Route) { r.Event = name })}}, nil, options)
		require.NoError(t, err)
		got, err := p.Plan(key, event.Envelope{Type: strings.Join(typ, ".")})
		require.NoError(t, err)
		require.Len(t, got.Messages, 1)
	})
}
