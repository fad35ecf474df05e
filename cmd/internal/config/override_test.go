package config_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"tidings/cmd/internal/config"
)

const twoProviders = `
channels:
  mail:
    kind: email
    from: shop@example.com
    username: shop
    password: of-all
    rate: 5/s
    breaker: {failures: 7}
    providers:
      - {name: ses, host: ses.example, password_file: ses.txt, breaker: {open_for: 1m}}
      - {name: backup, host: mx.example, rate: 1/s}
tenants:
  acme:
    channels:
      mail: {from: acme@example.com, username: acme, password_file: acme.txt}
  globex:
    channels:
      mail:
        from: globex@example.com
        providers: [{name: backup, username: globex, password: of-globex}]
`

func TestProvidersAndTenantsChangeKeysOfAChannel(t *testing.T) {
	c := loaded(t, twoProviders, "TIDINGS_CHANNELS_MAIL_PASSWORD=from-env", "TIDINGS_CHANNELS_MAIL_PROVIDERS_BACKUP_PORT=2525")
	require.NoError(t, c.Validate())
	mail := c.Channels["mail"]
	ses, backup := mail.Providers[0], mail.Providers[1]
	require.Equal(t, []string{"ses", "backup"}, []string{ses.Name, backup.Name})
	require.Equal(t, "ses.example", ses.Channel.Email.Host)
	require.Equal(t, "shop", ses.Channel.Email.Username)
	require.Equal(t, "in ses.txt", ses.Channel.Email.Password.Reveal(), "its own, and not the one of all")
	require.Equal(t, 7, ses.Channel.Tuning.Breaker.Failures)
	require.Equal(t, "1m0s", ses.Channel.Tuning.Breaker.OpenFor.Std().String())
	require.EqualValues(t, "5/s", ses.Channel.Tuning.Rate)
	require.EqualValues(t, "1/s", backup.Channel.Tuning.Rate)
	require.Equal(t, "from-env", backup.Channel.Email.Password.Reveal(), "it has none of its own")
	require.Equal(t, 2525, backup.Channel.Email.Port)
	require.Zero(t, ses.Channel.Email.Port)

	acme := c.Tenants["acme"].Channels["mail"].Channel
	require.Len(t, acme.Providers, 2)
	for i, host := range []string{"ses.example", "mx.example"} {
		e := acme.Providers[i].Channel.Email
		require.Equal(t, host, e.Host)
		require.Equal(t, "acme@example.com", e.From)
		require.Equal(t, "acme", e.Username)
		require.Equal(t, "in acme.txt", e.Password.Reveal())
	}
	globex := c.Tenants["globex"].Channels["mail"].Channel
	require.Len(t, globex.Providers, 1)
	e := globex.Providers[0].Channel.Email
	require.Equal(t, []string{"mx.example", "globex@example.com", "globex", "of-globex"}, []string{e.Host, e.From, e.Username, e.Password.Reveal()})
	require.EqualValues(t, "1/s", globex.Providers[0].Channel.Tuning.Rate)
	require.Equal(t, "shop@example.com", mail.Email.From, "and nobody else is changed")

	var printed bytes.Buffer
	require.NoError(t, c.Print(&printed))
	for _, secret := range []string{"in ses.txt", "in acme.txt", "of-globex", "from-env", "of-all"} {
		require.NotContains(t, printed.String(), secret)
	}
	require.Contains(t, printed.String(), "- name: ses  # ")
}

func TestOverridesThatCannotWork(t *testing.T) {
	const base = "channels:\n  mail:\n    kind: email\n    host: mx\n    from: a@example.com\n    username: all\n    password: secret\n"
	const tenant = base + "tenants:\n  acme:\n    channels:\n"
	for name, c := range map[string]struct{ file, err string }{
		"an unknown key": {base + "    providers:\n      - {name: a, hots: mx}\n", `:9:19: unknown key "hots"`},
		"how often a message is tried": {
			base + "    providers:\n      - {name: a, tries: 5}\n", "tries is of the channel, not of one of its providers",
		},
		"another kind": {base + "    providers:\n      - {name: a, kind: webhook}\n", "the providers of a channel are of its kind, which is email"},
		"no name":      {base + "    providers:\n      - {host: b}\n", "channels.mail.providers[0].name: a provider's name has 1 to 64"},
		"two of a name": {
			base + "    providers:\n      - {name: a}\n      - {name: a}\n", `tidings.yaml:10: channels.mail.providers[1].name: there is a provider "a" before this one`,
		},
		"what a provider lacks": {
			"channels:\n  mail:\n    kind: email\n    from: a@example.com\n    providers:\n      - {name: a, host: mx}\n      - {name: b}\n",
			"channels.mail.providers[1]: ",
		},
		"a channel that nobody has": {tenant + "      post: {from: b@example.com}\n", `tenants.acme.channels.post: there is no channel "post"`},
		"another user with the password of all": {
			tenant + "      mail: {username: acme}\n", "tenants.acme.channels.mail.password: is missing: a user name of the tenant's own needs a password of its own",
		},
		"another server with the password of all": {
			tenant + "      mail: {host: mx.acme.example}\n", "tenants.acme.channels.mail.username: is missing",
		},
		"another kind for a tenant": {tenant + "      mail: {kind: webhook}\n", `channel "mail" is of kind email for everybody`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := config.Load(write(t, c.file), nil)
			if err == nil {
				err = got.Validate()
			}
			require.ErrorContains(t, err, c.err)
			require.NotContains(t, err.Error(), "secret")
		})
	}
}

func write(t *testing.T, text string) string {
	path := filepath.Join(t.TempDir(), "tidings.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func loaded(t *testing.T, text string, environ ...string) config.Config {
	path := write(t, text)
	for _, name := range []string{"ses", "acme"} {
		require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(path), name+".txt"), []byte("in "+name+".txt\n"), 0o600))
	}
	c, err := config.Load(path, environ)
	require.NoError(t, err)
	return c
}
