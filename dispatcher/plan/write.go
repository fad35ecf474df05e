package plan

import (
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
	m.Locale, m.Version = v.locale, v.version
	var err error
	m.Content, err = v.write(w.see(v.locale, c), w.o.MaxOutput)
	if w.left -= m.Content.size(); err == nil && w.left < 0 {
		err = fmt.Errorf("the messages of one event have more than %d bytes", outputs*w.o.MaxOutput)
	}
	return m, err
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
	for _, name := range []string{subject, text, html, body} {
		p := v.parts[name]
		if p == nil {
			continue
		}
		out, err := p.run(data, limit)
		if err != nil {
			return Content{}, err
		}
		limit -= len(out)
		written[name] = out
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
