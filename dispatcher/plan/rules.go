package plan

import (
	"cmp"
	"regexp"

	"tidings/streams/event"
)

// Rules are the routes as configured.
type Rules struct {
	// DefaultLocale is the language of template files that name none, and what
	// recipients get whose language nobody has. Empty means "en".
	DefaultLocale string `yaml:"default_locale,omitempty" json:"default_locale,omitempty"`
	// Timezone is the zone of recipients for whom none is given, by its name in the
	// IANA database. Empty means "UTC".
	Timezone string `yaml:"timezone,omitempty" json:"timezone,omitempty"`
	// Vars are texts that expressions and templates see as vars.
	Vars map[string]string `yaml:"vars,omitempty" json:"vars,omitempty"`
	// Groups are named lists of recipients, which expressions see as groups: each is
	// an address, or an object with one, as recipients yields them.
	Groups map[string][]any `yaml:"groups,omitempty" json:"groups,omitempty"`
	// Contracts are files with a JSON Schema, by the type or pattern of the events whose
	// payload must be like that. An event that is not is a dead letter.
	Contracts map[string]string `yaml:"contracts,omitempty" json:"contracts,omitempty"`
	// Routes are considered in this order. All that match an event are used.
	Routes []Route `yaml:"routes,omitempty" json:"routes,omitempty"`
	// Tenants are what is different for the events of some tenants. They stand in a
	// section of the configuration that has more.
	Tenants map[string]Overlay `yaml:"-" json:"tenants,omitempty"`
}

// Overlay is what is different for the events of one tenant. What it leaves out is as
// for all.
type Overlay struct {
	// DefaultLocale is what the tenant's recipients get for whom no language is given,
	// where a template has it.
	DefaultLocale string            `yaml:"default_locale,omitempty" json:"default_locale,omitempty"`
	Timezone      string            `yaml:"timezone,omitempty" json:"timezone,omitempty"`
	Vars          map[string]string `yaml:"vars,omitempty" json:"vars,omitempty"`           // beside the others, or in the place of one
	Groups        map[string][]any  `yaml:"groups,omitempty" json:"groups,omitempty"`       // the same
	Contracts     map[string]string `yaml:"contracts,omitempty" json:"contracts,omitempty"` // the same
	// Routes change the keys that they have, of the route of the same name. Those of
	// another name are further routes, after the others.
	Routes []RouteOverlay `yaml:"routes,omitempty" json:"routes,omitempty"`
}

// RouteOverlay is a route of one tenant.
type RouteOverlay struct {
	Route    `yaml:",inline"`
	Disabled bool `yaml:"disabled,omitempty" json:"disabled,omitempty"` // the tenant does not have it
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
	// Recipients is an expression that yields an address, an object {address, locale,
	// timezone}, a list of these, or nothing.
	Recipients string `yaml:"recipients,omitempty" json:"recipients"`
	// To are further recipients, whatever the event says: each is an address, or an
	// object as Recipients yields it.
	To []any `yaml:"to,omitempty,flow" json:"to,omitempty"`
	// Locale is an expression that yields the language of recipients who name
	// none themselves, and Timezone one that yields their zone.
	Locale   string `yaml:"locale,omitempty" json:"locale,omitempty"`
	Timezone string `yaml:"timezone,omitempty" json:"timezone,omitempty"`
	// Category is what the messages are about, in one word such as newsletter. It is in
	// their records; nothing else depends on it.
	Category string `yaml:"category,omitempty" json:"category,omitempty"`
	// OnTemplateError is what becomes of a message whose template fails. Empty means
	// [DeadLetter].
	OnTemplateError OnTemplateError `yaml:"on_template_error,omitempty" json:"on_template_error,omitempty"`
	// OnUnknown overrides what the channel does about a message of unknown fate.
	OnUnknown event.OnUnknown `yaml:"on_unknown,omitempty" json:"on_unknown,omitempty"`
}

// OnTemplateError is what becomes of a message whose template fails on an event.
type OnTemplateError string

// What a route may have instead of a message.
const (
	// DeadLetter makes a dead letter of the whole event: nothing is sent.
	DeadLetter OnTemplateError = "dead_letter"
	// Degrade has the message say less: in the default language, or else in a plain text
	// that names the event. The other messages are as they are.
	Degrade OnTemplateError = "degrade"
)

// over returns a route with what an overlay changes.
func (r Route) over(o Route) Route {
	out := o
	out.Event, out.When = cmp.Or(o.Event, r.Event), cmp.Or(o.When, r.When)
	out.Channel, out.Template = cmp.Or(o.Channel, r.Channel), cmp.Or(o.Template, r.Template)
	out.Recipients, out.Locale, out.Timezone = cmp.Or(o.Recipients, r.Recipients), cmp.Or(o.Locale, r.Locale), cmp.Or(o.Timezone, r.Timezone)
	out.Category, out.OnUnknown = cmp.Or(o.Category, r.Category), cmp.Or(o.OnUnknown, r.OnUnknown)
	out.OnTemplateError = cmp.Or(o.OnTemplateError, r.OnTemplateError)
	if o.Providers == nil {
		out.Providers = r.Providers
	}
	if o.To == nil {
		out.To = r.To
	}
	return out
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
	// Read reads the file of a contract. nil: there are none.
	Read func(file string) ([]byte, error)
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

// category is a word. It is part of links and of headers.
var category = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,31}$`)

var routeName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
