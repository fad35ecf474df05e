package plan_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/dispatcher/plan"
	"tidings/streams/event"
)

// write plans one mail with the text template source and returns what it says.
func write(t *testing.T, source, data string) (string, error) {
	t.Helper()
	p := compile(t, files("greeting/subject.txt", "a", "greeting/text.txt", source), mailRoute(func(r *plan.Route) {
		r.Recipients = `{address: "ann@example.com", name: data.name}`
	}))
	e := placed(data)
	e.OccurredAt = time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC)
	e.Extensions = map[string]string{"region": "eu"}
	got, err := p.Plan(key, e)
	if err != nil {
		return "", err
	}
	return got.Messages[0].Content.Text, nil
}

func TestTemplatesSeeTheEvent(t *testing.T) {
	const data = `{"name":"Ann","n":5,"f":5.50,"big":1234567.5,"huge":123456789012345678901234567890,"tags":["a","b"],"null":null,"zero":0,
		"price":"19.9","at":"2030-02-01T10:00:00+01:00","items":[{"t":"x"},{"t":null}],"no":{"where":null}}`
	for _, c := range []struct{ source, want string }{
		{`{{.id}} {{.source}} {{.type}} {{.tenant}} {{.extensions.region}}`, `1 shop order.placed default eu`},
		{`{{.locale}} {{.recipient.address}} {{.recipient.name}}`, `en ann@example.com Ann`},
		{`{{.data.n}} {{.data.f}} {{.data.big}} {{.data.huge}}`, `5 5.5 1234567.5 1.2345678901234568e+29`},
		{`{{json .data.tags}} {{json .data.f}} {{json .data.name}}`, `["a","b"] 5.5 "Ann"`},
		{`{{date "02.01.2006" .occurred_at}} {{date "15:04" .data.at}}`, `31.01.2030 10:00`},
		{`{{upper .data.name}} {{lower .data.name}} {{join ", " .data.tags}}`, `ANN ann a, b`},
		{`{{number .data.big 2}} {{number .data.n 0}} {{number .data.price 2}}`, `1,234,567.50 5 19.90`},
		{`{{get .data "items.0.t"}}{{get .data "items.7.t"}}{{get .data "no.where.at.all"}}{{get .extensions "region"}}`, `xeu`},
		{`{{get .data "nick" | default "friend"}} {{get .data "name" | default "friend"}} {{.data.zero | default "none"}}`, `friend Ann none`},
		{`{{index .data.items 0 "t"}} {{index .extensions "region"}} {{index .data "n"}}`, `x eu 5`},
		{`{{if get .data "null"}}null{{else}}absent{{end}}`, `absent`},
		{`{{if .data.zero}}yes{{else}}no{{end}}`, `no`},
		{`{{gt .data.f 5}} {{gt .data.n 5}} {{le .data.n 5.0}} {{eq .data.n 5.0}} {{ne .data.name "Bob"}} {{eq .data.name "Bob" "Ann"}} {{lt "a" "b"}} {{ge .occurred_at .occurred_at}}`, `true false true true true true true true`},
		{`{{range .data.items}}[{{get . "t"}}]{{end}}`, `[x][]`},
		{`{{with $x := .data.n}}{{$x}}{{end}}{{define "part"}}<{{.}}>{{end}}{{template "part" .data.name}}`, `5<Ann>`},
	} {
		t.Run(c.source, func(t *testing.T) {
			got, err := write(t, c.source, data)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

func TestATimeThatIsNotGiven(t *testing.T) {
	text := func(t *testing.T, source string, at time.Time) (string, error) {
		p := compile(t, files("greeting/subject.txt", "a", "greeting/text.txt", source), mailRoute(func(r *plan.Route) {
			r.Recipients = `"ann@example.com"`
		}))
		e := placed(`{}`)
		e.OccurredAt = at
		got, err := p.Plan(key, e)
		if err != nil {
			return "", err
		}
		return got.Messages[0].Content.Text, nil
	}
	const idiom = `Order{{with .occurred_at}} of {{date "2 Jan 2006" .}}{{end}}.` // as docs/configuration.md has it
	t.Run("is left out by with, whoever asks for it", func(t *testing.T) {
		for _, source := range []string{idiom, `Order{{with get . "occurred_at"}} of {{date "2 Jan 2006" .}}{{end}}.`} {
			got, err := text(t, source, time.Time{})
			require.NoError(t, err)
			require.Equal(t, "Order.", got)
		}
	})
	t.Run("one that is given is not left out", func(t *testing.T) {
		got, err := text(t, idiom, time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC))
		require.NoError(t, err)
		require.Equal(t, "Order of 31 Jan 2030.", got)
	})
	t.Run("cannot be written as a date", func(t *testing.T) {
		_, err := text(t, `{{date "2 Jan 2006" .occurred_at}}`, time.Time{})
		require.ErrorContains(t, err, `date: no time is given`)
	})
	t.Run("stays out of the mails of the shop", func(t *testing.T) {
		e := shopSamples(t)["01-order-placed"].envelope()
		e.OccurredAt = time.Time{}
		got, err := shopPlanner(t).Plan(key, e)
		require.NoError(t, err)
		require.Contains(t, got.Messages[0].Content.Text, "Ihre Bestellung 1001.\n")
	})
}

func TestAnEventIsPlannedWhole(t *testing.T) {
	p := compile(t, files("greeting/subject.txt", "a", "greeting/text.txt", "{{.data.name}}"),
		plan.Route{Name: "fine", Event: "order.placed", Channel: "shop", Recipients: `"https://example.com/"`}, mailRoute(func(r *plan.Route) {
			r.Recipients = `"ann@example.com"`
		}))
	got, err := p.Plan(key, placed(`{}`))
	require.ErrorContains(t, err, `route "mail": templates/greeting/text.txt:1:7`)
	require.Empty(t, got.Messages, "the other route does not go either")
}

func TestATemplateThatFailsIsADeadLetterThatSaysWhere(t *testing.T) {
	const private = "ann@example.com"
	for _, c := range []struct{ name, source, data, want string }{
		{"an absent member", "Hello\n{{.data.name}}", `{}`, `2:7: at <.data.name>: map has no entry for key "name"`},
		{"a member that is null", "{{.data.name}}", `{"name":null}`, `1:7: at <.data.name>: map has no entry for key "name"`},
		{"a member of what is absent", "\n\n{{.data.customer.name}}", `{}`, `3:7: at <.data.customer.name>: map has no entry for key "customer"`},
		{"a member of a text", "{{.data.customer.name}}", `{"customer":"` + private + `"}`, `1:7: at <.data.customer.name>: can't evaluate field name in type interface {}`},
		{"a time that is none", "{{date \"2006\" .data.at}}", `{"at":"` + private + `"}`, `1:2: at <date "2006" .data.at>: date: want a time such as 2030-01-31T12:00:00Z`},
		{"a number that is none", "{{number .data.n 2}}", `{"n":"` + private + `"}`, `1:2: at <number .data.n 2>: number: want a number and 0 to 20 decimals`},
		{"a comparison of text and number", "{{if gt .data.n 5}}{{end}}", `{"n":"` + private + `"}`, `1:5: at <gt .data.n 5>: gt: want two numbers, two texts or two times`},
		{"an argument of the wrong type", "{{upper .data.n}}", `{"n":["` + private + `"]}`, `1:13: at <.data.n>: a value there is not what is needed`},
		{"an index beyond the end", "{{index .data.list 3}}", `{"list":["` + private + `"]}`, `1:2: at <index .data.list 3>: index: there is no such element`},
		{"an index that is not there", "{{index .data .data.x}}", `{"x":"` + private + `"}`, `1:2: at <index .data .data.x>: index: there is no such element`},
		{"an index into a text", "{{index .data.x 0}}", `{"x":"` + private + `"}`, `1:2: at <index .data.x 0>: index: only a list and an object have elements`},
		{"a loop over a text", "{{range .data.n}}{{.}}{{end}}", `{"n":"` + private + `"}`, `1:13: at <.data.n>: a value there is not what is needed`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := write(t, c.source, c.data)
			require.Equal(t, &plan.Error{
				Cause: event.CauseTemplateError, Detail: `route "mail": templates/greeting/text.txt:` + c.want,
			}, err)
			require.NotContains(t, err.Error(), private)
		})
	}
}

func TestTemplatesAreBounded(t *testing.T) {
	for _, c := range []struct{ name, source, data, want string }{
		{"what loops without a word", "{{range 1000000000}}{{end}}", `{}`, "takes too many steps: does it loop?"},
		{"loops in loops", "{{range $l := .data.l}}{{range $.data.l}}{{range $.data.l}}{{range $.data.l}}{{end}}{{end}}{{end}}{{end}}", `{"l":[` + strings.Repeat("1,", 99) + `1]}`, "takes too many steps: does it loop?"},
		{
			"what calls more and more without a word",
			`{{define "a"}}{{range 100}}{{template "b"}}{{end}}{{end}}{{define "b"}}{{range 100}}{{template "c"}}{{end}}{{end}}{{define "c"}}{{range 100}}{{template "d"}}{{end}}{{end}}{{define "d"}}{{end}}{{template "a"}}`,
			`{}`, "takes too many steps: does it loop?",
		},
		{"what prints 10 MB", "{{range 10000000}}.{{end}}", `{}`, "takes too many steps: does it loop?"},
		{"what prints 10 MB in few words", `{{range 100}}{{printf "%100000d" 1}}{{end}}`, `{}`, "writes more than a message may have"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := write(t, c.source, c.data)
			require.Equal(t, &plan.Error{
				Cause: event.CauseTemplateError, Detail: `route "mail": templates/greeting/text.txt: ` + c.want,
			}, err)
		})
	}
}

func TestAllMessagesOfAnEventTogetherAreBounded(t *testing.T) {
	o := options
	o.MaxOutput = 100
	p, err := plan.Compile(plan.Rules{Routes: []plan.Route{mailRoute(func(r *plan.Route) {
		r.Recipients = `map(1..data.n, string(#) + "@example.com")`
	})}}, files("greeting/subject.txt", "1234567890", "greeting/text.txt", strings.Repeat("a", 90)), o)
	require.NoError(t, err)
	got, err := p.Plan(key, placed(`{"n":64}`))
	require.NoError(t, err)
	require.Len(t, got.Messages, 64)
	_, err = p.Plan(key, placed(`{"n":65}`))
	require.Equal(t, &plan.Error{Cause: event.CauseTemplateError, Detail: `route "mail": the messages of one event have more than 6400 bytes`}, err)
}

func TestTheSubjectIsOneLine(t *testing.T) {
	p := compile(t, greeting, mailRoute())
	for name, want := range map[string]string{
		`Ann`:                     "",
		`Ann\r\nBcc: x@evil.test`: "the subject holds a line break or another control character",
		`Ann\nBob`:                "the subject holds a line break or another control character",
		`Ann\u0000`:               "the subject holds a line break or another control character",
		`Ann\u0085Bob`:            "the subject holds a line break or another control character",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := p.Plan(key, placed(`{"order":1,"email":"ann@example.com","name":"`+name+`"}`))
			if want == "" {
				require.NoError(t, err)
				return
			}
			require.Equal(t, &plan.Error{Cause: event.CauseTemplateError, Detail: `route "mail": templates/greeting/subject.txt: ` + want}, err)
		})
	}
	empty := compile(t, files("greeting/subject.txt", `{{get .data "none"}}`, "greeting/text.txt", "a"), mailRoute())
	_, err := empty.Plan(key, placed(`{"email":"ann@example.com"}`))
	require.Equal(t, &plan.Error{Cause: event.CauseTemplateError, Detail: `route "mail": templates/greeting/subject.txt: the subject is empty`}, err)
}

func TestHTMLIsEscapedByItsContext(t *testing.T) {
	templates := maps.Clone(greeting)
	maps.Copy(templates, files(
		"greeting/html.html", `<p title="{{.data.name}}">{{.data.name}}</p><a href="{{.data.link}}">x</a><script>let n = {{.data.n}}</script>`,
		"greeting/html.de.html", `<p>{{.data.name}}</p>`,
	))
	got, err := compile(t, templates, mailRoute()).Plan(key, placed(`{"order":1,"email":"ann@example.com","name":"<b>\"Ann\"</b>","link":"javascript:alert(1)","n":5.5}`))
	require.NoError(t, err)
	require.Equal(t, `<p title="&lt;b&gt;&#34;Ann&#34;&lt;/b&gt;">&lt;b&gt;&#34;Ann&#34;&lt;/b&gt;</p><a href="#ZgotmplZ">x</a><script>let n =  5.5 </script>`,
		got.Messages[0].Content.HTML)
	require.Equal(t, `Hello <b>"Ann"</b>`, got.Messages[0].Content.Subject, "a subject is text")
}

func TestAWebhookGetsOneBody(t *testing.T) {
	for _, c := range []struct {
		name, file, source, data string
		want                     plan.Content
		err                      string
	}{
		{"JSON", "body.json", `{"sku":{{json .data.sku}}}`, `{"sku":"a\"b"}`, plan.Content{Body: []byte(`{"sku":"a\"b"}`), ContentType: "application/json"}, ""},
		{"XML", "body.xml", `<sku>{{html .data.sku}}</sku>`, `{"sku":"<"}`, plan.Content{Body: []byte(`<sku>&lt;</sku>`), ContentType: "application/xml"}, ""},
		{"text", "body.txt", `{{.data.sku}}`, `{"sku":"<"}`, plan.Content{Body: []byte(`<`), ContentType: "text/plain; charset=utf-8"}, ""},
		{"HTML", "body.html", `{{.data.sku}}`, `{"sku":"<"}`, plan.Content{Body: []byte(`&lt;`), ContentType: "text/html; charset=utf-8"}, ""},
		{"JSON that a value broke", "body.json", `{"sku":"{{.data.sku}}"}`, `{"sku":"a\"b"}`, plan.Content{}, `route "hook": templates/stock/body.json: what it wrote is not JSON: print values with the function json`},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := compile(t, files("stock/"+c.file, c.source), hook(func(r *plan.Route) { r.Template = "stock" }))
			got, err := p.Plan(key, placed(c.data))
			if c.err != "" {
				require.Equal(t, &plan.Error{Cause: event.CauseTemplateError, Detail: c.err}, err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, got.Messages[0].Content)
		})
	}
}

func TestAWebhookWithoutATemplateGetsACloudEvent(t *testing.T) {
	p := compile(t, nil, hook(func(*plan.Route) {}))
	for _, c := range []struct {
		name   string
		change func(*event.Envelope)
		want   string
	}{
		{"JSON stays JSON", func(e *event.Envelope) { e.ContentType, e.Data = "application/json", []byte(`{"a": 1.50, "b":"<>"}`) }, `"datacontenttype":"application/json","data":{"a":1.50,"b":"<>"}`},
		{"undeclared JSON stays JSON", func(e *event.Envelope) { e.Data = []byte(`[1]`) }, `"data":[1]`},
		{"text is text", func(e *event.Envelope) { e.ContentType, e.Data = "text/plain", []byte(`42`) }, `"datacontenttype":"text/plain","data":"42"`},
		{"bytes are base64", func(e *event.Envelope) { e.Data = []byte{0xff, 0} }, `"data_base64":"/wA="`},
		{"no payload", func(e *event.Envelope) { e.ContentType = "application/json" }, `"datacontenttype":"application/json"`},
		{"all attributes", func(e *event.Envelope) {
			e.Subject, e.CorrelationID, e.DataSchema = "s", "c", "https://example.com/schema"
			e.Traceparent, e.Tracestate = "00-1", "x=y"
			e.OccurredAt = time.Date(2030, 1, 31, 12, 0, 0, 5e6, time.UTC)
			e.Extensions = map[string]string{"region": "eu", "data": "x", "id": "x", "specversion": "x"}
		}, `"subject":"s","correlationid":"c","dataschema":"https://example.com/schema","traceparent":"00-1","tracestate":"x=y","time":"2030-01-31T12:00:00.005Z","region":"eu"`},
		{"no source", func(e *event.Envelope) { e.Source = "" }, `"source":"/"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := event.Envelope{Tenant: "default", Source: "shop", ID: "1", Type: "order.placed"}
			c.change(&e)
			got, err := p.Plan(key, e)
			require.NoError(t, err)
			content := got.Messages[0].Content
			require.Equal(t, plan.CloudEventType, content.ContentType)
			var have, want map[string]any
			require.NoError(t, json.Unmarshal(content.Body, &have))
			require.NoError(t, json.Unmarshal([]byte(`{"specversion":"1.0","source":"shop","id":"1","type":"order.placed","tenant":"default",`+c.want+`}`), &want))
			require.Equal(t, want, have)
		})
	}
}

func TestTheContentOfALocaleIsInOneLanguage(t *testing.T) {
	p := compile(t, files("greeting/subject.txt", "{{number .data.n 2}}", "greeting/text.txt", "{{number .data.n 2}}",
		"greeting/subject.de.txt", "{{number .data.n 2}}", "greeting/text.de.txt", "{{number .data.n 2}}"),
		mailRoute(func(r *plan.Route) {
			r.Recipients = `[{address: "a@example.com", locale: "de"}, "b@example.com"]`
		}))
	got, err := p.Plan(key, placed(`{"n":1234.5}`))
	require.NoError(t, err)
	require.Equal(t, plan.Content{Subject: "1.234,50", Text: "1.234,50"}, got.Messages[0].Content)
	require.Equal(t, plan.Content{Subject: "1,234.50", Text: "1,234.50"}, got.Messages[1].Content)
}
