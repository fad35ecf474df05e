package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/cmd/internal/config"
	"tidings/dispatcher/plan"
)

// load writes text as tidings.yaml into an empty directory and loads it from there.
func load(t *testing.T, text string, environ ...string) (config.Config, error) {
	t.Helper()
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("tidings.yaml", []byte(text), 0o600))
	return config.Load("tidings.yaml", environ)
}

func TestLoadOrder(t *testing.T) {
	t.Run("without file and environment there are the defaults, and they are valid", func(t *testing.T) {
		c, err := config.Load("", nil)
		require.NoError(t, err)
		require.Equal(t, config.Default(), c)
		require.NoError(t, c.Validate())
	})
	t.Run("an empty file changes nothing", func(t *testing.T) {
		c, err := load(t, "\n# nothing yet\n")
		require.NoError(t, err)
		require.Equal(t, config.Default(), c)
	})
	t.Run("a section whose keys are all commented out changes nothing", func(t *testing.T) {
		c, err := load(t, "api:\n  # listen: 0.0.0.0:1\nstaleness:\npolicy:\nchannels:\n")
		require.NoError(t, err)
		require.EqualExportedValues(t, config.Default(), c)
	})
	t.Run("the file changes what it names and nothing else", func(t *testing.T) {
		c, err := load(t, "api: {listen: 127.0.0.1:9000}\npolicy: {tries: 5}\n")
		require.NoError(t, err)
		want := config.Default()
		want.API.Listen, want.Policy.Tries = "127.0.0.1:9000", 5
		require.EqualExportedValues(t, want, c)
	})
	t.Run("the environment wins over the file", func(t *testing.T) {
		c, err := load(t, "staleness: 24h\namqp: {url: amqp://file, window: 7}\n",
			"TIDINGS_STALENESS=48h", "AMQP_URL=amqp://env", "HOME=/nowhere")
		require.NoError(t, err)
		require.Equal(t, config.Duration(48*time.Hour), c.Staleness)
		require.Equal(t, "amqp://env", c.AMQP.URL.Reveal())
		require.Equal(t, 7, c.AMQP.Window)
	})
	t.Run("the variable of our own name wins over the one that others read too", func(t *testing.T) {
		c, err := config.Load("", []string{"TIDINGS_AMQP_URL=amqp://own", "AMQP_URL=amqp://other", "NATS_URL=nats://other"})
		require.NoError(t, err)
		require.Equal(t, "amqp://own", c.AMQP.URL.Reveal())
		require.Equal(t, "nats://other", c.NATS.URL.Reveal())
	})
	t.Run("an empty variable counts as not set", func(t *testing.T) {
		c, err := config.Load("", []string{"TIDINGS_STALENESS=", "TIDINGS_NO_SUCH_KEY=", "AMQP_URL="})
		require.NoError(t, err)
		require.Equal(t, config.Default(), c)
	})
	t.Run("templates are relative to the file, data to the working directory", func(t *testing.T) {
		dir := t.TempDir()
		path := filepath.Join(dir, "tidings.yaml")
		require.NoError(t, os.WriteFile(path, []byte("templates: templates\ndata: here\n"), 0o600))
		c, err := config.Load(path, nil)
		require.NoError(t, err)
		require.Equal(t, filepath.Join(dir, "templates"), c.Templates)
		require.Equal(t, "here", c.Data)
	})
}

func TestLoadValues(t *testing.T) {
	t.Run("every kind of value can be set by a variable", func(t *testing.T) {
		c, err := load(t, "channels: {partner-hook: {kind: webhook}}\n",
			"TIDINGS_DATA=/data", "TIDINGS_AMQP_WINDOW=12", "TIDINGS_POLICY_FACTOR=1.5",
			"TIDINGS_ACCEPT_DUPLICATES_AFTER_HORIZON=true", "TIDINGS_POLICY_ROUNDS=1m, 2m",
			"TIDINGS_IDENTITY=tenant,id", "TIDINGS_CHANNELS_PARTNER_HOOK_TRIES=9",
			"TIDINGS_CHANNELS_PARTNER_HOOK_SECRET=whsec_abc")
		require.NoError(t, err)
		require.Equal(t, "/data", c.Data)
		require.Equal(t, 12, c.AMQP.Window)
		require.InDelta(t, 1.5, c.Policy.Factor, 0)
		require.True(t, c.AcceptDuplicates)
		require.Equal(t, 3*time.Minute, c.Policy.Total())
		require.True(t, c.EventIdentity().IgnoreSource)
		require.Equal(t, 9, c.Channels["partner-hook"].Tuning.Tries)
		require.Equal(t, "whsec_abc", c.Channels["partner-hook"].Webhook.Secret.Reveal())
	})
	t.Run("the rules stand at the top of the file", func(t *testing.T) {
		c, err := load(t, "default_locale: de\nvars: {shop: Example}\nroutes:\n  - name: confirmation\n"+
			"    event: order.placed\n    channel: mail\n    template: order\n    recipients: data.email\n")
		require.NoError(t, err)
		require.Equal(t, plan.Rules{
			DefaultLocale: "de", Vars: map[string]string{"shop": "Example"},
			Routes: []plan.Route{{
				Name: "confirmation", Event: "order.placed", Channel: "mail",
				Template: "order", Recipients: "data.email",
			}},
		}, c.Rules)
	})
	t.Run("tenants have rules of their own", func(t *testing.T) {
		c, err := load(t, "groups: {oncall: [ops@example.com, {address: eva@example.com, locale: de}]}\n"+
			"tenants:\n  acme:\n    timezone: Europe/Berlin\n    vars: {shop: ACME}\n    routes:\n"+
			"      - {name: order, when: data.total > 5, to: [sales@acme.example]}\n      - {name: news, disabled: true}\n")
		require.NoError(t, err)
		require.Equal(t, map[string][]any{"oncall": {"ops@example.com", map[string]any{"address": "eva@example.com", "locale": "de"}}}, c.Rules.Groups)
		require.Equal(t, plan.Overlay{
			Timezone: "Europe/Berlin", Vars: map[string]string{"shop": "ACME"},
			Routes: []plan.RouteOverlay{
				{Route: plan.Route{Name: "order", When: "data.total > 5", To: []any{"sales@acme.example"}}},
				{Route: plan.Route{Name: "news"}, Disabled: true},
			},
		}, c.Tenants["acme"].Overlay)
	})
	t.Run("the configuration of the example shop is valid", func(t *testing.T) {
		c, err := config.Load("../../../examples/shop/tidings.yaml", nil)
		require.NoError(t, err)
		require.NoError(t, c.Validate())
		require.DirExists(t, c.Templates)
		require.NotEmpty(t, c.Rules.Routes)
		require.Regexp(t, "^whsec_", c.Channels["partners"].Webhook.Config(0).Secrets[0])
	})
	t.Run("0 is a duration", func(t *testing.T) {
		c, err := load(t, "staleness: 0\nhorizon: 0\n")
		require.NoError(t, err)
		require.Zero(t, c.Staleness)
		require.NoError(t, c.Validate())
	})
	t.Run("a rate is so many in a second, a minute or an hour", func(t *testing.T) {
		for text, want := range map[string]float64{"50/s": 50, "30/m": 0.5, "1800/h": 0.5, "2.5/s": 2.5, "''": 0} {
			c, err := load(t, "channels: {once: {kind: webhook, rate: "+text+"}}\n")
			require.NoError(t, err, text)
			require.InDelta(t, want, c.Channels["once"].Tuning.Rate.PerSecond(), 0, text)
		}
	})
	t.Run("what limits a channel is set by variables and printed as it was written", func(t *testing.T) {
		c, err := load(t, "channels: {mail: {kind: email}}\n",
			"TIDINGS_CHANNELS_MAIL_RATE=300/m", "TIDINGS_CHANNELS_MAIL_BURST=3", "TIDINGS_MAX_WAITING=7",
			"TIDINGS_CHANNELS_MAIL_BREAKER_FAILURES=9", "TIDINGS_CHANNELS_MAIL_BREAKER_OPEN_FOR=1m")
		require.NoError(t, err)
		require.Equal(t, 7, c.MaxWaiting)
		require.Equal(t, config.Breaker{Failures: 9, OpenFor: config.Duration(time.Minute)}, c.Channels["mail"].Tuning.Breaker)
		var out strings.Builder
		require.NoError(t, c.Print(&out))
		require.Regexp(t, `(?s)rate: "?300/m"?  # TIDINGS_CHANNELS_MAIL_RATE\n +burst: 3 [^\n]*\n +breaker:\n +failures: 9 [^\n]*\n +open_for: 1m `, out.String())
	})
	t.Run("an empty list of rounds means none, a missing one means those of the policy", func(t *testing.T) {
		c, err := load(t, "channels:\n  once: {kind: webhook, rounds: []}\n  often: {kind: webhook}\n")
		require.NoError(t, err)
		require.Empty(t, c.Channels["once"].Tuning.Policy(c.Policy).Rounds)
		require.Equal(t, c.Policy.Rounds, c.Channels["often"].Tuning.Policy(c.Policy).Rounds)
	})
}

func TestLoadSecrets(t *testing.T) {
	write := func(t *testing.T, dir, name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	t.Run("a secret's file is relative to the configuration, and its line end is not part of it", func(t *testing.T) {
		dir := t.TempDir()
		write(t, dir, "token", "0123456789abcdef\r\n")
		path := write(t, dir, "tidings.yaml", "api: {token_file: token}\n")
		c, err := config.Load(path, nil)
		require.NoError(t, err)
		require.Equal(t, "0123456789abcdef", c.API.Token.Reveal())
		require.Empty(t, c.API.TokenFile)
	})
	t.Run("the environment names files too, and wins over a secret in the file", func(t *testing.T) {
		secret := write(t, t.TempDir(), "url", "amqp://u:p@host\n")
		for _, name := range []string{"AMQP_URL_FILE", "TIDINGS_AMQP_URL_FILE"} {
			c, err := load(t, "amqp: {url: amqp://file}\n", name+"="+secret)
			require.NoError(t, err)
			require.Equal(t, "amqp://u:p@host", c.AMQP.URL.Reveal())
		}
	})
	t.Run("a secret and its file in one place are refused", func(t *testing.T) {
		_, err := load(t, "api: {token: abc, token_file: token}\n")
		require.EqualError(t, err, "tidings.yaml: api.token and api.token_file are both set: remove one")
		_, err = config.Load("", []string{"AMQP_URL=amqp://a", "AMQP_URL_FILE=/nowhere"})
		require.EqualError(t, err, "TIDINGS_AMQP_URL and TIDINGS_AMQP_URL_FILE are both set: unset one")
	})
	t.Run("a missing and an empty file are refused by key", func(t *testing.T) {
		_, err := load(t, "channels: {mail: {kind: email, host: h, from: a@b, password_file: /nowhere/pw}}\n")
		require.ErrorContains(t, err, "channels.mail.password_file: stat /nowhere/pw")
		_, err = config.Load("", []string{"TIDINGS_API_TOKEN_FILE=/dev/null"})
		require.EqualError(t, err, "api.token_file: /dev/null is empty")
	})
	t.Run("a secret that YAML would take for a number is refused", func(t *testing.T) {
		_, err := load(t, "api:\n  token: 0123\n")
		require.EqualError(t, err, "tidings.yaml:2:10: want a text: put it in quotes")
	})
}

func TestLoadErrors(t *testing.T) {
	for name, tt := range map[string]struct {
		file string
		want string
	}{
		"an unknown key":                     {"api:\n  lissten: x\n", `tidings.yaml:2:3: unknown key "lissten" (did you mean "listen"?)`},
		"an unknown key at the top":          {"data: d\nplugins: []\n", `tidings.yaml:2:1: unknown key "plugins"`},
		"a key of another kind of channel":   {"channels:\n  hook:\n    kind: webhook\n    host: h\n", `tidings.yaml:4:5: unknown key "host"`},
		"an unknown key in a list":           {"suppressions:\n  - address: a@b\n    tennant: x\n", `tidings.yaml:3:5: unknown key "tennant" (did you mean "tenant"?)`},
		"an unknown key of a route":          {"routes:\n  - name: r\n    recipient: x\n", `tidings.yaml:3:5: unknown key "recipient" (did you mean "recipients"?)`},
		"a key twice":                        {"api:\n  listen: a:1\n  listen: b:2\n", `tidings.yaml:3:3: mapping key "listen" already defined at [2:3]`},
		"a duration without unit":            {"horizon: 30\n", `tidings.yaml:1:10: "30" is not a duration: write it like 200ms, 30s, 5m or 168h`},
		"a size in words":                    {"outcomes: {max_bytes: huge}\n", `tidings.yaml:1:23: "huge" is not a size: write it like 8GiB or 500MB`},
		"a rate without a time":              {"channels:\n  m:\n    kind: webhook\n    rate: 50\n", `tidings.yaml:4:11: want a rate such as 50/s, 300/m or 1000/h`},
		"a rate of nothing":                  {"channels:\n  m:\n    kind: webhook\n    rate: 0/s\n", `tidings.yaml:4:11: want a rate such as 50/s, 300/m or 1000/h`},
		"a rate in days":                     {"channels:\n  m:\n    kind: webhook\n    rate: 5/d\n", `tidings.yaml:4:11: want a rate such as 50/s, 300/m or 1000/h`},
		"a list where a duration belongs":    {"horizon: [1h]\n", `tidings.yaml:1:10: want a duration such as 5m`},
		"a text where a number belongs":      {"amqp:\n  window: many\n", `tidings.yaml:2:11: want a whole number here`},
		"a text where keys belong":           {"api: localhost\n", `tidings.yaml:1:6: want keys with values here, not a text`},
		"a text where a list belongs":        {"amqp:\n  bindings: all\n", `tidings.yaml:2:13: want a list here, not a text`},
		"a channel without kind":             {"channels:\n  mail: {host: h}\n", `tidings.yaml:2:9: the channel has no kind: it is email or webhook`},
		"a channel of unknown kind":          {"channels:\n  sms:\n    kind: sms\n", `tidings.yaml:3:11: unknown kind "sms": it is email or webhook`},
		"a second document":                  {"data: a\n---\ndata: b\n", `tidings.yaml:3:5: a second document begins here: a configuration is one`},
		"what is not YAML":                   {"api:\n\tlisten: x\n", "tidings.yaml:2:1: found character '\t' that cannot start any token"},
		"a number where a text list belongs": {"identity: 7\n", `tidings.yaml:1:11: want a list here, not a number`},
	} {
		t.Run(name+" is refused with its place", func(t *testing.T) {
			_, err := load(t, tt.file)
			require.EqualError(t, err, tt.want)
		})
	}
	t.Run("a missing file is named", func(t *testing.T) {
		_, err := config.Load("/nowhere/tidings.yaml", nil)
		require.EqualError(t, err, "read the configuration: stat /nowhere/tidings.yaml: no such file or directory")
	})
	t.Run("everything wrong in the environment is reported at once", func(t *testing.T) {
		_, err := config.Load("", []string{"TIDINGS_HORIZONT=1h", "TIDINGS_STALENESS=soon", "TIDINGS_AMQP_WINDOW=x", "TIDINGS_PLUGINS=1"})
		require.EqualError(t, err, strings.Join([]string{
			`TIDINGS_AMQP_WINDOW: "x" is not a whole number`,
			`unknown variable TIDINGS_HORIZONT (did you mean "TIDINGS_HORIZON"?)`,
			`unknown variable TIDINGS_PLUGINS`,
			`TIDINGS_STALENESS: "soon" is not a duration: write it like 200ms, 30s, 5m or 168h`,
		}, "\n"))
	})
	t.Run("the variables of the command line and of Kubernetes are not ours to refuse", func(t *testing.T) {
		_, err := config.Load("", []string{
			"TIDINGS_URL=http://x", "TIDINGS_TOKEN=t", "TIDINGS_OPERATOR=ann", "TIDINGS_CONFIG=c",
			"TIDINGS_SERVICE_HOST=10.0.0.1", "TIDINGS_PORT=tcp://10.0.0.1:8420", "TIDINGS_PORT_8420_TCP_ADDR=10.0.0.1",
		})
		require.NoError(t, err)
	})
	t.Run("no error quotes a line of the file, which may hold a secret", func(t *testing.T) {
		for _, text := range []string{
			"api:\n  token: hunter2hunter2\n  lissten: x\n",
			"api:\n  token: [hunter2]\n",
			"api:\n  token: hunter2\n  token: hunter3\n",
			"api: {token: hunter2\n",
			"channels:\n  m: {kind: email, password: hunter2, tries: hunter2}\n",
		} {
			_, err := load(t, text)
			require.Error(t, err)
			require.NotContains(t, err.Error(), "hunter")
		}
	})
}
