package bridge

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"tidings/streams/event"
)

// describe returns all of a delivery but its body and properties. It returns an error only for
// headers that no delivery from a broker has; the rest is filled in even then.
//
// A text that is not UTF-8, or starts with NUL, becomes NUL and its base64:
// JSON would not keep it.
func describe(d *amqp.Delivery) (event.Delivery, error) {
	headers, err := EncodeHeaders(d.Headers)
	return event.Delivery{
		Exchange: EscapeText(d.Exchange), RoutingKey: EscapeText(d.RoutingKey), Redelivered: d.Redelivered, Headers: headers,
	}, err
}

// textProperties pairs the properties that are text with their names: those of
// AMQP 0-9-1, with underscores.
func textProperties(d *amqp.Delivery) [9]textProperty {
	return [...]textProperty{
		{"content_type", &d.ContentType},
		{"content_encoding", &d.ContentEncoding},
		{"correlation_id", &d.CorrelationId},
		{"reply_to", &d.ReplyTo},
		{"expiration", &d.Expiration},
		{"message_id", &d.MessageId},
		{"type", &d.Type},
		{"user_id", &d.UserId},
		{"app_id", &d.AppId},
	}
}

type textProperty struct {
	name  string
	value *string
}

// properties returns the AMQP properties that are set.
func properties(d *amqp.Delivery) map[string]string {
	props := make(map[string]string)
	for _, p := range textProperties(d) {
		if *p.value != "" {
			props[p.name] = EscapeText(*p.value)
		}
	}
	if d.DeliveryMode != 0 {
		props["delivery_mode"] = strconv.Itoa(int(d.DeliveryMode))
	}
	if d.Priority != 0 {
		props["priority"] = strconv.Itoa(int(d.Priority))
	}
	if !d.Timestamp.IsZero() {
		props["timestamp"] = formatTimestamp(d.Timestamp)
	}
	return props
}

// The first and the last second that RFC 3339, and so JSON, can express.
const (
	firstSecond = -62167219200 // 0000-01-01
	lastSecond  = 253402300799 // 9999-12-31
)

// formatTimestamp keeps any AMQP timestamp: RFC 3339 where that can express it,
// else its seconds.
func formatTimestamp(t time.Time) string {
	if s := t.Unix(); s < firstSecond || s > lastSecond {
		return strconv.FormatInt(s, 10)
	}
	return t.UTC().Format(time.RFC3339)
}

func parseTimestamp(s string) (time.Time, error) {
	if seconds, err := strconv.ParseInt(s, 10, 64); err == nil {
		return time.Unix(seconds, 0).UTC(), nil
	}
	return time.Parse(time.RFC3339, s)
}

// Publishing returns what has to be published so that a consumer gets a
// delivery again as it was: same body, properties and typed headers. It returns
// an error for a description that did not come from a delivery.
func Publishing(desc event.Delivery, body []byte) (amqp.Publishing, error) {
	d, err := restore(desc, body)
	return amqp.Publishing{
		Headers: d.Headers, ContentType: d.ContentType, ContentEncoding: d.ContentEncoding,
		DeliveryMode: d.DeliveryMode, Priority: d.Priority, CorrelationId: d.CorrelationId,
		ReplyTo: d.ReplyTo, Expiration: d.Expiration, MessageId: d.MessageId, Timestamp: d.Timestamp,
		Type: d.Type, UserId: d.UserId, AppId: d.AppId, Body: d.Body,
	}, err
}

// restore undoes describe.
func restore(desc event.Delivery, body []byte) (d amqp.Delivery, err error) {
	d.Redelivered, d.Body = desc.Redelivered, body
	var errs [6]error
	d.Exchange, errs[0] = unescapeText(desc.Exchange)
	d.RoutingKey, errs[1] = unescapeText(desc.RoutingKey)
	d.Headers, errs[2] = DecodeHeaders(desc.Headers)
	d.DeliveryMode, errs[3] = parseOctet(desc.Properties["delivery_mode"])
	d.Priority, errs[4] = parseOctet(desc.Properties["priority"])
	if at, set := desc.Properties["timestamp"]; set {
		d.Timestamp, errs[5] = parseTimestamp(at)
	}
	err = errors.Join(errs[:]...)
	for _, p := range textProperties(&d) {
		var bad error
		*p.value, bad = unescapeText(desc.Properties[p.name])
		err = errors.Join(err, bad)
	}
	if err != nil {
		return amqp.Delivery{}, fmt.Errorf("restore a delivery: %w", err)
	}
	return d, nil
}

func parseOctet(s string) (uint8, error) {
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(s, 10, 8)
	return uint8(n), err
}
