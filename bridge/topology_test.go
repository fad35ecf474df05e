package bridge_test

import (
	"fmt"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"tidings/bridge"
)

func TestTopologyDeclare(t *testing.T) {
	t.Run("makes a quorum queue, the exchange, the bindings and a place for dead letters", func(t *testing.T) {
		w := newWorld(t)
		w.config.Topology, w.config.Exchange = bridge.TopologyDeclare, "shop"
		w.config.Bindings = []string{"order.*", "payment.failed"}
		w.start()
		w.eventually("a consumer", w.ready)

		ch := w.channel()
		for _, key := range []string{"order.placed", "payment.failed"} {
			require.NoError(t, ch.Publish("shop", key, true, false, plain(key)))
		}
		w.settled(2)

		_, err := ch.QueueDeclare("orders", true, false, false, false, amqp.Table{
			amqp.QueueTypeArg: amqp.QueueTypeQuorum, "x-dead-letter-exchange": "orders.dlx", "x-delivery-limit": 20,
		})
		require.NoError(t, err, "it is as it should be")
		w.publish(plain("given up"))
		d, ok, err := ch.Get("orders", false)
		require.NoError(t, err)
		require.True(t, ok)
		require.NoError(t, d.Reject(false))
		w.config.Queue = "orders.dead"
		w.eventually("a dead letter of the broker's", func() bool { return w.waiting(ch) == 1 })
	})
	t.Run("binds everything if no binding is named", func(t *testing.T) {
		w := newWorld(t)
		w.config.Topology, w.config.Exchange = bridge.TopologyDeclare, "shop"
		w.start()
		w.eventually("a consumer", w.ready)
		require.NoError(t, w.channel().Publish("shop", "any.thing", true, false, plain("a")))
		w.settled(1)
	})
	t.Run("binds a queue that is there and differs, and says once in what", func(t *testing.T) {
		w := newWorld(t)
		w.declareWith("orders", nil) // a classic one
		w.config.Topology, w.config.Exchange = bridge.TopologyDeclare, "shop"
		w.config.Bindings = []string{"order.*", "payment.failed", "refund.#"}
		w.start()
		w.eventually("a consumer", w.ready)
		ch := w.channel()
		for _, key := range []string{"order.placed", "payment.failed", "refund.full.late"} {
			require.NoError(t, ch.Publish("shop", key, true, false, plain(key)))
		}
		w.eventually("the events", func() bool { return w.stored() == 3 })
		require.NoError(t, w.vhost.CloseConnections(t.Context(), "for the test"))
		w.eventually("another session", func() bool { return w.bridge.Status().Reconnects == 1 && w.ready() })
		w.settled(3)
		for _, difference := range []string{
			"x-queue-type expected quorum, found none", "x-dead-letter-exchange expected orders.dlx, found none",
		} {
			require.Equal(t, 1, w.said.count(fmt.Sprintf("queue 'orders' in vhost '%s' is there and differs: %s", w.vhost.Name, difference)), w.said.all())
		}
		w.deadLettersOf("shop.dead", "orders.dlx")
	})
	t.Run("uses exchanges that are of another kind, and makes the rest", func(t *testing.T) {
		w := newWorld(t)
		ch := w.channel()
		require.NoError(t, ch.ExchangeDeclare("shop", amqp.ExchangeDirect, true, false, false, false, nil))
		require.NoError(t, ch.ExchangeDeclare("orders.dlx", amqp.ExchangeTopic, true, false, false, false, nil))
		w.config.Topology, w.config.Exchange = bridge.TopologyDeclare, "shop"
		w.config.Bindings = []string{"placed", "failed"}
		w.start()
		w.eventually("a consumer", w.ready)
		for _, key := range w.config.Bindings {
			require.NoError(t, ch.Publish("shop", key, true, false, plain(key)))
		}
		w.settled(2)
		require.Equal(t, 1, w.said.count("exchange 'shop' in vhost '"+w.vhost.Name+"' is there and differs: type expected topic, found direct"), w.said.all())
		require.Equal(t, 1, w.said.count("type expected fanout, found topic"), w.said.all())
		w.deadLettersOf("given.up", "orders.dlx")
	})
	t.Run("uses a queue of dead letters that differs, and makes the rest", func(t *testing.T) {
		w := newWorld(t)
		w.declareWith("orders.dead", nil)
		w.config.Topology, w.config.Exchange = bridge.TopologyDeclare, "shop"
		w.start()
		w.eventually("a consumer", w.ready)
		require.NoError(t, w.channel().Publish("shop", "any", true, false, plain("a")))
		w.settled(1)
		require.Equal(t, 1, w.said.count("queue 'orders.dead' in vhost '"+w.vhost.Name+"' is there and differs: x-queue-type expected quorum, found none"), w.said.all())
		w.deadLettersOf("given.up", "orders.dlx")
	})
}

// deadLettersOf ensures that what is dead-lettered to an exchange with a key is kept.
func (w *world) deadLettersOf(key, exchange string) {
	w.Helper()
	ch := w.channel()
	require.NoError(w, ch.Publish(exchange, key, true, false, plain("given up")))
	w.config.Queue = "orders.dead"
	w.eventually("a dead letter of the broker's", func() bool { return w.waiting(ch) == 1 })
}

func TestAddress(t *testing.T) {
	c := bridge.Config{URL: "amqps://ann:p%40ss@h:5671/%2Fshop?heartbeat=7&cacertfile=ca.pem"}
	require.Equal(t, c.URL, c.Address(), "is the URL where nothing is set for TLS")
	c.TLS = bridge.TLS{CAFile: "ca.pem", CertFile: "a b.pem", KeyFile: "k&.pem", ServerName: "rabbit"}
	require.Equal(t, "amqps://ann:p%40ss@h:5671/%2Fshop?cacertfile=ca.pem&certfile=a+b.pem&heartbeat=7&keyfile=k%26.pem&server_name_indication=rabbit", c.Address())
}

func TestConfig(t *testing.T) {
	valid := bridge.Config{URL: "amqp://guest:guest@127.0.0.1/", Queue: "orders"}
	for name, c := range map[string]struct {
		change func(*bridge.Config)
		want   string
	}{
		"no url":                            {func(c *bridge.Config) { c.URL = "" }, "url: is no AMQP address"},
		"another scheme":                    {func(c *bridge.Config) { c.URL = "http://h/" }, "url: is no AMQP address"},
		"no queue":                          {func(c *bridge.Config) { c.Queue = "" }, "queue: name the queue"},
		"an unknown topology":               {func(c *bridge.Config) { c.Topology = "make" }, `topology: "make" is not one of`},
		"a delivery limit too small":        {func(c *bridge.Config) { c.DeliveryLimit = 3 }, "delivery_limit: 3 is too small"},
		"no delivery limit":                 {func(c *bridge.Config) { c.DeliveryLimit = -1 }, "delivery_limit: -1 is too small"},
		"a negative window":                 {func(c *bridge.Config) { c.Window = -1 }, "window: -1 is not between 1 and 65535"},
		"too large a window":                {func(c *bridge.Config) { c.Window = 65536 }, "window: 65536"},
		"a constant id":                     {func(c *bridge.Config) { c.Mapping.ID.Constant = "1" }, "mapping.id.constant"},
		"a constant time":                   {func(c *bridge.Config) { c.Mapping.OccurredAt.Constant = "1" }, "mapping.occurred_at.constant"},
		"a URL that names no host":          {func(c *bridge.Config) { c.URL = "amqp:///shop" }, "url: is no AMQP address"},
		"certificates without TLS":          {func(c *bridge.Config) { c.TLS.ServerName = "rabbit" }, "tls: a URL that begins with amqp:// is not encrypted: write amqps://"},
		"certificates in a URL without TLS": {func(c *bridge.Config) { c.URL += "?cacertfile=ca.pem" }, "tls: a URL that begins with amqp:// is not encrypted"},
		"two authorities": {
			func(c *bridge.Config) { c.URL, c.TLS.CAFile = "amqps://h?cacertfile=a.pem", "b.pem" },
			"tls.ca_file: the URL has another cacertfile: remove one of the two",
		},
		"an authority that is not there": {
			func(c *bridge.Config) { c.URL, c.TLS.CAFile = "amqps://h", "/nowhere/ca.pem" },
			"tls.ca_file: open /nowhere/ca.pem: no such file",
		},
		"an authority that is none": {
			func(c *bridge.Config) { c.URL, c.TLS.CAFile = "amqps://h", "tls_test.go" },
			"tls.ca_file: tls_test.go holds no certificate in PEM",
		},
		"a certificate without key": {
			func(c *bridge.Config) { c.URL, c.TLS.CertFile = "amqps://h", "c.pem" },
			"tls.key_file: is missing",
		},
		"a key without certificate, in the URL": {
			func(c *bridge.Config) { c.URL = "amqps://h?keyfile=k.pem" }, "tls.cert_file: is missing",
		},
		"a certificate that is none": {
			func(c *bridge.Config) {
				c.URL, c.TLS.CertFile, c.TLS.KeyFile = "amqps://h", "tls_test.go", "tls_test.go"
			},
			"tls.cert_file: tls_test.go with the key tls_test.go: tls: ",
		},
		"a header without name": {func(c *bridge.Config) { c.Mapping.Type.Headers = []string{""} }, "mapping.type.headers"},
	} {
		t.Run("refuses "+name, func(t *testing.T) {
			config := valid
			c.change(&config)
			_, err := bridge.New(config, nil, bridge.Options{})
			require.ErrorContains(t, err, c.want)
		})
	}
	t.Run("reports everything that is wrong", func(t *testing.T) {
		err := bridge.Config{Window: -1}.Validate()
		require.ErrorContains(t, err, "url")
		require.ErrorContains(t, err, "queue")
		require.ErrorContains(t, err, "window")
	})
	t.Run("shows no piece of a password", func(t *testing.T) {
		for _, url := range []string{
			"amqp://user:se#cret@host/", "amqp://user:12?cret@host/", "amqp://user:se/cret@host/",
			"amqp://user:%zz@host/", "amqp://user:secret@host:port/",
		} {
			_, err := bridge.New(bridge.Config{URL: url, Queue: "q"}, nil, bridge.Options{})
			require.ErrorContains(t, err, "percent-encoded", url)
			for _, piece := range []string{"cret", "zz", "12"} {
				require.NotContains(t, err.Error(), piece)
			}
		}
	})
	t.Run("the status names broker and vhost, not who we are", func(t *testing.T) {
		b, err := bridge.New(bridge.Config{URL: "amqp://ann:secret@rabbit.example/shop", Queue: "q"}, nil, bridge.Options{})
		require.NoError(t, err)
		s := b.Status()
		require.Equal(t, `rabbit.example:5672 vhost "shop"`, s.Broker)
		require.False(t, s.Ready())
		require.Equal(t, "not started", s.Reason)
	})
}
