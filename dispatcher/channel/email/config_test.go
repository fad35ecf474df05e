package email_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"tidings/dispatcher/channel/email"
)

func TestNewTellsEverythingThatIsWrong(t *testing.T) {
	_, err := email.New(email.Config{
		Host: "mail.example.com:587", Port: 70_000, StartTLS: "maybe", CAFile: filepath.Join(t.TempDir(), "none.pem"),
		From: "nobody", ReplyTo: "nobody", HELO: "a b", Timeout: -1, Password: "secret",
	})

	for _, part := range []string{
		"host:", "port:", "STARTTLS:", "CA file:", "from:", "reply to:", "HELO:", "timeout:", "login: there is no user name",
	} {
		require.ErrorContains(t, err, part)
	}
	require.NotContains(t, err.Error(), "secret")
}

func TestConfigurations(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*email.Config)
		wrong  string // empty if it is right
	}{
		"the least":                            {func(*email.Config) {}, ""},
		"an address for a host":                {func(c *email.Config) { c.Host = "2001:db8::1" }, ""},
		"no host":                              {func(c *email.Config) { c.Host = "" }, "host:"},
		"an address for HELO":                  {func(c *email.Config) { c.HELO = "[192.0.2.1]" }, ""},
		"an address of six for HELO":           {func(c *email.Config) { c.HELO = "[IPv6:2001:db8::1]" }, ""},
		"a HELO with half a bracket":           {func(c *email.Config) { c.HELO = "[192.0.2.1" }, "HELO:"},
		"a HELO with a break":                  {func(c *email.Config) { c.HELO = "a\r\nQUIT" }, "HELO:"},
		"no sender":                            {func(c *email.Config) { c.From = "" }, "from:"},
		"a sender beyond ASCII":                {func(c *email.Config) { c.From = "grüße@example.com" }, "from:"},
		"a reply address beyond ASCII":         {func(c *email.Config) { c.ReplyTo = "grüße@example.com" }, "reply to:"},
		"a login":                              {func(c *email.Config) { c.Username, c.Password = "u", "p" }, ""},
		"a login without a password":           {func(c *email.Config) { c.Username = "u" }, "no password"},
		"a login of a kind that is unknown":    {func(c *email.Config) { c.Username, c.Password, c.Auth = "u", "p", "ntlm" }, "auth:"},
		"a login in the clear":                 {func(c *email.Config) { c.Username, c.Password, c.StartTLS = "u", "p", email.None }, "in the clear"},
		"a login in the clear to this machine": {func(c *email.Config) { c.Host, c.Username, c.Password, c.StartTLS = "localhost", "u", "p", email.None }, ""},
		"implicit TLS":                         {func(c *email.Config) { c.ImplicitTLS = true }, ""},
		"implicit TLS and STARTTLS":            {func(c *email.Config) { c.ImplicitTLS, c.StartTLS = true, email.Mandatory }, "implicit TLS"},
		"a port":                               {func(c *email.Config) { c.Port = 25 }, ""},
		"a negative port":                      {func(c *email.Config) { c.Port = -1 }, "port:"},
		"a sender with a name and an international domain": {func(c *email.Config) { c.From = "Bücher <a@bücher.example>" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			config := email.Config{Host: "mail.example.com", From: "shop@example.com"}
			c.change(&config)

			_, err := email.New(config)

			if c.wrong == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.wrong)
		})
	}
}
