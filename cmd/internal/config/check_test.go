package config_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tidings/cmd/internal/config"
)

func TestPrintSaysWhereEachValueComesFrom(t *testing.T) {
	c, err := load(t, `api: {listen: "127.0.0.1:1", token: hunter2hunter2hunter2}
channels:
  mail:
    kind: email
    host: h
    from: a@b.example
    username: u
    password: hunter2
    providers:
      - name: one
      - {name: two, host: i}
routes:
  - name: r
    event: x.*
    channel: mail
    to: [ann@example.com]
    recipients: |
      {address: data.to,
       locale: data.lang}
`, "TIDINGS_MAX_WAITING=7", "AMQP_URL=amqp://u:hunter2@host/")
	require.NoError(t, err)
	c.Override("data", "/elsewhere")
	var out strings.Builder
	require.NoError(t, c.Print(&out))
	require.NotContains(t, out.String(), "hunter2")
	for _, line := range []string{
		`data: /elsewhere  # flag`, `  listen: 127.0.0.1:1  # tidings.yaml:1`, `  token: "[redacted]"  # tidings.yaml:1`,
		`max_waiting: 7  # TIDINGS_MAX_WAITING`, `  url: amqp://[redacted]@host/  # TIDINGS_AMQP_URL`, `horizon: 336h  # default`,
		`        host: h  # of the channel`, `        host: i  # tidings.yaml:11`, `    event: x.*  # tidings.yaml:14`, `    to: [ann@example.com]  # tidings.yaml:16`,
	} {
		require.Contains(t, out.String(), line+"\n")
	}

	t.Run("and what it prints is a configuration that says the same, but for the secrets", func(t *testing.T) {
		again, err := load(t, strings.ReplaceAll(out.String(), "[redacted]@", ""))
		require.NoError(t, err)
		require.Equal(t, c.Rules, again.Rules)
		require.Equal(t, c.Policy, again.Policy)
		require.Equal(t, c.Channels["mail"].Providers[1].Channel.Email.Host, again.Channels["mail"].Providers[1].Channel.Email.Host)
	})
	t.Run("for programs too", func(t *testing.T) {
		explained, err := c.Explain()
		require.NoError(t, err)
		require.Equal(t, "flag", explained.Sources["data"])
		require.Equal(t, "tidings.yaml:13", explained.Sources["routes[0].name"])
		var conf struct {
			MaxWaiting int `json:"max_waiting"`
		}
		require.NoError(t, json.Unmarshal(explained.Config, &conf))
		require.Equal(t, 7, conf.MaxWaiting)
		require.NotContains(t, string(explained.Config), "hunter2")
	})
}

func TestCheck(t *testing.T) {
	t.Run("a problem has line and column", func(t *testing.T) {
		c, err := load(t, "channels:\n  hook: {kind: webhook, secret: whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=}\nroutes:\n  - name: r\n    event: x\n    channel: hock\n    to: [http://example.com/]\n")
		require.NoError(t, err)
		r := c.Check()
		require.False(t, r.Valid)
		require.Len(t, r.Problems, 1)
		require.Equal(t, "tidings.yaml:6:5", r.Problems[0].Exact())
		require.Contains(t, r.Problems[0].Message, `there is no channel "hock"`)
	})
	t.Run("one that cannot be read too", func(t *testing.T) {
		_, err := load(t, "data: x\napi: {lissten: y}\n")
		r := config.Unreadable(err)
		require.False(t, r.Valid)
		require.Equal(t, "tidings.yaml:2:7", r.Problems[0].Exact())
	})
	t.Run("what is hardly meant is a warning", func(t *testing.T) {
		c, err := load(t, "channels:\n  hook: {kind: webhook, secret: whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=}\n")
		require.NoError(t, err)
		r := c.Check()
		require.True(t, r.Valid)
		require.NotEmpty(t, r.Revision)
		require.Equal(t, []string{
			"there are no routes: every event ends with the outcome no_template", `channel "hook" is used by no route`,
		}, r.Warnings)
	})
}
