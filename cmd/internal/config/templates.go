package config

import (
	"errors"
	"fmt"

	"tidings/dispatcher/plan"
	"tidings/streams/event"
)

// Linted is what [Config.LintTemplates] found.
type Linted struct {
	OK       bool     `json:"ok"`
	Problems []string `json:"problems"`
	Warnings []string `json:"warnings"`
}

// LintTemplates writes every template for its sample, see [plan.Planner.Lint]. The error
// is that of [Config.Validate].
func (c Config) LintTemplates() (Linted, error) {
	p, err := c.offline()
	if err != nil {
		return Linted{}, err
	}
	problems, warnings := p.Lint()
	out := Linted{OK: len(problems) == 0, Problems: []string{}, Warnings: append(append([]string{}, p.Warnings()...), warnings...)}
	for _, one := range problems {
		out.Problems = append(out.Problems, one.String())
	}
	return out, nil
}

// offline is what plans for nobody: the hashes of recipients are not those of a data
// directory.
func (c Config) offline() (*plan.Planner, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return c.Planner([]byte("nobody is told"))
}

// Rendering says what message is to be written, and for whom. What is empty is as the
// route, its sample and its recipients have it.
type Rendering struct {
	Route, Tenant, Type  string
	Data                 []byte
	To, Locale, Timezone string
}

// Rendered is a message as somebody would read it.
type Rendered struct {
	Route       string `json:"route"`
	Channel     string `json:"channel"`
	Template    string `json:"template,omitempty"`
	Version     string `json:"template_version,omitempty"`
	Locale      string `json:"locale,omitempty"`
	Timezone    string `json:"timezone"`
	To          string `json:"to"`
	Subject     string `json:"subject,omitempty"`
	Text        string `json:"text,omitempty"`
	HTML        string `json:"html,omitempty"`
	Body        string `json:"body,omitempty"`
	ContentType string `json:"content_type,omitempty"` // of Body
	Degraded    string `json:"degraded,omitempty"`
}

// Errors of rendering.
var (
	// ErrDeadLetter means that the event would be a dead letter.
	ErrDeadLetter = errors.New("it would be a dead letter")
	// ErrNoRoute means that there is no such route.
	ErrNoRoute = errors.New("not found")
)

// RenderTemplate writes the message of one route, see [plan.Planner.Render]. Errors:
// [ErrDeadLetter], [ErrNoRoute], and those of [Config.Validate].
func (c Config) RenderTemplate(r Rendering) (Rendered, error) {
	p, err := c.offline()
	if err != nil {
		return Rendered{}, err
	}
	e := event.Envelope{Tenant: r.Tenant, Type: r.Type, Data: r.Data}
	m, err := p.Render(r.Route, e, plan.Reader{Address: r.To, Locale: r.Locale, Timezone: r.Timezone})
	if of, ok := errors.AsType[*plan.Error](err); ok {
		return Rendered{}, fmt.Errorf("%w: %w", ErrDeadLetter, of)
	}
	if err != nil {
		return Rendered{}, fmt.Errorf("%w: %w", ErrNoRoute, err)
	}
	return Rendered{
		Route: m.Route, Channel: m.Channel, Template: m.Template, Version: m.Version, Locale: m.Locale, Timezone: m.Zone.String(),
		To: m.Address, Subject: m.Content.Subject, Text: m.Content.Text, HTML: m.Content.HTML,
		Body: string(m.Content.Body), ContentType: m.Content.ContentType, Degraded: m.Degraded,
	}, nil
}
