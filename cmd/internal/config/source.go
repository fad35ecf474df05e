package config

import (
	"fmt"
	"slices"
	"strings"

	"tidings/bridge"
)

// SourceAMQP is the name of the source that the section amqp describes.
const SourceAMQP = "amqp"

// Source is a queue that events come from, under a name of its own.
type Source struct {
	Name string `yaml:"name"`
	AMQP `yaml:",inline"`
}

// AllSources returns every queue that events come from, that of the section amqp
// first. There may be none: events come over HTTP alone then.
func (c Config) AllSources() []Source {
	if c.AMQP.URL == "" {
		return c.Sources
	}
	return append([]Source{{Name: SourceAMQP, AMQP: c.AMQP}}, c.Sources...)
}

// Config returns what makes the bridge from the source.
func (s Source) Config() bridge.Config {
	return bridge.Config{
		Name: s.Name, URL: s.URL.Reveal(), TLS: s.TLS, Queue: s.Queue, Topology: bridge.Topology(s.Topology),
		Exchange: s.Exchange, ExchangeKind: s.ExchangeKind, Bindings: s.Bindings,
		DeadLetterExchange: s.DeadLetterExchange, ConsumerTag: s.ConsumerTag,
		Subscriber: bridge.Subscriber(s.Subscriber), DeliveryLimit: s.DeliveryLimit, Window: s.Window, Mapping: s.Mapping,
	}
}

// defaultAMQP is what holds for every source unless it says something else. The
// queue has no default: it is what tells one source from another.
func defaultAMQP() AMQP {
	return AMQP{Topology: TopologyAssert, Window: bridge.DefaultWindow, Subscriber: SubscriberWindowed}
}

// UnmarshalYAML reads an entry of the list.
func (s *Source) UnmarshalYAML(unmarshal func(any) error) error {
	type entry Source
	e := entry{AMQP: defaultAMQP()}
	err := unmarshal(&e)
	*s = Source(e)
	return err
}

// validate asks the bridge itself what is wrong.
func (s Source) validate(ps *Problems, key, label string) {
	if s.Window == 0 {
		ps.add(key+".window", "%s0 would be no bound at all: set 1 to 65535, or leave it out for %d", label, bridge.DefaultWindow)
	}
	err := s.Config().Validate()
	if err == nil {
		return
	}
	for _, line := range slices.Sorted(strings.SplitSeq(err.Error(), "\n")) {
		at, message, _ := strings.Cut(line, ": ")
		ps.add(key+"."+at, "%s%s", label, message)
	}
}

// validateSources also refuses two sources that are one.
func (c Config) validateSources(ps *Problems) {
	amqp := Source{Name: SourceAMQP, AMQP: c.AMQP}
	if amqp.URL == "" {
		amqp.URL = "amqps://localhost" // no source, and the rest may be wrong all the same
	}
	amqp.validate(ps, SourceAMQP, "")
	for i, s := range c.Sources {
		key, label := sourceKey(i), ""
		switch {
		case !validName(s.Name):
			ps.add(key+".name", "%q: a source's name has 1 to 64 of the characters a-z, 0-9, - and _", s.Name)
		case s.Name == SourceAMQP:
			ps.add(key+".name", "%q is what the section amqp describes: take another name", s.Name)
		default:
			label = fmt.Sprintf("source %q: ", s.Name)
		}
		s.validate(ps, key, label)
	}
	c.validateApart(ps)
}

// validateApart refuses the second of two sources that have their name or their
// queue in common.
func (c Config) validateApart(ps *Problems) {
	names, queues := map[string]bool{}, map[string]string{}
	if c.AMQP.URL != "" {
		queues[Source{AMQP: c.AMQP}.Config().Place()] = SourceAMQP
	}
	for i, s := range c.Sources {
		place := s.Config().Place()
		if first, taken := queues[place]; taken && place != "" {
			ps.add(sourceKey(i)+".queue", "source %q: source %q consumes the %s already: remove one", s.Name, first, place)
		} else {
			queues[place] = s.Name
		}
		if names[s.Name] {
			ps.add(sourceKey(i)+".name", "%q is the name of another source, too: take another", s.Name)
		}
		names[s.Name] = true
	}
}

func sourceKey(i int) string { return fmt.Sprintf("sources[%d]", i) }
