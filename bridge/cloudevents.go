package bridge

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"

	"tidings/streams/event"
)

const (
	typeCloudEvents = "application/cloudevents"
	typeJSON        = "application/json"
)

// isCloudEvents reports whether the whole event is in the body, in whatever format.
func isCloudEvents(contentType string) bool {
	return strings.HasPrefix(mediaType(contentType), typeCloudEvents)
}

// FromHTTP returns the CloudEvent that an HTTP request carries, in binary mode
// (ce- headers) or structured mode (application/cloudevents+json); [SplitBatch] is for the third, a
// batch. The tenant
// is the extension tenantid and may be empty. It returns an error that says in
// words why the request holds no event, never with a piece of the body.
func FromHTTP(header http.Header, body []byte) (e event.Envelope, err error) {
	d := amqp.Delivery{ContentType: header.Get("Content-Type"), Body: body, Headers: amqp.Table{}}
	for _, name := range []string{"traceparent", "tracestate"} {
		if v := header.Get(name); v != "" {
			d.Headers[name] = v
		}
	}
	if isCloudEvents(d.ContentType) {
		ce, data, err := parseStructured(d.ContentType, body)
		err = new(Mapping).envelope(&d, ce, data, err, &e)
		return e, err
	}
	if header.Get("ce-specversion") == "" {
		return e, errors.New("this is no CloudEvent: " +
			"send the header ce-specversion, or the content type application/cloudevents+json")
	}
	ce, err := httpAttributes(header)
	ce["datacontenttype"] = d.ContentType
	err = new(Mapping).envelope(&d, ce, body, err, &e)
	return e, err
}

// httpAttributes reads the ce- headers of a request, whose values are
// percent-encoded and may be quoted.
func httpAttributes(header http.Header) (map[string]string, error) {
	ce := make(map[string]string)
	var errs []error
	for name, values := range header {
		attribute, ok := strings.CutPrefix(strings.ToLower(name), "ce-")
		if !ok || !validAttribute(attribute) {
			continue
		}
		value, err := url.PathUnescape(unquote(values[0]))
		if len(values) > 1 {
			err = errors.New("it is given more than once")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("header ce-%s: %w", attribute, err))
			continue
		}
		ce[attribute] = value
	}
	return ce, first(errs)
}

// unquote undoes HTTP's quoted strings.
func unquote(s string) string {
	if len(s) < 2 || s[0] != '"' || s[len(s)-1] != '"' {
		return s
	}
	var out strings.Builder
	for i := 1; i < len(s)-1; i++ {
		if s[i] == '\\' && i+1 < len(s)-1 {
			i++
		}
		out.WriteByte(s[i])
	}
	return out.String()
}

// attributePrefixes are how names of CloudEvents attributes start in AMQP
// headers: as AMQP 1.0 and its brokers write them, and as HTTP does.
var attributePrefixes = [...]string{"cloudEvents:", "cloudEvents_", "ce-"}

func hasSpecVersion(headers amqp.Table) bool {
	if len(headers) == 0 {
		return false
	}
	for _, prefix := range attributePrefixes {
		if _, ok := headers[prefix+"specversion"]; ok {
			return true
		}
	}
	return false
}

// binaryAttributes reads the attributes of a binary CloudEvent from AMQP headers.
func binaryAttributes(headers amqp.Table) (map[string]string, error) {
	ce := make(map[string]string)
	var errs []error
	for _, prefix := range attributePrefixes {
		for _, name := range slices.Sorted(maps.Keys(headers)) { // the same in the same order each time
			v := headers[name]
			attribute, ok := strings.CutPrefix(name, prefix)
			if attribute = strings.ToLower(attribute); !ok || !validAttribute(attribute) {
				continue
			}
			s, err := text(v)
			switch {
			case err != nil:
				errs = append(errs, fmt.Errorf("header %q: %w", name, err))
			case s != "" && ce[attribute] != "" && ce[attribute] != s:
				errs = append(errs, fmt.Errorf("the CloudEvents attribute %s is given twice, with different values", attribute))
			case s != "":
				ce[attribute] = s
			}
		}
	}
	return ce, first(errs)
}

// validAttribute reports whether a name can be that of a CloudEvents attribute.
func validAttribute(name string) bool {
	return name != "" && len(name) <= 255 && extensionName(name) == name
}

// checkRequired refuses what is no CloudEvent of version 1. A missing source is
// let pass: it may be in the AMQP properties, and no identity needs it.
func checkRequired(ce map[string]string) error {
	for _, name := range []string{"specversion", "id", "type"} {
		if ce[name] == "" {
			return fmt.Errorf("the required attribute %s is missing", name)
		}
	}
	if !strings.HasPrefix(ce["specversion"], "1.") {
		return errors.New("its specversion is not 1.0")
	}
	return nil
}

// first returns the same of several errors whatever order they were found in.
func first(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	return slices.MinFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
}

// parseStructured reads the JSON format of CloudEvents: the attributes as text
// and the data, byte for byte where it is JSON.
func parseStructured(contentType string, body []byte) (map[string]string, []byte, error) {
	ce := make(map[string]string)
	if t := mediaType(contentType); t != TypeStructured {
		return ce, nil, fmt.Errorf("content type %s is not understood: send one event as %s", t, TypeStructured)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil || members == nil || !utf8.Valid(body) {
		return ce, nil, fmt.Errorf("the content type is %s and the body is no JSON object in UTF-8", TypeStructured)
	}
	var errs []error
	for name, raw := range members {
		if name == "data" || name == "data_base64" {
			continue
		}
		value, err := attributeText(name, raw)
		if err != nil {
			errs = append(errs, err)
		} else if value != "" {
			ce[name] = value
		}
	}
	data, err := structuredData(ce, members["data"], members["data_base64"])
	return ce, data, cmp.Or(first(errs), err)
}

// attributeText returns the text of an attribute: a string as it is, a number
// or boolean as it is written.
func attributeText(name string, raw json.RawMessage) (string, error) {
	if !validAttribute(name) {
		return "", fmt.Errorf("%q is no name of a CloudEvents attribute: letters and digits only, in lower case", event.Shorten(name, 50))
	}
	switch raw[0] {
	case '"':
		var s string
		err := json.Unmarshal(raw, &s)
		return s, err
	case '{', '[':
		return "", fmt.Errorf("the CloudEvents attribute %s is an object or an array", name)
	case 'n':
		return "", nil
	}
	return string(raw), nil
}

// structuredData returns the data of a structured event, and notes its content
// type where JSON is only implied.
func structuredData(ce map[string]string, data, base64Data json.RawMessage) ([]byte, error) {
	switch {
	case isNull(data) && isNull(base64Data):
		return nil, nil
	case !isNull(data) && !isNull(base64Data):
		return nil, errors.New("the CloudEvent has both data and data_base64")
	case !isNull(base64Data):
		var s string
		if err := json.Unmarshal(base64Data, &s); err != nil {
			return nil, errors.New("data_base64 of the CloudEvent is no string")
		}
		raw, err := base64.StdEncoding.DecodeString(s)
		if err != nil {
			return nil, errors.New("data_base64 of the CloudEvent is not base64")
		}
		return raw, nil
	case ce["datacontenttype"] == "":
		ce["datacontenttype"] = typeJSON
	case !isJSON(ce["datacontenttype"]) && data[0] == '"':
		var s string
		err := json.Unmarshal(data, &s)
		return []byte(s), err
	}
	return bytes.Clone(data), nil
}

func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }
