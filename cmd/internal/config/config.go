// Package config is the configuration of Tidings: one struct, filled from
// defaults, then a YAML file, then the environment, then the flags of a command.
//
// # What to believe
//
//   - Nothing is ignored: an unknown or repeated key in the file is refused with
//     its line and column, an unknown TIDINGS_ variable with its name.
//   - Every single-valued key has a variable: its path in upper case, so
//     api.listen is TIDINGS_API_LISTEN. AMQP_URL and NATS_URL work too.
//   - A secret may stand in a file of its own: key_file in YAML, KEY_FILE in the
//     environment. It is read once, here.
//   - [Secret] and [URL] hide what they hold wherever they are printed, and no
//     error of this package quotes a value that may be a secret.
//   - [Config.Validate] reports everything that is wrong at once, routes and
//     templates included, by key and by its line in the file.
//
// Loading does not validate, so that a command can apply its flags in between.
package config

import (
	"slices"
	"time"

	"tidings/bridge"
	"tidings/dispatcher/plan"
	"tidings/streams/event"
)

// Config is everything that can be set. Use [Default] or [Load] to make one.
type Config struct {
	// Data is the directory of everything that Tidings keeps. It is relative to
	// the working directory.
	Data string `yaml:"data"`

	API API `yaml:"api"`
	// AMQP is the source of those who have one: it counts if it has a URL, and
	// its name is [SourceAMQP].
	AMQP AMQP `yaml:"amqp"`
	// Sources are further ones, of any broker, vhost and queue.
	Sources []Source `yaml:"sources,omitempty"`
	NATS    NATS     `yaml:"nats"`

	// Horizon is how long an event is remembered after its last record; 0 is for
	// ever.
	Horizon Duration `yaml:"horizon"`
	// Staleness is how old an event may be; 0 switches the check off.
	Staleness Duration `yaml:"staleness"`
	// AcceptDuplicates allows staleness 0 together with a horizon, although an
	// event that comes again after the horizon is then sent again.
	AcceptDuplicates bool `yaml:"accept_duplicates_after_horizon"`
	// Events are what producers published, Outcomes what became of it, and
	// DeadLetters what an operator must look at.
	Events      Events `yaml:"events"`
	Outcomes    Stream `yaml:"outcomes"`
	DeadLetters Stream `yaml:"dead_letters"`
	// Oversize bounds the object store of what is too large for a dead letter.
	Oversize Stream `yaml:"oversize"`
	// Identity lists the attributes that make two events the same one.
	Identity []string `yaml:"identity,flow"`
	// MissingID says what becomes of an event without an id: derive or quarantine.
	MissingID string `yaml:"missing_id"`

	// Policy is how often messages are tried; a channel may change it.
	Policy Policy `yaml:"policy"`
	// MaxWaiting is how many events may wait, for a time or for a channel, before no
	// more are taken from the log.
	MaxWaiting int `yaml:"max_waiting"`
	// Channels are the ways to send, by the name that routes use.
	Channels map[string]*Channel `yaml:"channels"`
	// Tenants are what is different for the events of some tenants, by their names.
	Tenants map[string]*Tenant `yaml:"tenants,omitempty"`
	// Suppressions are the recipients who get nothing.
	Suppressions []Suppression `yaml:"suppressions"`
	// Templates is the directory of the templates, relative to the file that
	// names it. Empty means that there are none.
	Templates string `yaml:"templates"`
	// Rules are the routes and what they share: default_locale, vars and routes
	// stand at the top of the file. Package plan says what is wrong with them.
	Rules plan.Rules `yaml:",inline"`

	where *places           // of the keys in the file, if there is one
	set   map[string]string // by what keys were set after the file: a variable or a flag
}

// API is where commands and consoles find the process.
type API struct {
	Listen    string `yaml:"listen"` // host:port; port 0 takes a free one
	Token     Secret `yaml:"token"`  // empty: one is made and kept in the data directory
	TokenFile string `yaml:"token_file"`
}

// AMQP is a queue that events come from.
type AMQP struct {
	URL      URL    `yaml:"url"`
	URLFile  string `yaml:"url_file"`
	Queue    string `yaml:"queue"`
	Topology string `yaml:"topology"` // assert or declare
	Window   int    `yaml:"window"`   // deliveries in hand at a time; 0 is refused
	// Subscriber is windowed or watermill.
	Subscriber string `yaml:"subscriber"`
	// TLS says which certificates count where the URL begins with amqps.
	TLS bridge.TLS `yaml:"tls,omitempty"`
	// Of topology declare: the exchange, its kind (topic if empty), the routing
	// keys that bind the queue to it ("#" if there are none), and where RabbitMQ
	// puts what it gives up on.
	Exchange           string   `yaml:"exchange"`
	ExchangeKind       string   `yaml:"exchange_kind,omitempty"`
	Bindings           []string `yaml:"bindings,omitempty"`
	DeadLetterExchange string   `yaml:"dead_letter_exchange,omitempty"`
	ConsumerTag        string   `yaml:"consumer_tag,omitempty"`
	// DeliveryLimit is how often a message may come back before RabbitMQ gives
	// it up; 0 lets the bridge choose. It too is of topology declare.
	DeliveryLimit int `yaml:"delivery_limit,omitempty"`
	// Mapping says where the attributes of an event are found in a delivery.
	Mapping bridge.Mapping `yaml:"mapping,omitempty"`
}

// NATS is where the log is. An empty URL means the server in this process.
type NATS struct {
	URL        URL    `yaml:"url"`
	URLFile    string `yaml:"url_file"`
	Durability string `yaml:"durability"` // strict or relaxed
	Replicas   int    `yaml:"replicas"`   // of every stream, on an external cluster
	// Listen is where other programs follow OUTCOMES on the server in this process,
	// with the password and as [FollowerUser]. Empty: nowhere.
	Listen               string    `yaml:"listen,omitempty"`
	FollowerPassword     Secret    `yaml:"follower_password,omitempty"`
	FollowerPasswordFile string    `yaml:"follower_password_file,omitempty"`
	TLS                  ServerTLS `yaml:"tls,omitempty"` // of Listen
}

// Stream bounds a stream of the log. One that is full takes nothing more.
type Stream struct {
	MaxBytes Size `yaml:"max_bytes"`
}

// Events bounds the stream of events.
type Events struct {
	Stream `yaml:",inline"`
	// Keep is how long an event that has ended stays, if there is space.
	Keep Duration `yaml:"keep"`
}

// Policy is how often the messages of an event are tried.
type Policy struct {
	Tries   int        `yaml:"tries"`       // a round
	Base    Duration   `yaml:"base"`        // wait before the second try of a round
	Factor  float64    `yaml:"factor"`      // by which the wait grows with every try
	Rounds  []Duration `yaml:"rounds,flow"` // waits before the rounds after the first
	Crashes int        `yaml:"crashes"`     // claims without results before an event is a dead letter
}

// Total returns how long the rounds may take from first to last.
func (p Policy) Total() time.Duration {
	var sum time.Duration
	for _, r := range p.Rounds {
		sum += r.Std()
	}
	return sum
}

// Tenant is what is different for the events of one tenant.
type Tenant struct {
	plan.Overlay `yaml:",inline"`
	// Channels give keys that take the place of those of the channel of that name: the
	// tenant has a sender of its own.
	Channels map[string]*Override `yaml:"channels,omitempty"`
}

// Suppression is a recipient who gets nothing. Tenant and Channel may be empty,
// which means every one.
type Suppression struct {
	Tenant  string `yaml:"tenant,omitempty"`
	Channel string `yaml:"channel,omitempty"`
	Address string `yaml:"address"`
	Reason  string `yaml:"reason,omitempty"`
}

// The values of the keys that offer a choice.
const (
	TopologyAssert      = string(bridge.TopologyAssert)
	TopologyDeclare     = string(bridge.TopologyDeclare)
	SubscriberWindowed  = string(bridge.SubscriberWindowed)
	SubscriberWatermill = string(bridge.SubscriberWatermill)
	DurabilityStrict    = "strict"
	DurabilityRelaxed   = "relaxed"
	MissingDerive       = "derive"
	MissingQuarantine   = "quarantine"
)

// Default returns the configuration of a process without file, environment and
// flags: it takes events over HTTP, keeps its log in ./tidings-data, and has no
// routes, so that every event ends with the outcome no_template.
func Default() Config {
	amqp := defaultAMQP()
	amqp.Queue = "tidings.events"
	return Config{
		Data:        "./tidings-data",
		API:         API{Listen: "127.0.0.1:8420"},
		AMQP:        amqp,
		NATS:        NATS{Durability: DurabilityStrict, Replicas: 1},
		Horizon:     Duration(14 * 24 * time.Hour),
		Staleness:   Duration(7 * 24 * time.Hour),
		Events:      Events{Stream: Stream{MaxBytes: 8 << 30}, Keep: Duration(14 * 24 * time.Hour)},
		Outcomes:    Stream{MaxBytes: 8 << 30},
		DeadLetters: Stream{MaxBytes: 2 << 30},
		Oversize:    Stream{MaxBytes: 2 << 30},
		Identity:    []string{"tenant", "source", "id"},
		MissingID:   MissingDerive,
		MaxWaiting:  100_000,
		Policy: Policy{
			Tries: 3, Base: Duration(200 * time.Millisecond), Factor: 2, Crashes: 3,
			Rounds: []Duration{
				Duration(30 * time.Second), Duration(5 * time.Minute),
				Duration(30 * time.Minute), Duration(2 * time.Hour),
			},
		},
	}
}

// EventIdentity returns the identity in the form that makes keys.
func (c Config) EventIdentity() event.Identity {
	return event.Identity{IgnoreSource: !slices.Contains(c.Identity, "source")}
}
