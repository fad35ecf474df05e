package config

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
)

// Override is the section of a channel as one of its providers or a tenant has it:
// the keys that it gives take the place of the channel's.
type Override struct {
	Name    string  // of a provider
	Channel Channel // with what it does not give, once the file is read

	keys   map[string]ast.Node // that it gives
	decode func(any) error
}

// UnmarshalYAML only keeps what is there: what it changes may not be read yet.
func (o *Override) UnmarshalYAML(unmarshal func(any) error) error {
	o.decode = unmarshal
	return unmarshal(&o.keys)
}

// MarshalYAML implements yaml.InterfaceMarshaler.
func (o *Override) MarshalYAML() (any, error) {
	form, _ := o.Channel.form()
	text, err := yaml.Marshal(form)
	if err != nil {
		return nil, err
	}
	var all yaml.MapSlice
	if err := yaml.UnmarshalWithOptions(text, &all, yaml.UseOrderedMap()); err != nil {
		return nil, err
	}
	if o.Name == "" {
		return all, nil
	}
	mine := yaml.MapSlice{{Key: "name", Value: o.Name}}
	for _, item := range all {
		if key, _ := item.Key.(string); key != "kind" && !slices.Contains(ofTheChannel, key) {
			mine = append(mine, item)
		}
	}
	return mine, nil
}

// ofTheChannel are keys that say how often a message is tried, by whomever.
var ofTheChannel = []string{"tries", "base", "factor", "rounds", "on_unknown", "dead_letter_permanent", "providers"}

// gives reports whether a key, or the file of a secret, stands here.
func (o *Override) gives(key string) bool {
	key, _, _ = strings.Cut(key, ".")
	key = strings.TrimSuffix(key, "_file")
	_, itself := o.keys[key]
	_, file := o.keys[key+"_file"]
	return itself || file
}

// over returns a channel with what is given here in the place of its own.
func (o *Override) over(c Channel) (Channel, error) {
	if o.decode == nil {
		return c, nil
	}
	for _, f := range c.secrets("") {
		if o.gives(f.key) {
			f.set("") // the channel's own is not to be seen here
			*f.path = ""
		}
	}
	form, take := c.form()
	into := form
	if o.Name != "" {
		switch f := form.(type) {
		case *emailForm:
			named := &emailProvider{Form: *f}
			into, take = named, func() { c.Tuning, c.Email = named.Form.Tuning, &named.Form.Email }
		case *webhookForm:
			named := &webhookProvider{Form: *f}
			into, take = named, func() { c.Tuning, c.Webhook = named.Form.Tuning, &named.Form.Webhook }
		}
	}
	err := o.decode(into)
	take()
	return c, err
}

type (
	emailProvider struct {
		Name string    `yaml:"name"`
		Form emailForm `yaml:",inline"`
	}
	webhookProvider struct {
		Name string      `yaml:"name"`
		Form webhookForm `yaml:",inline"`
	}
)

// override completes the providers of all channels, and the channels of all tenants.
func (c *Config) override() error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(c.Channels)) {
		if ch := c.Channels[name]; ch != nil {
			errs = append(errs, ch.provide(nil))
		}
	}
	for _, tenant := range slices.Sorted(maps.Keys(c.Tenants)) {
		t := c.Tenants[tenant]
		if t == nil {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(t.Channels)) {
			if o := t.Channels[name]; o != nil {
				errs = append(errs, o.complete(name, c.Channels[name]))
			}
		}
	}
	return errors.Join(errs...)
}

// complete makes a tenant's channel of what it gives and the channel of that name.
func (o *Override) complete(name string, base *Channel) error {
	if base == nil {
		return nil // Validate says so
	}
	if kind, ok := o.keys["kind"]; ok && kind.GetToken().Value != base.Kind {
		return &yaml.SyntaxError{Message: fmt.Sprintf("channel %q is of kind %s for everybody", name, base.Kind), Token: kind.GetToken()}
	}
	own := base.clone()
	own.Providers = nil
	own, err := o.over(own)
	if err != nil {
		return err
	}
	if len(own.Providers) > 0 {
		err = own.provide(func(name string) *Override { return base.provider(name) })
	} else {
		for _, p := range base.Providers {
			q := &Override{Name: p.Name, keys: p.keys, decode: p.decode}
			if q.Channel, err = q.over(own); err != nil {
				return err
			}
			section := *o
			section.Name = ""
			if q.Channel, err = section.over(q.Channel); err != nil {
				return err
			}
			q.Channel.Providers = nil
			q.keys = maps.Clone(p.keys)
			maps.Copy(q.keys, o.keys)
			own.Providers = append(own.Providers, q)
		}
	}
	o.Channel = own
	return err
}

// provide completes the providers of a channel. before returns what the provider of
// that name gives elsewhere, which counts less.
func (c *Channel) provide(before func(name string) *Override) error {
	var errs []error
	for _, o := range c.Providers {
		if o == nil {
			continue // Validate says so
		}
		if name, ok := o.keys["name"]; ok {
			o.Name = name.GetToken().Value
		}
		for _, key := range slices.Sorted(maps.Keys(o.keys)) {
			token := o.keys[key].GetToken()
			if slices.Contains(ofTheChannel, key) {
				errs = append(errs, &yaml.SyntaxError{Message: fmt.Sprintf("%s is of the channel, not of one of its providers", key), Token: token})
			} else if key == "kind" && token.Value != c.Kind {
				errs = append(errs, &yaml.SyntaxError{Message: "the providers of a channel are of its kind, which is " + c.Kind, Token: token})
			}
		}
		if err := errors.Join(errs...); err != nil {
			return err
		}
		base := c.clone()
		base.Providers = nil
		var err error
		if before != nil {
			if b := before(o.Name); b != nil {
				base, err = b.over(base)
				errs = append(errs, err)
			}
		}
		if o.Name == "" {
			o.Name = " " // so that its keys are read; Validate wants one
		}
		o.Channel, err = o.over(base)
		o.Name = strings.TrimSpace(o.Name)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (c *Channel) provider(name string) *Override {
	i := slices.IndexFunc(c.Providers, func(o *Override) bool { return o != nil && o.Name == name })
	if i < 0 {
		return nil
	}
	return c.Providers[i]
}

// clone returns a channel whose sections can be changed.
func (c Channel) clone() Channel {
	if c.Email != nil {
		e := *c.Email
		c.Email = &e
	}
	if c.Webhook != nil {
		w := *c.Webhook
		c.Webhook = &w
	}
	return c
}

// overrides yields the providers of a channel, and each with its key.
func (c *Channel) overrides(key string) iter.Seq2[string, *Override] {
	return func(yield func(string, *Override) bool) {
		for i, o := range c.Providers {
			if o != nil && !yield(fmt.Sprintf("%s.providers[%d]", key, i), o) {
				return
			}
		}
	}
}

// Senders yields every section that makes a sender, by its key, for those who change some
// of them before they are used.
func (c *Config) Senders() iter.Seq2[string, *Channel] { return c.senders() }

// senders yields every section that makes a sender, by its key: channels, their
// providers, and both of tenants.
func (c *Config) senders() iter.Seq2[string, *Channel] {
	return func(yield func(string, *Channel) bool) {
		section := func(key string, ch *Channel) bool {
			if !yield(key, ch) {
				return false
			}
			for key, o := range ch.overrides(key) {
				if !yield(key, &o.Channel) {
					return false
				}
			}
			return true
		}
		for _, name := range slices.Sorted(maps.Keys(c.Channels)) {
			if ch := c.Channels[name]; ch != nil && !section("channels."+name, ch) {
				return
			}
		}
		for _, tenant := range slices.Sorted(maps.Keys(c.Tenants)) {
			if c.Tenants[tenant] == nil {
				continue
			}
			for _, name := range slices.Sorted(maps.Keys(c.Tenants[tenant].Channels)) {
				o := c.Tenants[tenant].Channels[name]
				if o != nil && o.Channel.Kind != "" && !section("tenants."+tenant+".channels."+name, &o.Channel) {
					return
				}
			}
		}
	}
}
