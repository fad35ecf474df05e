package config_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"tidings/cmd/internal/config"
)

func TestChanges(t *testing.T) {
	const base = `
api: {token: 0123456789abcdef0123, listen: "127.0.0.1:1"}
amqp: {url: amqp://ann:hunter2@host/, queue: q}
channels:
  mail: {kind: email, host: h, from: a@b.example, password: hunter2, username: u, providers: [{name: one}, {name: two, host: i}]}
routes: [{name: r, event: x, channel: mail, recipients: data.to, template: t}]
vars: {shop: Corner}
`
	for name, tt := range map[string]struct {
		other string
		want  []string
	}{
		"none": {base, nil},
		"what can change while it runs": {
			base + "policy: {tries: 7}\nstaleness: 1h\nsuppressions: [{address: x@y.example}]\n",
			[]string{"policy.tries is another one now", "staleness is another one now", "suppressions is another one now"},
		},
		"a secret is not shown": {
			`
api: {token: 0123456789abcdef0124, listen: "127.0.0.1:2"}
amqp: {url: amqp://ann:hunter3@host/, queue: p}
channels:
  mail: {kind: email, host: h, from: a@b.example, password: hunter3, username: u, providers: [{name: one}, {name: two, host: i}]}
  more: {kind: email, host: h, from: a@b.example}
routes: []
vars: {shop: Corner, more: 1}
`, []string{
				`! amqp.queue: q is p now`, `! amqp.url is another one now`,
				`! api.listen: "127.0.0.1:1" is "127.0.0.1:2" now`, `! api.token is another one now`,
				"channels.mail is another one now", "channels.more is another one now", "routes is another one now", "vars.more is another one now",
			},
		},
		"of a source and of the log": {
			base + "nats: {url: nats://h:1, replicas: 3}\nsources: [{name: s, url: amqp://h/, queue: q}]\n",
			[]string{`! nats.replicas: 1 is 3 now`, `! nats.url: "" is "nats://h:1" now`, `! sources: `},
		},
	} {
		t.Run(name, func(t *testing.T) {
			before, err := load(t, base)
			require.NoError(t, err)
			after, err := load(t, tt.other)
			require.NoError(t, err)
			var got []string
			for _, c := range config.Changes(before, after) {
				line := c.String()
				if c.Restart {
					line = "! " + line
				}
				got = append(got, line)
				require.NotContains(t, line, "hunter")
				require.NotContains(t, line, "0123456789abcdef")
			}
			require.Len(t, got, len(tt.want), "%q", got)
			for i, want := range tt.want {
				require.Contains(t, got[i], want)
			}
		})
	}
}

func TestSameSender(t *testing.T) {
	ca := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(ca, []byte("one"), 0o600))
	section := func(more string) *config.Channel {
		c, err := load(t, "channels: {m: {kind: email, host: h, from: a@b.example, ca_file: "+ca+more+"}}\n")
		require.NoError(t, err)
		return c.Channels["m"]
	}
	base := section("")
	require.True(t, base.SameSender(section("")))
	require.True(t, base.SameSender(section(", tries: 7, rate: 5/s, breaker: {failures: 1}")), "how patiently is nothing to the sender")
	for _, more := range []string{", timeout: 3s", ", username: u, password: p", ", port: 26"} {
		require.False(t, base.SameSender(section(more)), more)
	}
	digest := base.FilesDigest()
	require.Equal(t, digest, section("").FilesDigest())
	require.NoError(t, os.WriteFile(ca, []byte("two"), 0o600))
	require.NotEqual(t, digest, base.FilesDigest(), "a file with other contents")
}
