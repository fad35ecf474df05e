package bridge

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Mapping says where the attributes of an event are found in a delivery. For
// each the first that is given counts:
//
//  1. its constant,
//  2. the CloudEvents attribute, or the extension named like the header without
//     anything but letters and digits (tenant-id: tenantid),
//  3. the configured headers, in order,
//  4. the AMQP property, see below,
//  5. the header of the default name, where no headers are configured,
//  6. the configured word of the routing key.
//
// The zero Mapping takes id from message-id or event-id, type from the property
// type, event-type or the whole routing key, source from app-id or
// event-source, tenant from tenant-id, correlation id from the property or
// header correlation-id, and the time from the property timestamp or
// occurred-at.
type Mapping struct {
	Tenant        Attribute `yaml:"tenant,omitempty"`
	Source        Attribute `yaml:"source,omitempty"`
	ID            Attribute `yaml:"id,omitempty"`
	Type          Attribute `yaml:"type,omitempty"`
	CorrelationID Attribute `yaml:"correlation_id,omitempty"`
	OccurredAt    Attribute `yaml:"occurred_at,omitempty"`
}

// Attribute says where one attribute is found, see [Mapping].
type Attribute struct {
	// Constant is the attribute of every event, whatever the delivery says: for
	// a queue of one tenant, say.
	Constant string `yaml:"constant,omitempty"`
	// Headers are names of AMQP headers.
	Headers []string `yaml:"headers,omitempty"`
	// RoutingKeyWord is a word of the routing key: 1 is the first, -1 the last,
	// 0 none of them.
	RoutingKeyWord int `yaml:"routing_key_word,omitempty"`
}

// Validate reports what cannot be meant.
func (m Mapping) Validate() error {
	var errs []error
	if m.ID.Constant != "" {
		errs = append(errs, errors.New("mapping.id.constant: events need different ids: remove it"))
	}
	if m.OccurredAt.Constant != "" {
		errs = append(errs, errors.New("mapping.occurred_at.constant: events occur at different times: remove it"))
	}
	for name, a := range map[string]Attribute{
		"tenant": m.Tenant, "source": m.Source, "id": m.ID, "type": m.Type,
		"correlation_id": m.CorrelationID, "occurred_at": m.OccurredAt,
	} {
		for _, h := range a.Headers {
			if h == "" {
				errs = append(errs, fmt.Errorf("mapping.%s.headers: a name is empty", name))
			}
		}
	}
	return errors.Join(errs...)
}

// finder looks up attributes in one delivery. The first value that is given but
// unusable is kept as err.
type finder struct {
	d   *amqp.Delivery
	ce  map[string]string // CloudEvents attributes that nobody has taken yet; nil for a plain delivery
	err error
}

// place is where an attribute is by default.
type place struct {
	attribute string // of CloudEvents; empty: an extension named like the headers
	property  string // value of the AMQP property
	header    string // the default name
}

// found is where a value came from.
type found int

const (
	nowhere found = iota
	inConstant
	inCloudEvent
	inHeader
	inProperty
	inRoutingKey
)

func (f *finder) find(a Attribute, p place) (string, found) {
	headers := a.Headers
	if len(headers) == 0 {
		headers = []string{p.header}
	}
	fromEvent := f.takeAttribute(p.attribute, headers)
	switch {
	case a.Constant != "":
		return a.Constant, inConstant
	case fromEvent != "":
		return fromEvent, inCloudEvent
	case len(a.Headers) == 0 && p.property != "":
		return p.property, inProperty
	}
	if v := f.header(headers); v != "" {
		return v, inHeader
	}
	if p.property != "" {
		return p.property, inProperty
	}
	if v := routingKeyWord(f.d.RoutingKey, a.RoutingKeyWord); v != "" {
		return v, inRoutingKey
	}
	return "", nowhere
}

// takeAttribute returns a CloudEvents attribute and takes it out of what is
// left as extensions.
func (f *finder) takeAttribute(name string, headers []string) string {
	if f.ce == nil {
		return ""
	}
	if name != "" {
		return take(f.ce, name)
	}
	for _, h := range headers {
		if v := take(f.ce, extensionName(h)); v != "" {
			return v
		}
	}
	return ""
}

func take(from map[string]string, name string) string {
	v := from[name]
	delete(from, name)
	return v
}

// extensionName is the CloudEvents name for a header: letters and digits only.
func extensionName(header string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
			return r
		case 'A' <= r && r <= 'Z':
			return r + ('a' - 'A')
		}
		return -1
	}, header)
}

func (f *finder) header(names []string) string {
	for _, name := range names {
		v, given := f.d.Headers[name]
		if !given {
			continue
		}
		s, err := text(v)
		f.fail(err, "header "+strconv.Quote(name))
		if s != "" {
			return s
		}
	}
	return ""
}

func (f *finder) fail(err error, where string) {
	if err != nil && f.err == nil {
		f.err = fmt.Errorf("%s: %w", where, err)
	}
}

func routingKeyWord(key string, n int) string {
	if n == 0 {
		return ""
	}
	words := strings.Split(key, ".")
	switch {
	case n > 0 && n <= len(words):
		return words[n-1]
	case n < 0 && -n <= len(words):
		return words[len(words)+n]
	}
	return ""
}

// text returns the text of a header's value: CloudEvents' canonical form where
// it has one.
func text(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	case []byte:
		// Several client libraries write text as bytes.
		if utf8.Valid(v) {
			return string(v), nil
		}
		return base64.StdEncoding.EncodeToString(v), nil
	case bool:
		return strconv.FormatBool(v), nil
	case int8, byte, int16, uint16, int32, uint32, int64, int:
		return fmt.Sprint(v), nil
	case float32:
		return strconv.FormatFloat(float64(v), 'g', -1, 32), nil
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64), nil
	case time.Time:
		return formatTimestamp(v), nil
	}
	return "", errors.New("a table, an array or a decimal is no text")
}
