package plan

import (
	"regexp"

	"tidings/streams/event"
)

// Rules are the routes as configured.
type Rules struct {
	// DefaultLocale is the language of template files that name none, and what
	// recipients get whose language nobody has. Empty means "en".
	DefaultLocale string `yaml:"default_locale,omitempty" json:"default_locale,omitempty"`
	// Vars are texts that expressions and templates see as vars.
	Vars map[string]string `yaml:"vars,omitempty" json:"vars,omitempty"`
	// Routes are considered in this order. All that match an event are used.
	Routes []Route `yaml:"routes,omitempty" json:"routes,omitempty"`
}

// Route says whom a type of event is told, on which channel and in what words.
type Route struct {
	// Name is part of every message id: renaming a route makes its messages new ones.
	Name string `yaml:"name" json:"name"`
	// Event is a type, or a pattern: * stands for one segment between dots, and
	// ** at the end for one or more.
	Event string `yaml:"event" json:"event"`
	// When is an expression that must yield true for the route to be used. Empty
	// means always.
	When    string `yaml:"when,omitempty" json:"when,omitempty"`
	Channel string `yaml:"channel" json:"channel"`
	// Providers are those of the channel that are used, first to last. Empty means as
	// the channel has them.
	Providers []string `yaml:"providers,omitempty,flow" json:"providers,omitempty"`
	// Template is a folder of templates. A webhook without one sends the event as
	// CloudEvents JSON.
	Template string `yaml:"template,omitempty" json:"template,omitempty"`
	// Recipients is an expression that yields an address, an object {address,
	// locale}, a list of these, or nothing.
	Recipients string `yaml:"recipients" json:"recipients"`
	// Locale is an expression that yields the language of recipients who name
	// none themselves.
	Locale string `yaml:"locale,omitempty" json:"locale,omitempty"`
	// OnUnknown overrides what the channel does about a message of unknown fate.
	OnUnknown event.OnUnknown `yaml:"on_unknown,omitempty" json:"on_unknown,omitempty"`
}

// Kind says what the addresses and contents of a channel are like.
type Kind string

// The kinds of channels. Others are taken as they are: their addresses are only
// checked for control characters.
const (
	Email   Kind = "email"   // mailboxes; subject and text or HTML
	Webhook Kind = "webhook" // absolute http and https URLs; one body
)

// Channel is what a plan needs to know of a channel.
type Channel struct {
	Kind Kind
	// Providers are the names of its providers; empty: it has the one.
	Providers []string
	// OnUnknown is the channel's policy. Empty means resend for a webhook, which
	// gets the same idempotency key again, and hold for anything else.
	OnUnknown event.OnUnknown
}

func (c Channel) onUnknown(override event.OnUnknown) event.OnUnknown {
	switch {
	case override != "":
		return override
	case c.OnUnknown != "":
		return c.OnUnknown
	case c.Kind == Webhook:
		return event.Resend
	}
	return event.Hold
}

// Options are what a plan depends on beside its rules.
type Options struct {
	Secret   []byte             // keys the hashes of recipients; must not be empty
	Channels map[string]Channel // those that exist, by name
	// Folder is what messages call the root of the templates. Empty means "templates".
	Folder string
	// MaxMessages bounds the messages of one event. 0 means 1000.
	MaxMessages int
	// MaxOutput bounds the bytes that the templates of one message write. 0 means
	// 1 MiB. All messages of an event together may have 64 times as much.
	MaxOutput int
}

// outputs is how many times the output of one message all messages of an event may have.
const outputs = 64

func (o Options) withDefaults() Options {
	if o.Folder == "" {
		o.Folder = "templates"
	}
	if o.MaxMessages == 0 {
		o.MaxMessages = 1000
	}
	if o.MaxOutput == 0 {
		o.MaxOutput = 1 << 20
	}
	return o
}

var routeName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
