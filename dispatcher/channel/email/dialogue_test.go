package email_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/dispatcher/channel"
	"tidings/dispatcher/channel/channeltest/sink"
	"tidings/dispatcher/channel/email"
	"tidings/streams/event"
)

func TestRepliesAreInstructions(t *testing.T) {
	delivered, permanent, transient, unknown := event.TryDelivered, event.TryPermanent, event.TryTransient, event.TryUnknown

	for name, c := range map[string]struct {
		script script
		result event.TryResult
		code   string
	}{
		"every verb gets a yes": {script{}, delivered, ""},

		// The session.
		"greeting refused for now":         {script{"GREETING": "421 4.3.2 closing"}, transient, "smtp_421_4.3.2"},
		"greeting refused":                 {script{"GREETING": "554 no mail from you"}, transient, "smtp_554"},
		"greeting cut":                     {script{"GREETING": cut}, transient, "connection_lost"},
		"greeting that is not SMTP":        {script{"GREETING": "secret words"}, transient, "invalid_answer"},
		"EHLO refused, HELO taken":         {script{"EHLO": "502 what?"}, delivered, ""},
		"EHLO and HELO refused":            {script{"EHLO": "550 5.7.1 no", "HELO": "550 5.7.1 no"}, transient, "smtp_550_5.7.1"},
		"MAIL wants a login":               {script{"MAIL": "530 5.7.0 log in"}, transient, "smtp_530_5.7.0"},
		"the body wants a login":           {script{"END": "530 5.7.0 log in"}, transient, "smtp_530_5.7.0"},
		"MAIL wants a login of its choice": {script{"MAIL": "535 5.7.8 no"}, transient, "smtp_535_5.7.8"},

		// The mail.
		"MAIL refused":                     {script{"MAIL": "550 5.7.1 secret words"}, permanent, "smtp_550_5.7.1"},
		"MAIL refused for now":             {script{"MAIL": "451 4.7.24 SPF"}, transient, "smtp_451_4.7.24"},
		"MAIL cut":                         {script{"MAIL": cut}, transient, "connection_lost"},
		"RCPT unknown":                     {script{"RCPT": "550 5.1.1 <secret@example.com> unknown"}, permanent, "smtp_550_5.1.1"},
		"RCPT unknown, in several lines":   {script{"RCPT": "550-5.1.1 secret\r\n550 5.1.1 unknown"}, permanent, "smtp_550_5.1.1"},
		"RCPT forwarded":                   {script{"RCPT": "251 will forward"}, delivered, ""},
		"RCPT full":                        {script{"RCPT": "452 4.2.2 full"}, transient, "smtp_452_4.2.2"},
		"RCPT greylisted":                  {script{"RCPT": "450 4.7.1 later"}, transient, "smtp_450_4.7.1"},
		"RCPT rate limited":                {script{"RCPT": "421 4.7.28 too many"}, transient, "smtp_421_4.7.28"},
		"RCPT without an enhanced code":    {script{"RCPT": "553 secret"}, permanent, "smtp_553"},
		"RCPT with one of another class":   {script{"RCPT": "450 5.1.1 strange"}, transient, "smtp_450"},
		"RCPT with one that is no code":    {script{"RCPT": "450 4.1.1111 strange"}, transient, "smtp_450"},
		"RCPT answered with a 354":         {script{"RCPT": "354 strange"}, transient, "smtp_354"},
		"RCPT cut":                         {script{"RCPT": cut}, transient, "connection_lost"},
		"DATA refused":                     {script{"DATA": "554 5.5.1 no"}, permanent, "smtp_554_5.5.1"},
		"DATA refused for now":             {script{"DATA": "451 4.3.0 later"}, transient, "smtp_451_4.3.0"},
		"DATA cut":                         {script{"DATA": cut}, transient, "connection_lost"},
		"DATA answered with no SMTP":       {script{"DATA": "secret"}, transient, "invalid_answer"},
		"body refused":                     {script{"END": "552 5.3.4 too large"}, permanent, "smtp_552_5.3.4"},
		"body refused for now":             {script{"END": "451 4.3.0 later"}, transient, "smtp_451_4.3.0"},
		"body answered by a closing":       {script{"END": "421 4.4.2 closing"}, transient, "smtp_421_4.4.2"},
		"body taken with another yes":      {script{"END": "252 2.0.0 yes"}, delivered, ""},
		"body answered with a 354":         {script{"END": "354 more"}, unknown, "smtp_354"},
		"body answered with no SMTP":       {script{"END": "secret"}, unknown, "invalid_answer"},
		"body cut":                         {script{"END": cut}, unknown, "connection_lost"},
		"cut after the yes":                {script{"QUIT": cut}, delivered, ""},
		"no farewell from a refused RCPT":  {script{"RCPT": "550 5.1.1 no", "QUIT": cut}, permanent, "smtp_550_5.1.1"},
		"a farewell that is not SMTP":      {script{"QUIT": "secret"}, delivered, ""},
		"extensions that nobody has named": {script{"EHLO": "250-script\r\n250-8BITMIME\r\n250-SIZE 1\r\n250 X"}, delivered, ""},
	} {
		t.Run(name, func(t *testing.T) {
			result, code, err := sendTo(t, c.script, email.Config{StartTLS: email.None}, message("m-1"))
			require.Equal(t, c.result, result, "%v", err)
			require.Equal(t, c.code, code)
		})
	}
}

// sendTo sends one message to a script and returns how it ended.
func sendTo(t *testing.T, s script, c email.Config, m channel.Message) (event.TryResult, string, error) {
	t.Helper()
	c.Host, c.Port, c.From = "127.0.0.1", s.serve(t), "shop@shop.example"
	sender, err := email.New(c)
	require.NoError(t, err)
	receipt, err := sender.Send(t.Context(), m)
	require.NotEmpty(t, receipt.Provider)
	if err != nil {
		require.NotContains(t, err.Error(), "secret")
	}
	result, code, after := channel.Classify(err)
	require.Zero(t, after)
	return result, code, err
}

func TestEncryption(t *testing.T) {
	offers := script{"EHLO": "250-script\r\n250 STARTTLS"}
	for name, c := range map[string]struct {
		script script
		policy email.StartTLS
		result event.TryResult
		code   string
	}{
		"is mandatory unless told otherwise":        {script{}, "", event.TryTransient, "starttls_unsupported"},
		"that is opportunistic can be missing":      {script{}, email.Opportunistic, event.TryDelivered, ""},
		"that is not wanted is not asked for":       {offers, email.None, event.TryDelivered, ""},
		"that fails is not done without":            {offers, email.Opportunistic, event.TryTransient, channel.CodeTLSFailed},
		"that the server refuses is worth a repeat": {script{"EHLO": offers["EHLO"], "STARTTLS": "454 4.7.0 no"}, email.Mandatory, event.TryTransient, "smtp_454_4.7.0"},
		"that the server ends is worth a repeat":    {script{"EHLO": offers["EHLO"], "STARTTLS": cut}, email.Mandatory, event.TryTransient, channel.CodeTLSFailed},
	} {
		t.Run(name, func(t *testing.T) {
			result, code, err := sendTo(t, c.script, email.Config{StartTLS: c.policy}, message("m-1"))
			require.Equal(t, c.result, result, "%v", err)
			require.Equal(t, c.code, code)
		})
	}
}

func TestCertificatesAreVerified(t *testing.T) {
	config, ca := certificate(t)
	for name, c := range map[string]struct {
		o      sink.SMTPOptions
		c      email.Config
		result event.TryResult
		code   string
		tls    bool
	}{
		"STARTTLS with a trusted one":          {sink.SMTPOptions{TLS: config}, email.Config{CAFile: ca}, event.TryDelivered, "", true},
		"STARTTLS with one nobody vouches for": {sink.SMTPOptions{TLS: config}, email.Config{}, event.TryTransient, channel.CodeTLSFailed, false},
		"STARTTLS if possible, the same":       {sink.SMTPOptions{TLS: config}, email.Config{StartTLS: email.Opportunistic}, event.TryTransient, channel.CodeTLSFailed, false},
		"implicit TLS with a trusted one":      {sink.SMTPOptions{TLS: config, Implicit: true}, email.Config{ImplicitTLS: true, CAFile: ca}, event.TryDelivered, "", true},
		"implicit TLS with another":            {sink.SMTPOptions{TLS: config, Implicit: true}, email.Config{ImplicitTLS: true}, event.TryTransient, channel.CodeTLSFailed, false},
		"implicit TLS to a server in clear":    {sink.SMTPOptions{}, email.Config{ImplicitTLS: true}, event.TryTransient, channel.CodeTLSFailed, false},
	} {
		t.Run(name, func(t *testing.T) {
			server := startSMTP(t, c.o)

			_, err := newSender(t, server, c.c).Send(t.Context(), message("m-1"))

			result, code, _ := channel.Classify(err)
			require.Equal(t, c.result, result, "%v", err)
			require.Equal(t, c.code, code)
			require.Equal(t, c.tls, server.Count() == 1 && server.Mails()[0].TLS)
		})
	}
}

func TestLogin(t *testing.T) {
	offer := func(mechs string) script { return script{"EHLO": "250-script\r\n250 AUTH " + mechs} }
	with := func(s script, verb, answer string) script { s[verb] = answer; return s }
	for name, c := range map[string]struct {
		script script
		auth   email.Auth
		result event.TryResult
		code   string
	}{
		"by PLAIN":                          {offer("PLAIN"), "", event.TryDelivered, ""},
		"by XOAUTH2 if that is configured":  {offer("PLAIN XOAUTH2"), email.XOAuth2, event.TryDelivered, ""},
		"that is wrong is not the mail's":   {with(offer("PLAIN"), "AUTH", "535 5.7.8 secret"), "", event.TryTransient, "smtp_535_5.7.8"},
		"that is not possible now":          {with(offer("PLAIN"), "AUTH", "454 4.7.0 later"), "", event.TryTransient, "smtp_454_4.7.0"},
		"that is not offered":               {script{}, "", event.TryTransient, "auth_unsupported"},
		"that is offered in another way":    {offer("GSSAPI"), "", event.TryTransient, "auth_unsupported"},
		"only as configured":                {offer("PLAIN"), email.CramMD5, event.TryTransient, "auth_unsupported"},
		"with a challenge that is no match": {with(offer("SCRAM-SHA-256"), "AUTH", "334 c2VjcmV0"), "", event.TryTransient, "auth_failed"},
		"with a challenge that is no text":  {with(offer("SCRAM-SHA-256"), "AUTH", "334 %%%"), "", event.TryTransient, "auth_failed"},
		"that is cut":                       {with(offer("PLAIN"), "AUTH", cut), "", event.TryTransient, channel.CodeConnectionLost},
	} {
		t.Run(name, func(t *testing.T) {
			config := email.Config{StartTLS: email.None, Username: "u", Password: "secret", Auth: c.auth}
			result, code, err := sendTo(t, c.script, config, message("m-1"))
			require.Equal(t, c.result, result, "%v", err)
			require.Equal(t, c.code, code)
		})
	}
	t.Run("is checked by a real server", func(t *testing.T) {
		server := startSMTP(t, sink.SMTPOptions{Username: "u", Password: "p"})
		config := email.Config{StartTLS: email.None, Username: "u", Password: "p"}

		_, err := newSender(t, server, config).Send(t.Context(), message("m-1"))
		require.NoError(t, err)
		require.Equal(t, "u", server.Mails()[0].User)

		config.Password = "secret"
		_, err = newSender(t, server, config).Send(t.Context(), message("m-2"))
		_, code, _ := channel.Classify(err)
		require.Equal(t, "smtp_535_5.7.8", code)
		require.NotContains(t, err.Error(), "secret")
	})
}

func TestAMailboxBeyondASCIINeedsAServerThatTakesIt(t *testing.T) {
	m := message("m-1")
	m.To = "grüße@example.com"
	server := startSMTP(t, sink.SMTPOptions{})

	_, err := newSender(t, server, email.Config{StartTLS: email.None}).Send(t.Context(), m)
	require.NoError(t, err)
	require.Equal(t, []string{"grüße@example.com"}, server.Mails()[0].To)
	require.True(t, server.Mails()[0].UTF8)

	result, code, _ := sendTo(t, script{}, email.Config{StartTLS: email.None}, m)
	require.Equal(t, event.TryPermanent, result)
	require.Equal(t, "smtputf8_unsupported", code)

	m.To = "ada@example.com"
	_, err = newSender(t, server, email.Config{StartTLS: email.None}).Send(t.Context(), m)
	require.NoError(t, err)
	require.False(t, server.Mails()[1].UTF8, "what needs no extension asks for none: the next server may not have it")
}

func TestTheFarewellIsNotWaitedFor(t *testing.T) {
	port := script{"QUIT": hang}.serve(t)
	sender, err := email.New(email.Config{Host: "127.0.0.1", Port: port, From: "a@b.example", StartTLS: email.None})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()

	receipt, err := sender.Send(ctx, message("m-1"))

	require.NoError(t, err)
	require.Equal(t, "smtp_250", receipt.Code)
	require.NoError(t, ctx.Err())
}
