package plan_test

import (
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/dispatcher/plan"
	"tidings/streams/event"
)

// rendered returns what a template says to a recipient about an event.
func rendered(t *testing.T, templates fstest.MapFS, e event.Envelope, change ...func(*plan.Route)) plan.Message {
	t.Helper()
	route := mailRoute(append([]func(*plan.Route){func(r *plan.Route) { r.Template, r.Recipients = "t", "data.to" }}, change...)...)
	p, err := plan.Compile(plan.Rules{Routes: []plan.Route{route}}, templates, options)
	require.NoError(t, err)
	out, err := p.Plan("key", e)
	require.NoError(t, err)
	require.Len(t, out.Messages, 1)
	return out.Messages[0]
}

func TestATimeIsThatOfTheRecipientsClockWithTheZone(t *testing.T) {
	const source = `{{local .timezone .data.at}}|{{date "15:04" (in .timezone .data.at)}}|{{local .timezone .occurred_at}}`
	templates := files("t/subject.txt", "a", "t/text.txt", source)
	for name, c := range map[string]struct{ zone, at, want string }{
		"Tokyo has one time":                          {"Asia/Tokyo", "2026-03-29T01:30:00Z", "2026-03-29 10:30 JST|10:30"},
		"Berlin, the minute before summer time":       {"Europe/Berlin", "2026-03-29T00:59:00Z", "2026-03-29 01:59 CET|01:59"},
		"Berlin, the minute that summer time begins":  {"Europe/Berlin", "2026-03-29T01:00:00Z", "2026-03-29 03:00 CEST|03:00"},
		"Berlin, half past two in summer time":        {"Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-25 02:30 CEST|02:30"},
		"Berlin, half past two again in winter time":  {"Europe/Berlin", "2026-10-25T01:30:00Z", "2026-10-25 02:30 CET|02:30"},
		"St. John's is half an hour apart, in summer": {"America/St_Johns", "2026-07-01T12:00:00Z", "2026-07-01 09:30 NDT|09:30"},
		"and in winter":                               {"America/St_Johns", "2026-12-01T12:00:00Z", "2026-12-01 08:30 NST|08:30"},
		"another offset is the same instant":          {"Asia/Tokyo", "2026-07-01T14:00:00+02:00", "2026-07-01 21:00 JST|21:00"},
	} {
		t.Run(name, func(t *testing.T) {
			e := placed(`{"to":{"address":"a@example.com","timezone":"` + c.zone + `"},"at":"` + c.at + `"}`)
			at, err := time.Parse(time.RFC3339, c.at)
			require.NoError(t, err)
			e.OccurredAt = at
			got := rendered(t, templates, e).Content.Text
			whole, _, _ := strings.Cut(c.want, "|")
			require.Equal(t, c.want+"|"+whole, got)
		})
	}
}

func TestTheLanguageOfARecipientFallsBackToTheNearest(t *testing.T) {
	templates := files("t/subject.txt", "en", "t/text.txt", "en", "t/subject.pt.txt", "pt", "t/text.pt.txt", "pt", "t/subject.pt-BR.txt", "pt-BR", "t/text.pt-BR.txt", "pt-BR")
	without := files("t/subject.txt", "en", "t/text.txt", "en", "t/subject.pt.txt", "pt", "t/text.pt.txt", "pt")
	for wanted, c := range map[string]struct {
		templates fstest.MapFS
		want      string
	}{
		"pt-BR": {templates, "pt-BR"}, "pt-AO": {templates, "pt"}, "pt": {without, "pt"}, "pt-PT": {without, "pt"}, "fr": {templates, "en"},
	} {
		require.Equal(t, c.want, rendered(t, c.templates, placed(`{"to":{"address":"a@example.com","locale":"`+wanted+`"}}`)).Content.Subject, wanted)
	}
	require.Equal(t, "pt", rendered(t, without, placed(`{"to":{"address":"a@example.com","locale":"pt-BR"}}`)).Content.Subject, "pt-BR, pt, en")
}

func TestMoneyIsWrittenAsPeopleOfTheLanguageDo(t *testing.T) {
	for locale, want := range map[string]string{
		"en": "€1,234.50 -$0.99 ¥1,235", "de": "1.234,50\u00a0€ -0,99\u00a0$ 1.235\u00a0¥", "pt-BR": "€\u00a01.234,50 -US$\u00a00,99 JP¥\u00a01.235",
		"de-CH": "EUR\u00a01’234.50 -$\u00a00.99 ¥\u00a01’235",
	} {
		t.Run(locale, func(t *testing.T) {
			templates := files("t/subject.txt", "a", "t/text.txt", "a",
				"t/subject."+locale+".txt", "a", "t/text."+locale+".txt", `{{money .data.total "EUR"}} {{money -0.99 "USD"}} {{money "1234.56" "JPY"}}`)
			if locale == "en" {
				templates = files("t/subject.txt", "a", "t/text.txt", `{{money .data.total "EUR"}} {{money -0.99 "USD"}} {{money "1234.56" "JPY"}}`)
			}
			got := rendered(t, templates, placed(`{"to":{"address":"a@example.com","locale":"`+locale+`"},"total":1234.5}`)).Content.Text
			require.Equal(t, want, got)
		})
	}
}

func TestMarkdownIsTheHTMLAndTheTextOfAMail(t *testing.T) {
	templates := files("t/subject.txt", "a", "t/message.md", "# Hello {{.data.name}}\n\n- {{.data.item}}\n\n[Look]({{.data.url}}) <b>raw</b>\n")
	m := rendered(t, templates, placed(`{"to":"a@example.com","name":"*Ann* <script>","item":"1. [x](javascript:alert(1))\n\n# big","url":"https://example.com/?a=1&b=_2_"}`))
	require.Equal(t, "# Hello *Ann* <script>\n\n- 1. [x](javascript:alert(1))\n\n# big\n\n[Look](https://example.com/?a=1&b=_2_) <b>raw</b>\n", m.Content.Text)
	require.Contains(t, m.Content.HTML, `<html lang="en">`)
	require.Contains(t, m.Content.HTML, "<h1>Hello *Ann* &lt;script&gt;</h1>")
	require.Contains(t, m.Content.HTML, `<a href="https://example.com/?a=1&amp;b=_2_">Look</a>`)
	require.NotContains(t, m.Content.HTML, "<script", "what an event holds is text")
	require.NotContains(t, m.Content.HTML, "<b>", "HTML in Markdown is left out")
	require.NotContains(t, m.Content.HTML, `href="javascript`)
	require.NotContains(t, m.Content.HTML, "<h1>big")

	t.Run("a link to a script is none", func(t *testing.T) {
		m := rendered(t, files("t/subject.txt", "a", "t/message.md", "[x]({{.data.url}})"), placed(`{"to":"a@example.com","url":"javascript:alert(1)"}`))
		require.NotContains(t, m.Content.HTML, "javascript")
	})
	t.Run("text.txt is the text where there is one", func(t *testing.T) {
		both := files("t/subject.txt", "a", "t/message.md", "**bold**", "t/text.txt", "plain")
		m := rendered(t, both, placed(`{"to":"a@example.com"}`))
		require.Equal(t, "plain", m.Content.Text)
		require.Contains(t, m.Content.HTML, "<strong>bold</strong>")
	})
	t.Run("the shared page is around it", func(t *testing.T) {
		with := files("t/subject.txt", "a", "t/message.md", "**bold** {{.data.to}}", "_shared/markdown.html", "<main title=\"{{.data.to}}\">{{.content}}</main>")
		m := rendered(t, with, placed(`{"to":"a@example.com"}`))
		require.Equal(t, "<main title=\"a@example.com\"><p><strong>bold</strong> a@example.com</p>\n</main>", m.Content.HTML)
	})
	t.Run("with html.html it would be two", func(t *testing.T) {
		_, err := plan.Compile(plan.Rules{}, files("t/subject.txt", "a", "t/message.md", "a", "t/html.html", "b"), options)
		require.ErrorContains(t, err, "is the HTML for locale en, as is the other of html.html and message.md: keep one")
	})
}

func TestSharedFilesAreLayoutsAndPartials(t *testing.T) {
	templates := files(
		"_shared/page.html", `<html>{{block "content" .}}{{end}}{{template "footer" .}}</html>`, "_shared/footer.html", `<p>Bye, {{.data.name}}</p>`,
		"_shared/footer.de.html", `<p>Gruß, {{.data.name}}</p>`, "_shared/footer.txt", `Bye`, "_shared/broken.html", `{{template "nowhere"}}`,
		"t/subject.txt", "a", "t/text.txt", `{{template "footer" .}}`, "t/html.html", `{{template "page" .}}{{define "content"}}<b>{{.data.name}}</b>{{end}}`,
		"t/subject.de.txt", "a", "t/text.de.txt", `{{template "footer" .}}`, "t/html.de.html", `{{template "page" .}}`,
	)
	m := rendered(t, templates, placed(`{"to":"a@example.com","name":"A&B"}`))
	require.Equal(t, `<html><b>A&amp;B</b><p>Bye, A&amp;B</p></html>`, m.Content.HTML)
	require.Equal(t, "Bye", m.Content.Text)
	german := rendered(t, templates, placed(`{"to":{"address":"a@example.com","locale":"de"},"name":"A&B"}`))
	require.Equal(t, `<html><p>Gruß, A&amp;B</p></html>`, german.Content.HTML, "a shared file may have languages, and an empty block")
	require.Equal(t, "Bye", german.Content.Text)

	t.Run("are part of the version of what calls them, and of nothing else", func(t *testing.T) {
		version := func(file, source string) string {
			changed := files("t/subject.txt", "a", "t/text.txt", `{{template "footer" .}}`, "_shared/footer.txt", "Bye", "_shared/other.txt", "x", file, source)
			return rendered(t, changed, placed(`{"to":"a@example.com"}`)).Version
		}
		require.NotEqual(t, version("_shared/footer.txt", "Bye"), version("_shared/footer.txt", "Ciao"))
		require.Equal(t, version("_shared/other.txt", "x"), version("_shared/other.txt", "y"))
	})
	t.Run("that fail are named with their line", func(t *testing.T) {
		failing := files("t/subject.txt", "a", "t/text.txt", `{{template "footer" .}}`, "_shared/footer.txt", "\n{{.data.nope}}")
		p, err := plan.Compile(plan.Rules{Routes: []plan.Route{mailRoute(func(r *plan.Route) { r.Template = "t" })}}, failing, options)
		require.NoError(t, err)
		_, err = p.Plan("key", placed(`{"email":"a@example.com"}`))
		require.ErrorContains(t, err, `templates/_shared/footer.txt:2:7: at <.data.nope>: map has no entry for key "nope"`)
	})
	t.Run("that are wrong are refused at start where they are called", func(t *testing.T) {
		for source, want := range map[string]string{
			`{{template "footer"}}`: `templates/_shared/footer.txt: the template "footer" calls itself`,
			"\n{{template \"x\"}}":  `templates/_shared/footer.txt:2: there is no template "x" in this file or in _shared`,
			"{{nope}}":              `templates/_shared/footer.txt:1: function "nope" not defined`,
		} {
			_, err := plan.Compile(plan.Rules{}, files("t/subject.txt", "a", "t/text.txt", `{{template "footer" .}}`, "_shared/footer.txt", source), options)
			require.EqualError(t, err, want)
		}
	})
}

func TestATemplateThatFailsDegradesWhereTheRouteSaysSo(t *testing.T) {
	templates := files(
		"t/subject.txt", "Order", "t/text.txt", `Thanks`, "t/subject.de.txt", "Bestellung", "t/text.de.txt", `{{.data.nope}}`,
		"broken/subject.txt", "Order", "broken/text.txt", `{{.data.nope}}`,
	)
	maps := func(template string, mode plan.OnTemplateError) plan.Route {
		return mailRoute(func(r *plan.Route) {
			r.Name, r.Template, r.OnTemplateError, r.Recipients = template, template, mode, "data.to"
		})
	}
	german := placed(`{"to":{"address":"a@example.com","locale":"de"}}`)
	p := compile(t, templates, maps("t", plan.Degrade), maps("broken", plan.Degrade))
	out, err := p.Plan("key", german)
	require.NoError(t, err)
	require.Equal(t, "Thanks", out.Messages[0].Content.Text, "the default language")
	require.Equal(t, "en", out.Messages[0].Locale)
	require.Equal(t, `templates/t/text.de.txt:1:7: at <.data.nope>: map has no entry for key "nope"`, out.Fact.Messages[0].Degraded)
	require.Equal(t, plan.Content{
		Subject: "order.placed 1", Text: "order.placed 1\n\nEvent 1 of type order.placed from shop.\nIts own words could not be written.\n",
	}, out.Messages[1].Content, "which event it is")
	require.Empty(t, out.Messages[1].Version)
	require.Contains(t, out.Fact.Messages[1].Degraded, "templates/broken/text.txt:1:7")

	t.Run("and is a dead letter elsewhere, with all messages of the event", func(t *testing.T) {
		p := compile(t, templates, maps("t", plan.Degrade), maps("broken", ""))
		_, err := p.Plan("key", german)
		require.Equal(t, &plan.Error{
			Cause: event.CauseTemplateError, Detail: `route "broken": templates/broken/text.txt:1:7: at <.data.nope>: map has no entry for key "nope"`,
		}, err)
	})
	t.Run("a type and an id that are no words are none in the subject", func(t *testing.T) {
		e := german
		e.ID = "a\r\nBcc: b@example.com"
		out, err := p.Plan("key", e)
		require.NoError(t, err)
		require.Equal(t, "order.placed a  Bcc: b@example.com", out.Messages[1].Content.Subject)
	})
}
