package email_test

import (
	"bytes"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tidings/dispatcher/channel"
	"tidings/dispatcher/channel/channeltest/sink"
	"tidings/dispatcher/channel/email"
	"tidings/streams/event"
)

func TestTheMailIsWhatTheMessageSays(t *testing.T) {
	server := startSMTP(t, sink.SMTPOptions{})
	sender := newSender(t, server, email.Config{
		StartTLS: email.None, From: "Bücher-Laden <shop@bücher.example>", ReplyTo: "help@shop.example",
	})
	m := channel.Message{
		ID: "abc-_123.g2", To: "Ada Lovelace <ada@example.com>", Subject: "Ihre Bestellung ist unterwegs – 12 €",
		Text: "Grüße\n.\n..leading dots\nlast", HTML: "<p>Grüße &amp; Küsse</p>",
		Headers: map[string]string{"x-order": "A–1"},
	}

	receipt, err := sender.Send(t.Context(), m)
	require.NoError(t, err)
	require.Equal(t, channel.Receipt{Code: "smtp_250", Provider: server.Addr()}, receipt)

	got := server.Mails()[0]
	require.Equal(t, "shop@xn--bcher-kva.example", got.From)
	require.Equal(t, []string{"ada@example.com"}, got.To)
	require.Equal(t, "abc-_123.g2@xn--bcher-kva.example", got.MessageID)
	require.Equal(t, m.Subject, got.Subject)
	require.Equal(t, "<abc-_123.g2@xn--bcher-kva.example>", got.Header.Get("Message-ID"))
	require.Equal(t, "auto-generated", got.Header.Get("Auto-Submitted"))
	require.Equal(t, "<help@shop.example>", got.Header.Get("Reply-To"))
	require.Equal(t, "A–1", decoded(t, got.Header.Get("X-Order")))
	require.Empty(t, got.Header.Get("User-Agent")+got.Header.Get("X-Mailer"), "nobody needs to know")
	date, err := got.Header.Date()
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), date, time.Hour)
	from, err := got.Header.AddressList("From")
	require.NoError(t, err)
	require.Equal(t, "Bücher-Laden", from[0].Name)

	require.Equal(t, []part{
		{"text/plain", strings.ReplaceAll(m.Text, "\n", "\r\n")},
		{"text/html", m.HTML},
	}, parts(t, got.Raw))
}

func TestAMailOfOneKindHasOnePart(t *testing.T) {
	server := startSMTP(t, sink.SMTPOptions{})
	sender := newSender(t, server, email.Config{StartTLS: email.None})
	text, html := message("m-1"), message("m-2")
	text.HTML, html.Text = "", ""

	for _, m := range []channel.Message{text, html} {
		_, err := sender.Send(t.Context(), m)
		require.NoError(t, err)
	}

	require.Equal(t, []part{{"text/plain", text.Text}}, parts(t, server.Mails()[0].Raw))
	require.Equal(t, []part{{"text/html", html.HTML}}, parts(t, server.Mails()[1].Raw))
}

func TestWhatAMailCarriesSurvives(t *testing.T) {
	server := startSMTP(t, sink.SMTPOptions{Keep: 10_000})
	sender := newSender(t, server, email.Config{StartTLS: email.None})
	line := rapid.StringOfN(rapid.Rune().Filter(func(r rune) bool { return !strings.ContainsRune("\r\n\x00", r) }), 0, 200, -1)
	body := rapid.StringN(1, 500, -1)

	rapid.Check(t, func(t *rapid.T) {
		m := channel.Message{
			ID: "m-1", To: "ada@example.com", Subject: line.Draw(t, "subject"),
			Text: body.Draw(t, "text"), Headers: map[string]string{"X-Note": line.Draw(t, "header")},
		}
		before := server.Count()

		_, err := sender.Send(t.Context(), m)
		require.NoError(t, err)

		got := server.Mails()[before]
		require.Equal(t, squeezed(m.Subject), squeezed(got.Subject))
		require.Equal(t, squeezed(m.Headers["X-Note"]), squeezed(decoded(t, got.Header.Get("X-Note"))))
		require.Len(t, got.Header, 10, "no header but the mail's: %v", got.Header)
		require.Equal(t, normalized(m.Text), normalized(parts(t, got.Raw)[0].content))
	})
}

// squeezed leaves out white space, which folding may change.
func squeezed(s string) string { return strings.Join(strings.Fields(s), "") }

// normalized makes every kind of line break one. A mail ends with one.
func normalized(s string) string {
	return strings.TrimRight(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(s), "\n")
}

func TestMessagesThatCannotBeMailed(t *testing.T) {
	header := func(name, value string) func(*channel.Message) {
		return func(m *channel.Message) { m.Headers = map[string]string{name: value} }
	}
	to := func(to string) func(*channel.Message) { return func(m *channel.Message) { m.To = to } }

	for name, c := range map[string]struct {
		change func(*channel.Message)
		code   string
	}{
		"no address":                   {to(""), channel.CodeInvalidAddress},
		"a word for an address":        {to("secret"), channel.CodeInvalidAddress},
		"nothing before the @":         {to("@secret.example"), channel.CodeInvalidAddress},
		"nothing after the @":          {to("secret@"), channel.CodeInvalidAddress},
		"two addresses":                {to("a@b.example, secret@d.example"), channel.CodeInvalidAddress},
		"a URL":                        {to("https://secret.example"), channel.CodeInvalidAddress},
		"an address with a break":      {to("a@b.example\r\nBcc: secret@d.example"), channel.CodeInvalidAddress},
		"an address with a command":    {to("a@b.example>\nDATA\n"), channel.CodeInvalidAddress},
		"an address with a NUL":        {to("a@b.example\x00"), channel.CodeInvalidAddress},
		"a domain that cannot be":      {to("secret@\u0300a.example"), channel.CodeInvalidAddress},
		"an endless address":           {to(strings.Repeat("secret", 100) + "@example.com"), channel.CodeInvalidAddress},
		"a subject with a break":       {func(m *channel.Message) { m.Subject = "a\nBcc: secret@d.example" }, channel.CodeInvalidHeader},
		"a subject with a NUL":         {func(m *channel.Message) { m.Subject = "a\x00secret" }, channel.CodeInvalidHeader},
		"a subject of an endless word": {func(m *channel.Message) { m.Subject = strings.Repeat("secret", 200) }, channel.CodeInvalidHeader},
		"no id":                        {func(m *channel.Message) { m.ID = "" }, channel.CodeInvalidHeader},
		"an id with a bracket":         {func(m *channel.Message) { m.ID = "a>" }, channel.CodeInvalidHeader},
		"an id with an @":              {func(m *channel.Message) { m.ID = "a@b" }, channel.CodeInvalidHeader},
		"a header without a name":      {header("", "secret"), channel.CodeInvalidHeader},
		"a header with a colon":        {header("a:b", "secret"), channel.CodeInvalidHeader},
		"a header beyond ASCII":        {header("ü", "secret"), channel.CodeInvalidHeader},
		"a header with a break":        {header("X-A", "b\r\nBcc: secret@d.example"), channel.CodeInvalidHeader},
		"another recipient":            {header("bcc", "secret@d.example"), channel.CodeInvalidHeader},
		"another sender":               {header("From", "secret@d.example"), channel.CodeInvalidHeader},
		"another id":                   {header("MESSAGE-ID", "<secret@d>"), channel.CodeInvalidHeader},
		"another type":                 {header("Content-Type", "secret"), channel.CodeInvalidHeader},
		"neither text nor HTML":        {func(m *channel.Message) { m.Text, m.HTML = "", "" }, channel.CodeInvalidMessage},
	} {
		t.Run(name, func(t *testing.T) {
			sender, err := email.New(email.Config{Host: "127.0.0.1", Port: 1, From: "a@b.example"})
			require.NoError(t, err)
			m := message("m-1")
			c.change(&m)

			_, err = sender.Send(t.Context(), m)

			result, code, _ := channel.Classify(err)
			require.Equal(t, event.TryPermanent, result, "%v", err)
			require.Equal(t, c.code, code)
			require.NotContains(t, err.Error(), "secret")
		})
	}
}

// FuzzAddress ensures that whatever is taken for an address reaches the server
// as one recipient.
func FuzzAddress(f *testing.F) {
	for _, seed := range []string{
		"ada@example.com", "Ada <ada@example.com>", `"a b"@example.com`, `"a\"b>"@example.com`,
		"ada@[127.0.0.1]", "ada@bücher.example", "grüße@example.com", "(c) ada@example.com", "<a@b>c",
	} {
		f.Add(seed)
	}
	server, err := sink.StartSMTP(sink.SMTPOptions{Keep: 1 << 20})
	require.NoError(f, err)
	f.Cleanup(func() { require.NoError(f, server.Close()) })
	sender, err := email.New(email.Config{Host: server.Host(), Port: server.Port(), From: "a@b.example", StartTLS: email.None})
	require.NoError(f, err)

	f.Fuzz(func(t *testing.T, to string) {
		m := message("m-1")
		m.To = to
		before := server.Count()

		_, err := sender.Send(t.Context(), m)
		if err != nil {
			result, _, _ := channel.Classify(err)
			require.Equal(t, event.TryPermanent, result, "%v", err)
			require.Equal(t, before, server.Count())
			return
		}
		require.Len(t, server.Mails()[before].To, 1)
		list, err := server.Mails()[before].Header.AddressList("To")
		require.NoError(t, err)
		require.Len(t, list, 1)
	})
}

func decoded(t require.TestingT, header string) string {
	s, err := new(mime.WordDecoder).DecodeHeader(header)
	require.NoError(t, err)
	return s
}

type part struct{ kind, content string }

// parts takes a mail apart, by other code than put it together.
func parts(t require.TestingT, raw []byte) []part {
	m, err := mail.ReadMessage(bytes.NewReader(raw))
	require.NoError(t, err)
	kind, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	require.NoError(t, err)
	if !strings.HasPrefix(kind, "multipart/") {
		content, err := io.ReadAll(quotedprintable.NewReader(m.Body))
		require.NoError(t, err)
		return []part{{kind, strings.TrimSuffix(string(content), "\r\n")}}
	}
	require.Equal(t, "multipart/alternative", kind)
	var found []part
	for r := multipart.NewReader(m.Body, params["boundary"]); ; {
		p, err := r.NextPart()
		if err == io.EOF {
			return found
		}
		require.NoError(t, err)
		content, err := io.ReadAll(p)
		require.NoError(t, err)
		kind, _, err := mime.ParseMediaType(p.Header.Get("Content-Type"))
		require.NoError(t, err)
		found = append(found, part{kind, string(content)})
	}
}
