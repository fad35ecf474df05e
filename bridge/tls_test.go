package bridge_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/bridge"
	"tidings/bridge/bridgetest"
)

// mutual is a broker that wants to see certificates, and who has signed them.
type mutual struct {
	ours, theirs *bridgetest.Authority // theirs: nobody trusts it
	client       bridgetest.Certificate
	url          string
	expired      string // where the broker's certificate has expired
}

func newMutual(t *testing.T) mutual {
	t.Helper()
	node := bridgetest.Private(t)
	m := mutual{ours: bridgetest.NewAuthority(t), theirs: bridgetest.NewAuthority(t)}
	m.client = m.ours.Issue("client", time.Hour)
	listen := func(c bridgetest.Certificate) string {
		url, err := node.ListenTLS(t.Context(), bridgetest.TLS{Certificate: c, ClientCAFile: m.ours.File})
		require.NoError(t, err)
		return url
	}
	m.url = listen(m.ours.Issue("server", time.Hour, "localhost"))
	m.expired = listen(m.ours.Issue("expired-server", -time.Hour, "localhost"))
	return m
}

func (m mutual) tls() bridge.TLS {
	return bridge.TLS{CAFile: m.ours.File, CertFile: m.client.CertFile, KeyFile: m.client.KeyFile}
}

// over makes the bridge of a world go over url.
func over(w *world, url string, with bridge.TLS) *world {
	w.config.URL, w.config.TLS = url+w.vhost.Name, with
	return w
}

func TestTLS(t *testing.T) {
	m := newMutual(t)
	bothSubscribers(t, func(t *testing.T, withQueue func(*testing.T) *world) { testTLS(t, m, withQueue) })
	t.Run("a file that is gone is said, and waited for", func(t *testing.T) {
		with, own := m.tls(), m.ours.Issue("own", time.Hour)
		with.CertFile, with.KeyFile = own.CertFile, own.KeyFile
		w := over(withQueue(t), m.url, with)
		w.start()
		w.eventually("consuming", func() bool { return w.bridge.Status().Consuming })
		require.NoError(t, os.Rename(own.KeyFile, own.KeyFile+".old"))
		require.NoError(t, w.vhost.CloseConnections(t.Context(), "for the test"))
		w.eventually("the reason", func() bool { return strings.Contains(w.bridge.Status().Reason, own.KeyFile+": no such file") })
		require.NoError(t, os.Rename(own.KeyFile+".old", own.KeyFile))
		w.publish(plain("a"))
		w.settled(1)
	})
	t.Run("a publisher shows the certificate too", func(t *testing.T) {
		w := over(withQueue(t), m.url, m.tls())
		p, err := bridge.NewPublisher(w.config.Address())
		require.NoError(t, err)
		defer p.Close()
		require.NoError(t, p.Publish(t.Context(), "", "orders", plain("a")))
	})
}

func testTLS(t *testing.T, m mutual, withQueue func(*testing.T) *world) {
	stale := m.ours.Issue("stale", -time.Hour)
	stranger := m.theirs.Issue("stranger", time.Hour)

	t.Run("a certificate that the broker trusts gets in", func(t *testing.T) {
		w := over(withQueue(t), m.url, m.tls())
		w.publish(plain("a"))
		w.start()
		w.settled(1)
	})
	t.Run("RabbitMQ's query parameters say the same", func(t *testing.T) {
		w := over(withQueue(t), m.url, bridge.TLS{})
		w.config.URL += "?cacertfile=" + m.ours.File + "&certfile=" + m.client.CertFile + "&keyfile=" + m.client.KeyFile
		w.publish(plain("a"))
		w.start()
		w.settled(1)
	})
	for name, c := range map[string]struct {
		url  string
		with func(*bridge.TLS)
		want []string
	}{
		"no certificate of our own": {
			m.url, func(c *bridge.TLS) { c.CertFile, c.KeyFile = "", "" },
			[]string{"the broker ended the TLS handshake: it may want a certificate: set tls.cert_file and tls.key_file"},
		},
		"a certificate of our own that the broker does not trust": {
			m.url, func(c *bridge.TLS) { c.CertFile, c.KeyFile = stranger.CertFile, stranger.KeyFile },
			[]string{"it may not accept the certificate in " + stranger.CertFile, "signed by an authority that the broker trusts"},
		},
		"a certificate of our own that has expired": {
			m.url, func(c *bridge.TLS) { c.CertFile, c.KeyFile = stale.CertFile, stale.KeyFile },
			[]string{"tls.cert_file: the certificate in " + stale.CertFile + " expired at 20", ": renew it"},
		},
		"an authority that has not signed the broker's": {
			m.url, func(c *bridge.TLS) { c.CAFile = m.theirs.File },
			[]string{"signed by unknown authority", "the authority that signed the broker's certificate is not in " + m.theirs.File},
		},
		"no authority but the system's": {
			m.url, func(c *bridge.TLS) { c.CAFile = "" },
			[]string{"signed by unknown authority", "set tls.ca_file to the authority that signed the broker's certificate"},
		},
		"a name that the broker's does not have": {
			m.url, func(c *bridge.TLS) { c.ServerName = "else.example" },
			[]string{"valid for localhost, not else.example", "set tls.server_name to a name that the broker's certificate has"},
		},
		"a broker's that has expired": {
			m.expired, func(*bridge.TLS) {},
			[]string{"certificate has expired", "renew the broker's certificate"},
		},
		"a port without TLS": {
			strings.Replace(bridgetest.Private(t).URL(), "amqp://", "amqps://", 1), func(*bridge.TLS) {},
			[]string{"the port does not speak TLS", "5671"},
		},
	} {
		t.Run(name+" is refused with a reason, without credentials, and tried again", func(t *testing.T) {
			with := m.tls()
			c.with(&with)
			w := over(withQueue(t), strings.Replace(c.url, "guest:guest@", "guest:hunter2@", 1), with)
			tries := newCounter()
			w.options.Probe = tries.probe
			w.start()
			<-tries.third
			require.True(t, w.bridge.Status().LastDelivery.IsZero())
			w.eventually("the reason", func() bool { return strings.HasPrefix(w.bridge.Status().Reason, "connect to ") })
			for _, want := range c.want {
				require.Contains(t, w.bridge.Status().Reason, want)
				require.Equal(t, 1, w.said.count(want), w.said.all())
			}
			require.NotContains(t, w.bridge.Status().Reason+w.said.all(), "hunter2")
			w.stop()
		})
	}
	t.Run("a file that was replaced is taken at the next connect", func(t *testing.T) {
		with, current := m.tls(), m.ours.Issue("current", -time.Hour)
		with.CertFile, with.KeyFile = current.CertFile, current.KeyFile
		w := over(withQueue(t), m.url, with)
		w.publish(plain("a"))
		w.start()
		w.eventually("the reason", func() bool { return strings.Contains(w.bridge.Status().Reason, ": renew it") })
		m.ours.Issue("current", time.Hour) // in the same files
		w.settled(1)
	})
}

// counter counts the tries of a bridge to connect.
type counter struct {
	tries int
	third chan struct{} // closed at the third
}

func newCounter() *counter { return &counter{third: make(chan struct{})} }

// probe is called by one goroutine.
func (c *counter) probe(context.Context) error {
	if c.tries++; c.tries == 3 {
		close(c.third)
	}
	return nil
}

func TestLoginByCertificate(t *testing.T) {
	m := newMutual(t)
	node := bridgetest.Private(t)
	_, err := node.Ctl(t.Context(), "eval", `
		[Dir | _] = filelib:wildcard(code:lib_dir(rabbit) ++ "/../rabbitmq_auth_mechanism_ssl-*/ebin"),
		true = code:add_path(Dir),
		ok = application:set_env(rabbit, auth_mechanisms, ['PLAIN', 'AMQPLAIN', 'EXTERNAL']),
		ok = application:set_env(rabbit, ssl_options, [{verify, verify_peer}]),
		ok = application:set_env(rabbit, ssl_cert_login_from, common_name),
		{ok, _} = application:ensure_all_started(rabbitmq_auth_mechanism_ssl),
		ok = rabbit_registry:register(auth_mechanism, <<"EXTERNAL">>, rabbit_auth_mechanism_ssl).`)
	require.NoError(t, err)
	_, err = node.Ctl(t.Context(), "add_user", "client", "nobody logs in by it")
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = node.Ctl(context.Background(), "delete_user", "client") })
	w := over(withQueue(t), strings.Replace(m.url, "guest:guest@", "", 1), m.tls())
	_, err = node.Ctl(t.Context(), "set_permissions", "--vhost", w.vhost.Name, "client", ".*", ".*", ".*")
	require.NoError(t, err)
	w.config.URL += "?auth_mechanism=external"
	w.publish(plain("a"))
	w.start()
	w.settled(1)
}
