package config_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tidings/bridge"
	"tidings/cmd/internal/config"
)

const threeSources = `
amqp: {url: "amqp://broker/%2F", queue: all}
sources:
  - name: orders
    url: amqps://u:hunter2@eu.example/shop
    queue: orders
    window: 16
    mapping: {tenant: {constant: acme}, type: {headers: [kind]}}
  - {name: orders-us, url: "amqp://us.example/shop", queue: orders, topology: declare, exchange: events, bindings: ["order.#"]}
`

func TestSources(t *testing.T) {
	t.Run("none is the default: events come over HTTP alone", func(t *testing.T) {
		c, err := config.Load("", nil)
		require.NoError(t, err)
		require.Empty(t, c.AllSources())
	})
	t.Run("each is a bridge of its own, and that of the section amqp is the first", func(t *testing.T) {
		c, err := load(t, threeSources)
		require.NoError(t, err)
		require.NoError(t, c.Validate())
		var bridges []bridge.Config
		for _, s := range c.AllSources() {
			bridges = append(bridges, s.Config())
		}
		require.Equal(t, []bridge.Config{
			{Name: "amqp", URL: "amqp://broker/%2F", Queue: "all", Topology: bridge.TopologyAssert, Window: 256, Subscriber: bridge.SubscriberWindowed},
			{
				Name: "orders", URL: "amqps://u:hunter2@eu.example/shop", Queue: "orders", Topology: bridge.TopologyAssert, Window: 16, Subscriber: bridge.SubscriberWindowed,
				Mapping: bridge.Mapping{Tenant: bridge.Attribute{Constant: "acme"}, Type: bridge.Attribute{Headers: []string{"kind"}}},
			},
			{
				Name: "orders-us", URL: "amqp://us.example/shop", Queue: "orders", Topology: bridge.TopologyDeclare, Window: 256, Subscriber: bridge.SubscriberWindowed,
				Exchange: "events", Bindings: []string{"order.#"},
			},
		}, bridges)
	})
	t.Run("a variable sets what belongs to a source that the file has named", func(t *testing.T) {
		secret := filepath.Join(t.TempDir(), "url")
		require.NoError(t, os.WriteFile(secret, []byte("amqp://u:hunter2@elsewhere/\n"), 0o600))
		c, err := load(t, threeSources, "AMQP_URL=amqp://other/", "TIDINGS_SOURCES_ORDERS_URL_FILE="+secret,
			"TIDINGS_SOURCES_ORDERS_US_WINDOW=8", "TIDINGS_SOURCES_ORDERS_MAPPING_TENANT_CONSTANT=globex")
		require.NoError(t, err)
		require.NoError(t, c.Validate())
		require.Equal(t, "amqp://other/", c.AMQP.URL.Reveal())
		require.Equal(t, "amqp://u:hunter2@elsewhere/", c.Sources[0].URL.Reveal())
		require.Empty(t, c.Sources[0].URLFile)
		require.Equal(t, "globex", c.Sources[0].Mapping.Tenant.Constant)
		require.Equal(t, []int{16, 8}, []int{c.Sources[0].Window, c.Sources[1].Window})
	})
	t.Run("a source that the file has not named has no variables, and a name is none", func(t *testing.T) {
		_, err := load(t, threeSources, "TIDINGS_SOURCES_ORDER_URL=amqp://h", "TIDINGS_SOURCES_ORDERS_NAME=x")
		require.EqualError(t, err, `unknown variable TIDINGS_SOURCES_ORDERS_NAME`+"\n"+
			`unknown variable TIDINGS_SOURCES_ORDER_URL (did you mean "TIDINGS_SOURCES_ORDERS_URL"?)`)
	})
	t.Run("a variable that may be either of two keys is refused", func(t *testing.T) {
		file := "sources:\n  - {name: a, url: 'amqp://h', queue: q}\n  - {name: a_dead_letter, url: 'amqp://h', queue: r}\n"
		_, err := load(t, file, "TIDINGS_SOURCES_A_DEAD_LETTER_EXCHANGE=x", "TIDINGS_SOURCES_A_WINDOW=3")
		require.EqualError(t, err, "TIDINGS_SOURCES_A_DEAD_LETTER_EXCHANGE may be sources[0].dead_letter_exchange or sources[1].exchange: set the one you mean in the file")
	})
	t.Run("a file with the URL is relative to the configuration", func(t *testing.T) {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "url"), []byte("amqp://u:p@h\n"), 0o600))
		path := filepath.Join(dir, "tidings.yaml")
		require.NoError(t, os.WriteFile(path, []byte("sources: [{name: a, url_file: url, queue: q}, {name: b, url_file: none, queue: q}]"), 0o600))
		_, err := config.Load(path, nil)
		require.ErrorContains(t, err, "sources[1].url_file: stat ")
		require.NoError(t, os.WriteFile(filepath.Join(dir, "none"), []byte("amqp://b"), 0o600))
		c, err := config.Load(path, nil)
		require.NoError(t, err)
		require.Equal(t, "amqp://u:p@h", c.Sources[0].URL.Reveal())
	})
	t.Run("what is printed can be loaded again, and holds no secret", func(t *testing.T) {
		c, err := load(t, threeSources)
		require.NoError(t, err)
		var out bytes.Buffer
		require.NoError(t, c.Print(&out))
		fmt.Fprintf(&out, "%v %+v %#v", c.Sources, c.Sources, c.Sources)
		require.NotContains(t, out.String(), "hunter2")
		out.Reset()
		require.NoError(t, c.Print(&out))
		again, err := load(t, out.String())
		require.NoError(t, err, out.String())
		c.Sources[0].URL = "amqps://[redacted]@eu.example/shop"
		require.Equal(t, c.Sources, again.Sources)
	})
}

func TestTLSOfSources(t *testing.T) {
	t.Run("files are relative to the configuration, and to the working directory in a variable", func(t *testing.T) {
		c, err := load(t, "amqp: {url: amqps://h, tls: {ca_file: ca.pem, server_name: rabbit}}\n"+
			"sources: [{name: a, url: amqps://h, queue: q, tls: {cert_file: /run/c.pem, key_file: sub/k.pem}}]\n"+
			"channels: {mail: {kind: email, ca_file: mail.pem}, hook: {kind: webhook, ca_file: hook.pem}}\n",
			"TIDINGS_SOURCES_A_TLS_CA_FILE=a.pem")
		require.NoError(t, err)
		require.Equal(t, bridge.TLS{CAFile: "ca.pem", ServerName: "rabbit"}, c.AllSources()[0].Config().TLS)
		require.NoError(t, os.Mkdir("etc", 0o700))
		require.NoError(t, os.Rename("tidings.yaml", "etc/tidings.yaml"))
		c, err = config.Load("etc/tidings.yaml", []string{"TIDINGS_SOURCES_A_TLS_CA_FILE=a.pem"})
		require.NoError(t, err)
		require.Equal(t, bridge.TLS{CAFile: "etc/ca.pem", ServerName: "rabbit"}, c.AllSources()[0].Config().TLS)
		require.Equal(t, bridge.TLS{CAFile: "a.pem", CertFile: "/run/c.pem", KeyFile: "etc/sub/k.pem"}, c.AllSources()[1].Config().TLS)
		require.Equal(t, "etc/mail.pem", c.Channels["mail"].Email.CAFile)
		require.Equal(t, "etc/hook.pem", c.Channels["hook"].Webhook.CAFile)
	})
	t.Run("what cannot be meant is refused by key, with its place", func(t *testing.T) {
		c, err := load(t, "amqp:\n  url: amqp://h\n  tls: {server_name: rabbit}\n"+
			"sources:\n  - name: a\n    url: amqps://h\n    queue: q\n    tls:\n      ca_file: gone.pem\n"+
			"  - {name: b, url: 'amqps://h?certfile=c.pem', queue: r, tls: {cert_file: d.pem}}\n")
		require.NoError(t, err)
		require.EqualError(t, c.Validate(), strings.Join([]string{
			`tidings.yaml:3: amqp.tls: a URL that begins with amqp:// is not encrypted: write amqps://, or remove what is set for TLS`,
			`tidings.yaml:9: sources[0].tls.ca_file: source "a": open gone.pem: no such file or directory`,
			`tidings.yaml:10: sources[1].tls.cert_file: source "b": the URL has another certfile: remove one of the two`,
		}, "\n"))
	})
	t.Run("without a URL it is no problem that there is nothing to encrypt", func(t *testing.T) {
		c, err := load(t, "amqp: {tls: {server_name: rabbit}}\n")
		require.NoError(t, err)
		require.NoError(t, c.Validate())
	})
}

func TestSourcesThatAreRefused(t *testing.T) {
	for name, tt := range map[string]struct{ file, want string }{
		"one without a name": {
			"sources:\n  -\n    url: amqp://h\n    queue: q\n",
			`tidings.yaml:3: sources[0].name: "": a source's name has 1 to 64 of the characters a-z, 0-9, - and _`,
		},
		"one with a name that no label takes": {
			"sources:\n  - {name: Orders EU, url: amqp://h, queue: q}\n",
			`tidings.yaml:2: sources[0].name: "Orders EU": a source's name has 1 to 64 of the characters a-z, 0-9, - and _`,
		},
		"one named like that of the section amqp": {
			"sources:\n  - {name: amqp, url: amqp://h, queue: q}\n",
			`tidings.yaml:2: sources[0].name: "amqp" is what the section amqp describes: take another name`,
		},
		"two with one name": {
			"sources:\n  - {name: a, url: amqp://h, queue: q}\n  - {name: a, url: amqp://h, queue: r}\n",
			`tidings.yaml:3: sources[1].name: "a" is the name of another source, too: take another`,
		},
		"one without a queue": {
			"sources:\n  - {name: a, url: amqp://h}\n",
			`tidings.yaml:2: sources[0].queue: source "a": name the queue to consume`,
		},
		"one without a URL": {
			"sources:\n  - {name: a, queue: q}\n",
			`tidings.yaml:2: sources[0].url: source "a": is no AMQP address: write amqp://user:password@host:port/vhost, or amqps://, with reserved characters in user and password percent-encoded`,
		},
		"a mapping that cannot be meant": {
			"sources:\n  - name: a\n    url: amqp://h\n    queue: q\n    mapping:\n      id: {constant: x}\n",
			`tidings.yaml:6: sources[0].mapping.id.constant: source "a": events need different ids: remove it`,
		},
		"a queue twice, however the address is written": {
			"sources:\n  - {name: a, url: 'amqp://ann:x@Broker/%2F', queue: q}\n  - {name: b, url: 'amqp://bob:y@broker:5672', queue: q}\n",
			`tidings.yaml:3: sources[1].queue: source "b": source "a" consumes the queue "q" at broker:5672 vhost "/" already: remove one`,
		},
		"the queue of the section amqp again": {
			"amqp: {url: amqp://h/v}\nsources:\n  - {name: a, url: amqp://h/v, queue: tidings.events}\n",
			`tidings.yaml:3: sources[0].queue: source "a": source "amqp" consumes the queue "tidings.events" at h:5672 vhost "v" already: remove one`,
		},
	} {
		t.Run(name+" is refused with its place", func(t *testing.T) {
			c, err := load(t, tt.file)
			require.NoError(t, err)
			require.EqualError(t, c.Validate(), tt.want)
		})
	}
	t.Run("an unknown key of one is refused with its place", func(t *testing.T) {
		_, err := load(t, "sources:\n  - name: a\n    queues: q\n")
		require.EqualError(t, err, `tidings.yaml:3:5: unknown key "queues" (did you mean "queue"?)`)
	})
	t.Run("one queue name in two vhosts is accepted", func(t *testing.T) {
		c, err := load(t, "sources:\n  - {name: a, url: amqp://h/one, queue: q}\n  - {name: b, url: amqp://h/One, queue: q}\n")
		require.NoError(t, err)
		require.NoError(t, c.Validate())
	})
}
