package config

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
)

// The kinds of channels.
const (
	KindEmail   = "email"
	KindWebhook = "webhook"
)

// Channel is one way to send: how patiently ([Tuning]) and by whom. Exactly the
// section of its kind is set.
type Channel struct {
	Kind    string
	Tuning  Tuning
	Email   *Email
	Webhook *Webhook
	// Providers are asked in this order. None: the channel itself is the one, under
	// its own name.
	Providers []*Override
}

// Tuning changes the policy for one channel. What is zero is taken from the
// policy, except that an empty list of rounds means that there are none.
type Tuning struct {
	Tries       int        `yaml:"tries,omitempty"`
	Base        Duration   `yaml:"base,omitempty"`
	Factor      float64    `yaml:"factor,omitempty"`
	Rounds      []Duration `yaml:"rounds,omitempty,flow"`
	OnUnknown   string     `yaml:"on_unknown,omitempty"` // resend or hold; empty: what suits the kind
	Timeout     Duration   `yaml:"timeout,omitempty"`    // of one call
	Concurrency int        `yaml:"concurrency,omitempty"`
	Rate        Rate       `yaml:"rate,omitempty"`  // of calls; empty: no bound
	Burst       int        `yaml:"burst,omitempty"` // calls at once within the rate; 0: 1
	Breaker     Breaker    `yaml:"breaker,omitempty"`
	// DeadLetterPermanent makes a dead letter of an event that the provider
	// refused for good.
	DeadLetterPermanent bool `yaml:"dead_letter_permanent,omitempty"`
}

// Breaker says when a channel is shut because its provider does not get through.
// What is zero has the default of package dispatcher.
type Breaker struct {
	Failures int      `yaml:"failures,omitempty"` // in a row
	OpenFor  Duration `yaml:"open_for,omitempty"` // before one call shows whether it does again
}

// Email is a mail server. Package email says what each value means.
type Email struct {
	Host         string `yaml:"host"`
	Port         int    `yaml:"port,omitempty"`    // 0: what suits tls
	TLS          string `yaml:"tls,omitempty"`     // starttls, opportunistic, implicit or none
	CAFile       string `yaml:"ca_file,omitempty"` // PEM, beside the system's
	Username     string `yaml:"username,omitempty"`
	Password     Secret `yaml:"password,omitempty"`
	PasswordFile string `yaml:"password_file,omitempty"`
	Auth         string `yaml:"auth,omitempty"` // empty: the best that the server offers
	From         string `yaml:"from"`
	ReplyTo      string `yaml:"reply_to,omitempty"`
	HELO         string `yaml:"helo,omitempty"`
}

// Webhook is what is common to the calls of a channel; the recipients are the
// addresses that are called.
type Webhook struct {
	// Secret signs: "whsec_" and 24 to 64 bytes in base64. Several, separated by
	// blanks, each sign, so that receivers can change over.
	Secret       Secret   `yaml:"secret,omitempty"`
	SecretFile   string   `yaml:"secret_file,omitempty"`
	AllowPrivate bool     `yaml:"allow_private,omitempty"` // call loopback and private networks too
	AllowedCIDRs []string `yaml:"allowed_cidrs,omitempty,flow"`
	MaxResponse  int64    `yaml:"max_response,omitempty"` // bytes read of an answer
	CAFile       string   `yaml:"ca_file,omitempty"`      // PEM, beside the system's
	UserAgent    string   `yaml:"user_agent,omitempty"`
}

// The forms in which channels stand in a file: the section of the kind beside
// what every channel has.
type (
	emailForm struct {
		Kind   string `yaml:"kind"`
		Tuning `yaml:",inline"`
		Email  `yaml:",inline"`

		Providers []*Override `yaml:"providers,omitempty"`
	}
	webhookForm struct {
		Kind    string `yaml:"kind"`
		Tuning  `yaml:",inline"`
		Webhook `yaml:",inline"`

		Providers []*Override `yaml:"providers,omitempty"`
	}
)

// UnmarshalYAML reads the keys that the kind has, and refuses others.
func (c *Channel) UnmarshalYAML(unmarshal func(any) error) error {
	var keys map[string]ast.Node
	var all ast.Node
	if err := errors.Join(unmarshal(&all), unmarshal(&keys)); err != nil {
		return err
	}
	if keys["kind"] == nil {
		return &yaml.SyntaxError{Message: "the channel has no kind: it is email or webhook", Token: all.GetToken()}
	}
	kind := keys["kind"].GetToken()
	if kind.Value != KindEmail && kind.Value != KindWebhook {
		return &yaml.SyntaxError{Message: fmt.Sprintf("unknown kind %q: it is email or webhook", kind.Value), Token: kind}
	}
	*c = Channel{Kind: kind.Value}
	form, take := c.form()
	err := unmarshal(form)
	take()
	return err
}

// form returns the section of the channel as it stands in a file, and what takes over
// what was read into it.
func (c *Channel) form() (form any, take func()) {
	switch c.Kind {
	case KindEmail:
		f := &emailForm{Kind: c.Kind, Tuning: c.Tuning, Email: value(c.Email), Providers: c.Providers}
		return f, func() { c.Tuning, c.Email, c.Providers = f.Tuning, &f.Email, f.Providers }
	case KindWebhook:
		f := &webhookForm{Kind: c.Kind, Tuning: c.Tuning, Webhook: value(c.Webhook), Providers: c.Providers}
		return f, func() { c.Tuning, c.Webhook, c.Providers = f.Tuning, &f.Webhook, f.Providers }
	}
	return &map[string]string{"kind": c.Kind}, func() {}
}

func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// MarshalYAML implements yaml.InterfaceMarshaler.
func (c Channel) MarshalYAML() (any, error) {
	form, _ := c.form()
	return form, nil
}

// Policy returns the policy of the channel: base, changed by its tuning.
func (t Tuning) Policy(base Policy) Policy {
	if t.Tries != 0 {
		base.Tries = t.Tries
	}
	if t.Base != 0 {
		base.Base = t.Base
	}
	if t.Factor != 0 {
		base.Factor = t.Factor
	}
	if t.Rounds != nil {
		base.Rounds = t.Rounds
	}
	return base
}

func (c *Channel) collect(all leaves, prefix, key string) {
	all.collect(prefix, key, reflect.ValueOf(&c.Tuning).Elem())
	if c.Email != nil {
		all.collect(prefix, key, reflect.ValueOf(c.Email).Elem())
	}
	if c.Webhook != nil {
		all.collect(prefix, key, reflect.ValueOf(c.Webhook).Elem())
	}
}
