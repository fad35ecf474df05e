package config_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tidings/cmd/internal/config"
)

func TestValidate(t *testing.T) {
	for name, tt := range map[string]struct {
		file string
		want string
	}{
		"data that is empty":                             {`data: ""`, `data: is empty: name a directory`},
		"an address without port":                        {`api: {listen: localhost}`, `api.listen: "localhost" is not host:port`},
		"an address with an impossible port":             {`api: {listen: "127.0.0.1:99999"}`, `api.listen: "99999" is not a port`},
		"every interface without a token":                {`api: {listen: ":8420"}`, `api.listen: :8420 can be reached from other machines: set api.token or api.token_file, or listen on 127.0.0.1`},
		"another interface without a token":              {`api: {listen: "10.0.0.1:1"}`, `api.listen: 10.0.0.1:1 can be reached from other machines: set api.token or api.token_file, or listen on 127.0.0.1`},
		"a short token":                                  {`api: {token: hunter2}`, `api.token: is shorter than 16 characters, so it can be guessed`},
		"a broker's URL of another scheme":               {`amqp: {url: "http://u:hunter2@h"}`, `amqp.url: is no AMQP address: write amqp://user:password@host:port/vhost, or amqps://, with reserved characters in user and password percent-encoded`},
		"a URL with a bare password":                     {`nats: {url: "nats://u:hun ter2%@h"}`, `nats.url: is not a URL that begins with nats:// or tls:// or ws:// or wss:// and names a host (a password in it must be percent-encoded)`},
		"bindings without exchange":                      {`amqp: {bindings: [a]}`, `amqp.bindings: bind the queue to the exchange, which is not set`},
		"a topology that does not exist":                 {`amqp: {topology: create}`, `amqp.topology: "create" is not one of assert, declare`},
		"an empty queue":                                 {`amqp: {queue: ""}`, `amqp.queue: name the queue to consume`},
		"a window that is no bound":                      {`amqp: {window: 0}`, `amqp.window: 0 would be no bound at all: set 1 to 65535, or leave it out for 256`},
		"a window of a source that is no bound":          {`sources: [{name: eu, url: "amqp://h", queue: q, window: 0}]`, `sources[0].window: source "eu": 0 would be no bound at all: set 1 to 65535, or leave it out for 256`},
		"a subscriber that does not exist":               {`amqp: {subscriber: kafka}`, `amqp.subscriber: "kafka" is not one of windowed, watermill`},
		"a negative window":                              {`amqp: {window: -1}`, `amqp.window: -1 is not between 1 and 65535`},
		"a durability that does not exist":               {`nats: {durability: full}`, `nats.durability: "full" is not one of strict, relaxed`},
		"replicas of the server in the process":          {`nats: {replicas: 3}`, `nats.replicas: 3 replicas need a cluster: set nats.url`},
		"followers without a password":                   {`nats: {listen: "127.0.0.1:4222"}`, `nats.listen: lets nobody in: set nats.follower_password or nats.follower_password_file`},
		"followers with a short password":                {`nats: {listen: "127.0.0.1:4222", follower_password: hunter2}`, `nats.follower_password: is shorter than 16 characters, so it can be guessed`},
		"followers of a server elsewhere":                {`nats: {listen: "127.0.0.1:4222", follower_password: hunter2-hunter2-, url: "nats://h"}`, `nats.listen: is where the server in this process listens, and nats.url names another: remove one of the two`},
		"followers at no address":                        {`nats: {listen: "4222", follower_password: hunter2-hunter2-}`, `nats.listen: "4222" is not host:port`},
		"a password of nobody":                           {`nats: {follower_password: hunter2-hunter2-}`, `nats.follower_password: is for followers, and there are none: set nats.listen, or remove it`},
		"a certificate for nobody":                       {`nats: {tls: {cert_file: /c.pem, key_file: /k.pem}}`, `nats.tls: is for followers, and there are none: set nats.listen, or remove it`},
		"a certificate without its key":                  {`nats: {listen: "127.0.0.1:4222", follower_password: hunter2-hunter2-, tls: {cert_file: /c.pem}}`, `nats.tls: key_file is missing: cert_file is nothing without its key`},
		"a key without its certificate":                  {`nats: {listen: "127.0.0.1:4222", follower_password: hunter2-hunter2-, tls: {key_file: /k.pem}}`, `nats.tls: cert_file is missing: key_file is nothing without its certificate`},
		"a certificate that is not there":                {`nats: {listen: "127.0.0.1:4222", follower_password: hunter2-hunter2-, tls: {cert_file: /no/c.pem, key_file: /no/k.pem}}`, `nats.tls: /no/c.pem with the key /no/k.pem: open /no/c.pem: no such file or directory`},
		"no replicas":                                    {`nats: {replicas: 0}`, `nats.replicas: 0 is not between 1 and 5`},
		"an identity without id":                         {`identity: [tenant, source]`, `identity: must be [tenant, source, id] or [tenant, id]`},
		"an attribute twice":                             {`identity: [tenant, id, id]`, `identity: must be [tenant, source, id] or [tenant, id]`},
		"a missing_id that does not exist":               {`missing_id: drop`, `missing_id: "drop" is not one of derive, quarantine`},
		"no tries":                                       {`policy: {tries: 0}`, `policy.tries: 0 is not between 1 and 100`},
		"no crashes":                                     {`policy: {crashes: 0}`, `policy.crashes: 0 is not between 1 and 100`},
		"a factor that shrinks":                          {`policy: {factor: 0.5}`, `policy.factor: 0.5 is not between 1 and 100`},
		"a round at once":                                {`policy: {rounds: [1s, 0]}`, `policy.rounds[1]: 0s is not between 1ns and 168h`},
		"a channel without content":                      {"channels: {mail: }", `channels.mail: is empty: set kind to email or webhook`},
		"a channel's name with a blank":                  {"channels: {\"a b\": {kind: webhook, secret: whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3}}", `channels.a b: a channel's name has 1 to 64 of the characters a-z, 0-9, - and _`},
		"a channel's unknown on_unknown":                 {"channels: {h: {kind: webhook, secret: whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3, on_unknown: retry}}", `channels.h.on_unknown: "retry" is not one of resend, hold`},
		"a call longer than a lease allows":              {"channels: {h: {kind: webhook, secret: whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3, timeout: 1m}}", `channels.h.timeout: 1m is not between 0 and 30s, which is what fits in a lease`},
		"a channel's negative tries":                     {"channels: {h: {kind: webhook, secret: whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3, tries: -1}}", `channels.h.tries: -1 is not between 1 and 100`},
		"a webhook without secret":                       {"channels: {h: {kind: webhook}}", `channels.h.secret: is missing: set whsec_ and 24 to 64 random bytes in base64, such as whsec_$(openssl rand -base64 32)`},
		"an exchange of no kind":                         {"amqp: {exchange_kind: pubsub}", `amqp.exchange_kind: "pubsub" is not one of topic, direct, fanout, headers`},
		"a network that is none":                         {"channels: {h: {kind: webhook, secret: whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3, allowed_cidrs: [10.0.0.0/8, local]}}", `channels.h.allowed_cidrs[1]: "local" is not a network such as 10.0.0.0/8`},
		"a mapping that cannot be meant":                 {"amqp: {mapping: {id: {constant: x}}}", `amqp.mapping.id.constant: events need different ids: remove it`},
		"a negative staleness":                           {`staleness: -1h`, `staleness: must not be negative; 0 switches the check off`},
		"a stream too small for an event":                {`events: {max_bytes: 1MB}`, `events.max_bytes: 1000000 is less than 64MiB`},
		"a negative time to keep":                        {`events: {keep: -1h}`, `events.keep: is negative`},
		"a negative horizon":                             {`horizon: -1h`, `horizon: must not be negative; 0 remembers for ever`},
		"staleness off with a horizon":                   {`staleness: 0`, `staleness: 0 with a horizon of 336h sends an event again that comes back after it: set horizon to 0, or accept_duplicates_after_horizon to true`},
		"nothing may wait":                               {`max_waiting: 0`, `max_waiting: must be more than 0`},
		"a burst without a rate":                         {"channels: {h: {kind: webhook, secret: whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3, burst: 2}}", `channels.h.burst: is of a rate, and there is none: set rate`},
		"a burst of too many":                            {"channels: {h: {kind: webhook, secret: whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3, rate: 1/s, burst: 20000}}", `channels.h.burst: 20000 is not between 0 and 10000`},
		"a breaker that opens for less than nothing":     {"channels: {h: {kind: webhook, secret: whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3, breaker: {failures: -1}}}", `channels.h.breaker.failures: must not be negative; 0 is the default`},
		"a breaker that is open for too long":            {"channels: {h: {kind: webhook, secret: whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3, breaker: {open_for: 2h}}}", `channels.h.breaker.open_for: 2h is not between 0 and 1h`},
		"a horizon shorter than what may still happen":   {`horizon: 200h`, `horizon: 200h is too short: an event may still be retried or come back for 218h35m30s (staleness 168h + rounds 2h35m30s + deferral 24h + margin 24h)`},
		"a horizon shorter than the rounds of a channel": {"horizon: 240h\nchannels: {h: {kind: webhook, secret: whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3, rounds: [24h, 24h]}}", `horizon: 240h is too short: an event may still be retried or come back for 264h (staleness 168h + rounds 48h + deferral 24h + margin 24h)`},
		"a suppression without address":                  {`suppressions: [{tenant: t}]`, `suppressions[0].address: is empty: a suppression needs the address that gets nothing`},
		"a suppression on no channel":                    {`suppressions: [{address: a@b, channel: mial}]`, `suppressions[0].channel: there is no channel "mial"`},
	} {
		t.Run(name+" is refused by key", func(t *testing.T) {
			c, err := load(t, tt.file)
			require.NoError(t, err)
			require.Equal(t, tt.want, withoutPlaces(t, c))
		})
	}
	t.Run("everything wrong is reported at once, in the order of the file's sections", func(t *testing.T) {
		c, err := load(t, "data: ''\nmissing_id: drop\npolicy: {tries: 0}\nchannels: {h: {kind: webhook, secret: whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3}, a: }\n")
		require.NoError(t, err)
		require.Equal(t, "data: is empty: name a directory\n"+
			"missing_id: \"drop\" is not one of derive, quarantine\n"+
			"policy.tries: 0 is not between 1 and 100\n"+
			"channels.a: is empty: set kind to email or webhook", withoutPlaces(t, c))
	})
	t.Run("what a sender says is wrong is reported by channel, all of it and no secret", func(t *testing.T) {
		c, err := load(t, "channels:\n  m: {kind: email, host: 'a b', port: 70000, tls: never, from: nobody, password: hunter2}\n"+
			"  w: {kind: webhook, secret: hunter2}\n")
		require.NoError(t, err)
		err = c.Validate()
		for _, want := range []string{
			`channels.m.tls: "never" is not one of starttls, opportunistic, implicit, none`,
			`channels.m: host: `, `channels.m: port: 70000`, `channels.m: from: `, `channels.m: login: `, `channels.w: secrets: `,
		} {
			require.ErrorContains(t, err, want)
		}
		require.NotContains(t, err.Error(), "hunter2")
	})
	for name, file := range map[string]string{
		"a horizon of exactly what may still happen": "horizon: 218h35m30s",
		"sizes of streams":                           "events: {keep: 1h, max_bytes: 64MiB}\noutcomes: {max_bytes: 100000000}\ndead_letters: {max_bytes: 1TiB}",
		"no horizon and no staleness":                "horizon: 0\nstaleness: 0",
		"accepted duplicates":                        "staleness: 0\naccept_duplicates_after_horizon: true",
		"every interface with a token":               "api: {listen: ':8420', token: 0123456789abcdef}",
		"IPv6 loopback":                              "api: {listen: '[::1]:8420'}",
		"followers":                                  "nats: {listen: '127.0.0.1:0', follower_password: 0123456789abcdef}",
		"several NATS servers":                       "nats: {url: 'nats://a:4222, tls://b:4222', replicas: 3}",
		"a broker with vhost and password":           "amqp: {url: 'amqps://u:p%40ss@h:5671/%2F'}",
	} {
		t.Run(name+" is accepted", func(t *testing.T) {
			c, err := load(t, file)
			require.NoError(t, err)
			require.NoError(t, c.Validate())
		})
	}
}

// withoutPlaces returns everything that is wrong by key alone.
func withoutPlaces(t *testing.T, c config.Config) string {
	t.Helper()
	var ps config.Problems
	require.ErrorAs(t, c.Validate(), &ps)
	for i := range ps {
		ps[i].Place = ""
	}
	return ps.Error()
}

const broken = `# what this file says is wrong throughout
staleness: -1h
policy: {tries: 3, rounds:
  [1s, 0]}
channels:
  hook:
    kind: webhook
templates: templates
routes:
  - name: one
    event: order.placed
    channel: mail
    recipients: dta.email
  -
    name: two
    event: order.placed
    channel: hook
    when: |
      data.total >
    recipients: data.url
  - {name: three, event: order.placed,
     channel: hook}
suppressions:
  - &all
    channel: hook
`

func TestPlaces(t *testing.T) {
	template := filepath.Join("templates", "order", "text.txt")
	broken := func(t *testing.T, environ ...string) config.Config {
		t.Helper()
		c, err := load(t, broken, environ...)
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Dir(template), 0o755))
		require.NoError(t, os.WriteFile(template, []byte("Hello\n{{.data.name"), 0o600))
		return c
	}
	t.Run("keys, routes and templates that are wrong are reported at once, with file and line", func(t *testing.T) {
		require.EqualError(t, broken(t).Validate(), strings.Join([]string{
			`tidings.yaml:4: policy.rounds[1]: 0s is not between 1ns and 168h`,
			`tidings.yaml:6: channels.hook.secret: is missing: set whsec_ and 24 to 64 random bytes in base64, such as whsec_$(openssl rand -base64 32)`,
			`tidings.yaml:2: staleness: must not be negative; 0 switches the check off`,
			`tidings.yaml:24: suppressions[0].address: is empty: a suppression needs the address that gets nothing`,
			`templates/order/text.txt:2: unclosed action`,
			`tidings.yaml:13: routes[0].recipients: route "one": at 1:1 of the expression: unknown name dta`,
			`tidings.yaml:12: routes[0].channel: route "one": there is no channel "mail": the channels are hook`,
			`tidings.yaml:18: routes[1].when: route "two": at 1:13 of the expression: unexpected token EOF`,
			`tidings.yaml:21: routes[2].recipients: route "three": is empty: give an expression such as data.customer.email, or a list of addresses in to`,
		}, "\n"))
	})
	t.Run("what a variable has set is not laid at the door of the file", func(t *testing.T) {
		err := broken(t, "TIDINGS_STALENESS=-2h", "TIDINGS_POLICY_ROUNDS=0").Validate()
		require.ErrorContains(t, err, "\nstaleness: must not be negative")
		require.ErrorContains(t, err, "policy.rounds[0]: 0s is not")
		require.NotContains(t, err.Error(), ":4: policy.rounds")
	})
	t.Run("nor is what a flag has set", func(t *testing.T) {
		c, err := load(t, "api: {listen: 'localhost'}\namqp: {url: 'http://h'}\n")
		require.NoError(t, err)
		c.Override("api.listen", "nowhere")
		c.Override("amqp.url", "")
		require.EqualError(t, c.Validate(), `api.listen: "nowhere" is not host:port`+"\n"+
			`tidings.yaml:2: amqp.url: is no AMQP address: write amqp://user:password@host:port/vhost, or amqps://, with reserved characters in user and password percent-encoded`)
	})
	t.Run("a secret in a file of its own is not laid at the door of the one that it replaces", func(t *testing.T) {
		secret := filepath.Join(t.TempDir(), "token")
		require.NoError(t, os.WriteFile(secret, []byte("hunter2"), 0o600))
		c, err := load(t, "api: {token: 0123456789abcdef-}\n", "TIDINGS_API_TOKEN_FILE="+secret)
		require.NoError(t, err)
		require.EqualError(t, c.Validate(), `api.token: is shorter than 16 characters, so it can be guessed`)
	})
	t.Run("a directory of templates that is not there is named by its key", func(t *testing.T) {
		c, err := load(t, "\ntemplates: words\n")
		require.NoError(t, err)
		require.EqualError(t, c.Validate(), `tidings.yaml:2: templates: words: read the templates: no such file or directory`)
	})
}

func TestSecrets(t *testing.T) {
	c, err := load(t, `
api: {token: hunter2-hunter2-}
amqp: {url: "amqp://user:hunter2@broker:5672/shop"}
nats: {url: "nats://hunter2@a:4222,nats://b:4222", follower_password: hunter2}
channels:
  mail: {kind: email, host: mx, from: shop@example.com, password: hunter2}
  hook: {kind: webhook, secret: hunter2}
`)
	require.NoError(t, err)
	t.Run("no way of printing shows one", func(t *testing.T) {
		var out bytes.Buffer
		require.NoError(t, c.Print(&out))
		asJSON, err := json.Marshal(c)
		require.NoError(t, err)
		out.Write(asJSON)
		fmt.Fprintf(&out, "%v %+v %#v %s %q", c, c, c, c.API.Token, c.AMQP.URL)
		fmt.Fprintf(&out, "%v %x %x", c.Channels["mail"].Email, c.API.Token, c.NATS.URL)
		for _, handler := range []slog.Handler{slog.NewJSONHandler(&out, nil), slog.NewTextHandler(&out, nil)} {
			slog.New(handler).Info("x", "config", c, "token", c.API.Token, "url", c.AMQP.URL)
		}
		require.NotContains(t, out.String(), "hunter2")
		require.NotContains(t, out.String(), fmt.Sprintf("%x", "hunter2"))
	})
	t.Run("Reveal does", func(t *testing.T) {
		require.Equal(t, "hunter2-hunter2-", c.API.Token.Reveal())
		require.Equal(t, "amqp://user:hunter2@broker:5672/shop", c.AMQP.URL.Reveal())
	})
	t.Run("of a URL, what is no secret is shown", func(t *testing.T) {
		require.Equal(t, "amqp://[redacted]@broker:5672/shop", c.AMQP.URL.String())
		require.Equal(t, "nats://[redacted]@a:4222,nats://b:4222", c.NATS.URL.String())
		require.Equal(t, "[redacted]", config.URL("hunter2").String())
		require.Equal(t, "amqp://h", config.URL("amqp://h?password=hunter2#hunter2").String())
	})
}

func TestPrint(t *testing.T) {
	t.Run("what is printed can be loaded again and is the same", func(t *testing.T) {
		c, err := load(t, "templates: /t\nchannels:\n  hook: {kind: webhook, rounds: [1m], allow_private: true}\n"+
			"suppressions: [{address: a@b, channel: hook}]\n")
		require.NoError(t, err)
		var out bytes.Buffer
		require.NoError(t, c.Print(&out))
		again, err := load(t, out.String())
		require.NoError(t, err, out.String())
		require.EqualExportedValues(t, c, again)
	})
}

func TestDurationString(t *testing.T) {
	for text, want := range map[string]string{
		"168h": "168h", "90m": "1h30m", "30s": "30s", "200ms": "200ms", "0": "0s", "1h0m5s": "1h0m5s", "10m": "10m",
	} {
		t.Run(text+" is "+want, func(t *testing.T) {
			var d config.Duration
			require.NoError(t, d.UnmarshalText([]byte(text)))
			require.Equal(t, want, d.String())
		})
	}
}
