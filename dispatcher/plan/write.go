package plan

import (
	"cmp"
	"fmt"
	"maps"
	"strings"
	"unicode"

	"tidings/streams/event"
)

// write gives every chosen message its contents.
func (d *draft) write() ([]Message, error) {
	w := writer{draft: d, left: outputs * d.o.MaxOutput}
	messages := make([]Message, len(d.chosen))
	for i, c := range d.chosen {
		m, err := w.message(c)
		if err != nil {
			return nil, c.route.fault(err)
		}
		messages[i] = m
	}
	return messages, nil
}

// writer remembers what the messages of one event have in common.
type writer struct {
	*draft
	values map[string]any // what templates see, without what is the recipient's
	event  []byte         // the body of webhooks without a template
	left   int            // bytes that the other messages may have
}

func (w *writer) message(c choice) (Message, error) {
	r := c.route
	m := Message{Address: c.target.address, Zone: c.zone, PlannedMessage: event.PlannedMessage{
		ID:    event.NewMessageID(w.key, r.Name, r.Channel, event.NormalizeAddress(c.target.address)),
		Route: r.Name, Channel: r.Channel, Template: r.Template,
		Recipient: event.NewRecipient(w.o.Secret, c.target.address),
		OnUnknown: r.channel.onUnknown(r.OnUnknown), Category: r.Category,
	}}
	if r.template == nil {
		if w.event == nil {
			w.event = cloudEvent(w.envelope)
		}
		m.Content = Content{Body: w.event, ContentType: CloudEventType}
		return m, nil
	}
	v := r.template.variants[r.template.locales.choose(c.target.locale, c.locale, w.locale)]
	err := w.fill(&m, c, v)
	if err != nil && r.OnTemplateError == Degrade {
		err = w.degrade(&m, c, v, err)
	}
	if w.left -= m.Content.size(); err == nil && w.left < 0 {
		err = fmt.Errorf("the messages of one event have more than %d bytes", outputs*w.o.MaxOutput)
	}
	return m, err
}

// fill gives a message its contents in one language.
func (w *writer) fill(m *Message, c choice, v *variant) (err error) {
	m.Locale, m.Version = v.locale, v.version
	m.Content, err = v.write(w.see(v.locale, c), w.o.MaxOutput)
	return err
}

// degrade gives a message what can be said nevertheless: the words of the default
// language, and where they fail too, or failed, which event it is.
func (w *writer) degrade(m *Message, c choice, tried *variant, why error) error {
	m.Degraded = cut(why.Error(), maxDegraded)
	standard := c.route.template.variants[c.route.template.locales.names[0]]
	if standard != tried && w.fill(m, c, standard) == nil {
		return nil
	}
	m.Locale, m.Version = "", ""
	m.Content = w.plain(c.route.channel.Kind)
	return nil
}

// maxDegraded bounds what a record says about a template that failed.
const maxDegraded = 500

// plain is a message without a template. It holds nothing of the payload.
func (w *writer) plain(k Kind) Content {
	e := w.envelope
	if k == Webhook {
		return Content{Body: cloudEvent(e), ContentType: CloudEventType}
	}
	subject := strings.Map(printable, fmt.Sprintf("%s %s", e.Type, e.ID))
	text := fmt.Sprintf("%s\n\nEvent %s of type %s from %s.\nIts own words could not be written.\n", subject, e.ID, e.Type, cmp.Or(e.Source, "an unnamed source"))
	return Content{Subject: cut(subject, maxSubject), Text: text}
}

// maxSubject bounds a subject that is made of an event's type and id.
const maxSubject = 200

func printable(r rune) rune {
	if unicode.IsControl(r) {
		return ' '
	}
	return r
}

// see returns what a template sees of the event and one recipient.
func (w *writer) see(locale string, c choice) map[string]any {
	if w.values == nil {
		w.values = w.env.forTemplates()
	}
	out := maps.Clone(w.values)
	out["locale"], out["timezone"], out["recipient"] = locale, c.zone.String(), c.target.object
	return out
}

// write executes the parts, which together may have limit bytes.
func (v *variant) write(data map[string]any, limit int) (Content, error) {
	written := map[string]string{}
	put := func(name string, out string, err error) error {
		limit -= len(out)
		written[name] = out
		return err
	}
	for _, name := range []string{subject, text, html, body} {
		if p := v.parts[name]; p != nil {
			out, err := p.run(data, limit)
			if err := put(name, out, err); err != nil {
				return Content{}, err
			}
		}
	}
	if p := v.parts[marked]; p != nil {
		out, err := p.markdown.html(data, limit)
		if err := put(html, out, err); err != nil {
			return Content{}, err
		}
		if v.parts[text] == nil {
			out, err := p.run(data, limit)
			if err := put(text, out, err); err != nil {
				return Content{}, err
			}
		}
	}
	return v.content(written)
}

func (v *variant) content(written map[string]string) (Content, error) {
	c := Content{Subject: strings.TrimSpace(written[subject]), Text: written[text], HTML: written[html]}
	if p := v.parts[subject]; p != nil {
		switch {
		case c.Subject == "":
			return Content{}, fmt.Errorf("%s: the subject is empty", p.file)
		case strings.ContainsFunc(c.Subject, unicode.IsControl):
			return Content{}, fmt.Errorf("%s: the subject holds a line break or another control character", p.file)
		}
	}
	if p := v.parts[body]; p != nil {
		c.Body, c.ContentType = []byte(written[body]), p.mediaType
	}
	return c, nil
}
