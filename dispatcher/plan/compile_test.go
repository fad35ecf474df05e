package plan_test

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"tidings/dispatcher/plan"
)

func TestCompileReportsEveryProblemAtOnce(t *testing.T) {
	templates := files(
		"broken/subject.txt", "Hello\n{{.data.name", "broken/text.txt", "{{nope}}",
		"half/subject.txt", "Hello",
		"hook/body.json", "{}",
	)
	_, err := plan.Compile(plan.Rules{DefaultLocale: "not a locale", Routes: []plan.Route{
		{Name: "", Event: "order.placed", Channel: "mail", Template: "half", Recipients: "data.email", Providers: []string{"ses"}},
		{Name: "twice", Event: "**.placed", Channel: "post", Recipients: "dta.email"},
		{Name: "twice", Event: "", When: "data.a >", Channel: "mail", Template: "hook", Recipients: "", Locale: "5", OnUnknown: "drop"},
	}}, templates, plan.Options{Channels: options.Channels})
	require.Equal(t, `secret: is empty: the hashes of recipients need a key
default_locale: is not a language tag such as en or pt-BR
templates/broken/subject.txt:2: unclosed action
templates/broken/text.txt:1: function "nope" not defined
routes[0].name: must have 1 to 64 letters, digits, dots, dashes and underscores, and begin with a letter or digit
routes[0].providers[0]: channel "mail" has no provider "ses": there are no providers
routes[0].template: templates/half has no text.txt, html.html or message.md, which channel "mail" needs
routes[1].event (route "twice"): ** stands only at the end
routes[1].recipients (route "twice"):1:1: unknown name dta
routes[1].channel (route "twice"): there is no channel "post": the channels are mail, shop
routes[2].name (route "twice"): routes[1] has this name already: ids of messages need it to be unique
routes[2].event (route "twice"): is empty: give a type of event, such as order.placed, order.* or **
routes[2].when (route "twice"):1:8: unexpected token EOF
routes[2].locale (route "twice"): yields a number, want a language tag such as de or pt-BR
routes[2].recipients (route "twice"): is empty: give an expression such as data.customer.email, or a list of addresses in to
routes[2].on_unknown (route "twice"): "drop" is neither resend nor hold
routes[2].template (route "twice"): templates/hook has no subject.txt, which channel "mail" needs`, err.Error())

	var problems plan.Problems
	require.ErrorAs(t, err, &problems)
	require.Equal(t, plan.Problem{Key: "routes[1].recipients", Route: "twice", Line: 1, Column: 1, Text: "unknown name dta"}, problems[8])
	require.Equal(t, plan.Problem{File: "templates/broken/subject.txt", Line: 2, Text: "unclosed action"}, problems[2])
}

func TestExpressionsAreCheckedAtStart(t *testing.T) {
	for _, c := range []struct{ name, key, source, want string }{
		{"a name that is not there", "when", "dat.total > 1", ":1:1: unknown name dat"},
		{"a variable that is not there", "when", "vars.regio == 'eu'", ":1:6: unknown field regio"},
		{"a text where a truth value is needed", "when", "tenant", ": yields a text, want true or false"},
		{"types that cannot be compared", "when", "\ntenant > 5", ":2:8: invalid operation: > (mismatched types string and int)"},
		{"an address that is not quoted", "recipients", "ops@example.com", ":1:4: unrecognized character: U+0040 '@'"},
		{"a number where a recipient is needed", "recipients", "1 + 1", ": yields a number, want an address, an object {address, locale, timezone} or a list of these"},
		{"a clock", "when", "now().Year() == 2030", ":1:1: unknown name now"},
		{"a zone file", "when", "timezone('UTC') != nil", ":1:1: unknown name timezone"},
		{"what grows without measure", "when", "repeat('a', 1000000) == ''", ":1:1: unknown name repeat"},
		{"the whole environment", "when", "len($env) > 1", ": $env is not available: name the member that is needed"},
		{"a pattern that is none", "when", `data.a matches "("`, ":1:8: error parsing regexp: missing closing ): `(`"},
		{"an endless expression", "when", "true" + strings.Repeat(" and data.a", 1000), ":1:2756: compilation failed: expression exceeds maximum allowed nodes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := plan.Compile(plan.Rules{Vars: map[string]string{"region": "eu"}, Routes: []plan.Route{hook(func(r *plan.Route) {
				if c.key == "when" {
					r.When = c.source
				} else {
					r.Recipients = c.source
				}
			})}}, nil, options)
			require.EqualError(t, err, "routes[0]."+c.key+` (route "hook")`+c.want)
		})
	}
}

func TestTemplatesAreCheckedAtStart(t *testing.T) {
	for _, c := range []struct {
		name  string
		files fstest.MapFS
		want  string
	}{
		{"a file of another name", files("greeting/subjct.txt", "a"), "templates/greeting/subjct.txt: is none of subject.txt, text.txt, html.html, message.md, body.json, body.xml, body.txt, body.html, nor one of these with a locale such as text.de.txt"},
		{"a file of another ending", files("greeting/subject.html", "a"), "templates/greeting/subject.html: is none of subject.txt, text.txt, html.html, message.md, body.json, body.xml, body.txt, body.html, nor one of these with a locale such as text.de.txt"},
		{"a language that is not known", files("greeting/text.xx.txt", "a"), `templates/greeting/text.xx.txt: "xx" is not a language that is known`},
		{"the default language, twice", files("greeting/text.en.txt", "a"), "templates/greeting/text.txt: is the text for locale en, as is templates/greeting/text.en.txt: keep one"},
		{"a file that is empty", files("greeting/text.txt", " \n"), "templates/greeting/text.txt: is empty"},
		{"a file that is too long", files("greeting/text.txt", strings.Repeat("a", 1<<20+1)), "templates/greeting/text.txt: has 1048577 bytes: at most 1048576 are read"},
		{"a folder in a template", files("greeting/text.fr.txt/a", "a"), "templates/greeting/text.fr.txt: is a folder: a template is a folder of files"},
		{"a language with fewer parts", files("greeting/html.html", "a"), "templates/greeting: html is there for one of the locales en and de only: give both the same parts"},
		{"a template that is not there", files("greeting/text.txt", "a\n{{template \"b\"}}"), `templates/greeting/text.txt:2: there is no template "b" in this file or in _shared`},
		{"a template that calls itself", files("greeting/text.txt", `{{define "a"}}{{template "a"}}{{end}}`), `templates/greeting/text.txt: the template "a" calls itself`},
		{"HTML that has no context", files("other/subject.txt", "a", "other/html.html", "<p>\n<a href={{if .data.x}}\"{{end}}>"), "templates/other/html.html:2:13: {{if}} branches end in different contexts: {stateURL delimDoubleQuote urlPartNone jsCtxRegexp [] attrURL elementNone <nil>}, {stateBeforeValue delimNone urlPartNone jsCtxRegexp [] attrURL elementNone <nil>}"},
		{"a template without the default language", files("other/text.de.txt", "a"), "templates/other: has nothing for the default locale en"},
	} {
		t.Run(c.name, func(t *testing.T) {
			templates := maps.Clone(greeting)
			maps.Copy(templates, c.files)
			_, err := plan.Compile(plan.Rules{Routes: []plan.Route{mailRoute()}}, templates, options)
			require.Error(t, err)
			require.Contains(t, strings.Split(err.Error(), "\n"), c.want)
		})
	}
	t.Run("two templates that call each other", func(t *testing.T) {
		source := `{{define "a"}}{{if .}}{{template "b"}}{{end}}{{end}}{{define "b"}}{{with .}}{{else}}{{range .}}{{else}}{{template "a"}}{{end}}{{end}}{{end}}`
		_, err := plan.Compile(plan.Rules{}, files("greeting/text.txt", source), options)
		require.EqualError(t, err, "templates/greeting/text.txt: the template \"a\" calls itself\ntemplates/greeting/text.txt: the template \"b\" calls itself")
	})
}

func TestWhatIsAllowedButHardlyMeantIsAWarning(t *testing.T) {
	p := compile(t, files("_layouts/page.html", "{{", ".git/config", "{{", "README.md", "{{", "empty/.keep", ""),
		mailRoute(), mailRoute(func(r *plan.Route) { r.Name, r.Template = "second", "empty" }))
	require.Equal(t, []string{
		`route "mail": templates/greeting has no template, so nothing is sent`,
		`route "second": templates/empty has no template, so nothing is sent`,
	}, p.Warnings())
}

func TestAFolderMayBeALink(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(filepath.Join(dir, "..data"), greeting))
	require.NoError(t, os.Symlink("..data/greeting", filepath.Join(dir, "greeting")))
	p, err := plan.Compile(plan.Rules{Routes: []plan.Route{mailRoute()}}, os.DirFS(dir), options)
	require.NoError(t, err)
	require.Empty(t, p.Warnings())
}

func TestAFolderThatIsNotThereIsAProblem(t *testing.T) {
	_, err := plan.Compile(plan.Rules{}, os.DirFS(filepath.Join(t.TempDir(), "none")), options)
	require.EqualError(t, err, "templates: read the templates: no such file or directory")
}

func TestTheDefaultLocaleIsConfigurable(t *testing.T) {
	for name, templates := range map[string]fstest.MapFS{
		"in files without a locale":   files("greeting/subject.txt", "Hallo", "greeting/text.txt", "Hallo"),
		"in files that name it":       files("greeting/subject.de.txt", "Hallo", "greeting/text.de.txt", "Hallo"),
		"in files that write it DE":   files("greeting/subject.DE.txt", "Hallo", "greeting/text.txt", "Hallo"),
		"beside those of another one": files("greeting/subject.txt", "Hallo", "greeting/text.txt", "Hallo", "greeting/subject.en.txt", "Hello", "greeting/text.en.txt", "Hello"),
	} {
		t.Run(name, func(t *testing.T) {
			p, err := plan.Compile(plan.Rules{DefaultLocale: "de", Routes: []plan.Route{mailRoute()}}, templates, options)
			require.NoError(t, err)
			got, err := p.Plan(key, placed(`{"email":"ann@example.com"}`))
			require.NoError(t, err)
			require.Equal(t, "de", got.Messages[0].Locale)
			require.Equal(t, "Hallo", got.Messages[0].Content.Subject)
		})
	}
}
