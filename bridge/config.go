package bridge

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	wamqp "github.com/ThreeDotsLabs/watermill-amqp/v2/pkg/amqp"
	amqp "github.com/rabbitmq/amqp091-go"
)

// Topology says what the bridge does about queue and bindings when it connects.
type Topology string

// The topologies.
const (
	// TopologyAssert expects the queue to be there and changes nothing. It is the default.
	TopologyAssert Topology = "assert"
	// TopologyDeclare makes the queue, its exchange and bindings, and a
	// dead-letter exchange with a queue for what RabbitMQ itself gives up on.
	// What is there and differs is used as it is, and the rest is made.
	TopologyDeclare Topology = "declare"
)

// Subscriber says what consumes the queue.
type Subscriber string

// The subscribers.
const (
	// SubscriberWindowed is Tidings' own: one channel whose prefetch count is the
	// window. It is the default.
	SubscriberWindowed Subscriber = "windowed"
	// SubscriberWatermill is that of watermill-amqp, a subscription and a channel
	// for each delivery in hand, at most 64. It is slower. When the connection is
	// lost, the library reads and writes a variable of its own without a lock.
	SubscriberWatermill Subscriber = "watermill"
)

// Config says which queue to consume and how. URL and Queue are required.
type Config struct {
	// URL of the broker and vhost. It may hold user and password; they show in
	// no log, error or status.
	URL string `yaml:"url"`
	// TLS says which certificates count where URL begins with amqps.
	TLS   TLS    `yaml:"tls,omitempty"`
	Queue string `yaml:"queue"`

	Topology Topology `yaml:"topology,omitempty"`
	// Subscriber consumes the queue.
	Subscriber Subscriber `yaml:"subscriber,omitempty"`
	// Exchange is made and bound to the queue by TopologyDeclare; empty: none is.
	Exchange string `yaml:"exchange,omitempty"`
	// ExchangeKind is direct, fanout, headers or topic, which is the default.
	ExchangeKind string `yaml:"exchange_kind,omitempty"`
	// Bindings are the routing keys to bind; none means one, "#".
	Bindings []string `yaml:"bindings,omitempty"`
	// DeadLetterExchange is made by TopologyDeclare: the queue's name and ".dlx"
	// if empty.
	DeadLetterExchange string `yaml:"dead_letter_exchange,omitempty"`
	// DeliveryLimit is how often a message may come back to a queue that
	// TopologyDeclare makes; the next time RabbitMQ dead-letters it. 20 if zero,
	// RabbitMQ 4's own default. It is what puts a message aside that ends every
	// connection.
	DeliveryLimit int `yaml:"delivery_limit,omitempty"`

	// Window is how many deliveries may be in hand at the same time, 256 if zero;
	// SubscriberWatermill takes at most 64.
	Window int `yaml:"window,omitempty"`
	// Mapping says where the attributes of events are found.
	Mapping Mapping `yaml:"mapping,omitempty"`
	// Name tells this bridge from others: in the log, in its status, and behind
	// "tidings" as the name of the connection in RabbitMQ's management.
	Name string `yaml:"name,omitempty"`
	// ConsumerTag names the consumer in RabbitMQ's management; "tidings" if empty.
	ConsumerTag string `yaml:"consumer_tag,omitempty"`

	// HoldFor is how long deliveries are held while the log does not take them, 60 s if zero.
	HoldFor time.Duration `yaml:"hold_for,omitempty"`
	// Drain is how long a stop may take for what is in hand, 25 s if zero.
	Drain time.Duration `yaml:"drain,omitempty"`
	// Reconnect bounds the time between two tries to connect.
	Reconnect Reconnect `yaml:"reconnect,omitempty"`
}

// Reconnect bounds the time between two tries: it starts at Initial, grows
// exponentially with jitter and stays at Max.
type Reconnect struct {
	Initial time.Duration `yaml:"initial,omitempty"` // 500 ms if zero
	Max     time.Duration `yaml:"max,omitempty"`     // 30 s if zero
	// CrashLoop is the least time between two tries while every connection ends
	// over a message that cannot be read, 30 s if zero.
	CrashLoop time.Duration `yaml:"crash_loop,omitempty"`
}

// DefaultWindow is the window of a [Config] that names none.
const DefaultWindow = 256

const (
	// maxSubscriptions is where more of them, each with a channel, gain nothing.
	maxSubscriptions = 64
	defaultHoldFor   = 60 * time.Second
	defaultDrain     = 25 * time.Second
	// defaultDeliveryLimit leaves room for what healthy messages gather before
	// one that ends connections is alone in the window.
	defaultDeliveryLimit = 20
	product              = "tidings"
)

func (c Config) withDefaults() Config {
	setDefault(&c.Topology, TopologyAssert)
	setDefault(&c.ExchangeKind, amqp.ExchangeTopic)
	setDefault(&c.DeadLetterExchange, c.Queue+".dlx")
	setDefault(&c.DeliveryLimit, defaultDeliveryLimit)
	setDefault(&c.Subscriber, SubscriberWindowed)
	setDefault(&c.Window, DefaultWindow)
	if c.Subscriber == SubscriberWatermill {
		c.Window = min(c.Window, maxSubscriptions)
	}
	setDefault(&c.ConsumerTag, product)
	setDefault(&c.HoldFor, defaultHoldFor)
	setDefault(&c.Drain, defaultDrain)
	setDefault(&c.Reconnect.Initial, 500*time.Millisecond)
	setDefault(&c.Reconnect.Max, 30*time.Second)
	setDefault(&c.Reconnect.CrashLoop, 30*time.Second)
	if len(c.Bindings) == 0 {
		c.Bindings = []string{"#"}
	}
	return c
}

func setDefault[T comparable](v *T, value T) {
	var zero T
	if *v == zero {
		*v = value
	}
}

// Validate reports everything that cannot be meant.
func (c Config) Validate() error {
	var errs []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	_, err := broker(c.URL)
	refuse(err != nil, "url: %w", err)
	refuse(c.Queue == "", "queue: name the queue to consume")
	refuse(len(c.Queue) > maxShortString, "queue: has %d bytes: RabbitMQ takes at most %d", len(c.Queue), maxShortString)
	refuse(c.Topology != "" && c.Topology != TopologyAssert && c.Topology != TopologyDeclare,
		"topology: %q is not one of %s, %s", c.Topology, TopologyAssert, TopologyDeclare)
	refuse(c.Subscriber != "" && c.Subscriber != SubscriberWindowed && c.Subscriber != SubscriberWatermill,
		"subscriber: %q is not one of %s, %s", c.Subscriber, SubscriberWindowed, SubscriberWatermill)
	refuse(c.ExchangeKind != "" && !slices.Contains(exchangeKinds(), c.ExchangeKind),
		"exchange_kind: %q is not one of %s", c.ExchangeKind, strings.Join(exchangeKinds(), ", "))
	refuse(len(c.Bindings) > 0 && c.Exchange == "", "bindings: bind the queue to the exchange, which is not set")
	refuse(c.DeliveryLimit != 0 && c.DeliveryLimit <= maxLosses, "delivery_limit: %d is too small: "+
		"healthy messages may come back %d times because of another", c.DeliveryLimit, maxLosses)
	refuse(c.Window < 0 || c.Window > math.MaxUint16, "window: %d is not between 1 and %d", c.Window, math.MaxUint16)
	refuse(c.HoldFor < 0, "hold_for: is negative")
	refuse(c.Drain < 0, "drain: is negative")
	refuse(c.Reconnect.Initial < 0 || c.Reconnect.Max < 0 || c.Reconnect.CrashLoop < 0, "reconnect: is negative")
	return errors.Join(append(errs, c.TLS.validate(c.URL), c.Mapping.Validate())...)
}

// maxShortString is the longest name that AMQP can say.
const maxShortString = 255

func exchangeKinds() []string {
	return []string{amqp.ExchangeTopic, amqp.ExchangeDirect, amqp.ExchangeFanout, amqp.ExchangeHeaders}
}

// Place returns the queue, the broker's address and the vhost, without
// credentials: two configurations of the same place consume the same messages.
// It is empty if URL is none.
func (c Config) Place() string {
	where, err := broker(c.URL)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("queue %q at %s", c.Queue, where)
}

var errNoAMQPAddress = errors.New("is no AMQP address: write amqp://user:password@host:port/vhost, or amqps://, " +
	"with reserved characters in user and password percent-encoded")

// broker returns the address and vhost of a URL, without credentials. Its
// errors hold nothing of the URL: where it is misread, a piece of the password
// may be taken for something else.
func broker(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" || u.User == nil && strings.Contains(address, "@") {
		return "", errNoAMQPAddress
	}
	uri, err := amqp.ParseURI(address)
	if err != nil {
		return "", errNoAMQPAddress
	}
	return fmt.Sprintf("%s vhost %q", net.JoinHostPort(strings.ToLower(uri.Host), strconv.Itoa(uri.Port)), uri.Vhost), nil
}

// vhost returns the vhost of an address that broker accepts.
func vhost(address string) string {
	uri, _ := amqp.ParseURI(address)
	return uri.Vhost
}

// watermill returns the configuration in the terms of watermill-amqp.
func (c Config) watermill() wamqp.Config {
	return wamqp.Config{
		Connection: wamqp.ConnectionConfig{
			AmqpURI: c.Address(),
			AmqpConfig: &amqp.Config{
				Properties: amqp.Table{"product": product, "connection_name": strings.TrimSpace(product + " " + c.Name)},
				// The broker's limit is ours: headers are in one frame, and one that is
				// larger than we said we would read ends the connection.
				FrameSize: amqp.FrameSizeUnlimited,
			},
			Reconnect: &wamqp.ReconnectConfig{
				BackoffInitialInterval: c.Reconnect.Initial, BackoffMaxInterval: c.Reconnect.Max,
				BackoffMultiplier: 2, BackoffRandomizationFactor: 0.5,
			},
		},
		Exchange:        wamqp.ExchangeConfig{GenerateName: func(string) string { return "" }},
		Queue:           wamqp.QueueConfig{GenerateName: wamqp.GenerateQueueNameConstant(c.Queue)},
		Consume:         wamqp.ConsumeConfig{Consumer: c.ConsumerTag, Qos: wamqp.QosConfig{PrefetchCount: c.Window}},
		TopologyBuilder: asserting{vhost: vhost(c.URL)},
	}
}

// declaration returns what is to be made, nil for nothing.
func (c Config) declaration() *declaration {
	if c.Topology != TopologyDeclare {
		return nil
	}
	return &declaration{
		queue: c.Queue, exchange: c.Exchange, exchangeKind: c.ExchangeKind, bindings: c.Bindings, deadLetters: c.DeadLetterExchange,
		args: amqp.Table{
			amqp.QueueTypeArg: amqp.QueueTypeQuorum, argDeadLetterExchange: c.DeadLetterExchange, argDeliveryLimit: c.DeliveryLimit,
		},
	}
}
