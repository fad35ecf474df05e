// Package publish puts one event into the form in which a producer sends it, to
// RabbitMQ or to Tidings over HTTP. It is for the command line; a service that
// publishes many events keeps its connection.
package publish

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"tidings/bridge"
)

// Errors of publishing to RabbitMQ.
var (
	// ErrNoQueue means that no queue takes the event, or that there is no such
	// exchange: nothing was stored.
	ErrNoQueue = errors.New("no queue takes it")
	// ErrRefused means that RabbitMQ said no: nothing was stored.
	ErrRefused = errors.New("RabbitMQ refused it")
	// ErrAddress means that the URL is none of RabbitMQ.
	ErrAddress = errors.New("not RabbitMQ's URL")
	// ErrHeader means that a header cannot be sent over HTTP.
	ErrHeader = errors.New("not a header")
)

// Event is what is published. What is empty is left out.
type Event struct {
	ID            string
	Type          string
	Source        string
	Tenant        string
	CorrelationID string
	OccurredAt    time.Time
	ContentType   string
	Headers       map[string]string
	Body          []byte
}

// AMQP publishes the event once and returns nil when RabbitMQ has confirmed it.
// The empty exchange knows every queue by its name. After errors other than
// those of this package the event may or may not be there.
func (e Event) AMQP(ctx context.Context, url, exchange, routingKey string) error {
	publisher, err := bridge.NewPublisher(url)
	if err != nil {
		return &marked{ErrAddress, err}
	}
	defer publisher.Close()
	err = publisher.Publish(ctx, exchange, routingKey, e.message())
	_, unroutable := errors.AsType[*bridge.UnroutableError](err)
	_, nowhere := errors.AsType[*bridge.NoExchangeError](err)
	if unroutable || nowhere {
		return &marked{ErrNoQueue, err}
	}
	if errors.Is(err, bridge.ErrRefused) {
		return &marked{ErrRefused, err}
	}
	return err
}

// marked is an error in the words of inner that is also kind.
type marked struct{ kind, inner error }

func (m *marked) Error() string   { return m.inner.Error() }
func (m *marked) Unwrap() []error { return []error{m.kind, m.inner} }

// message returns the event as the bridge reads it with the default mapping.
func (e Event) message() amqp.Publishing {
	table := amqp.Table{}
	for name, value := range e.Headers {
		table[name] = value
	}
	if e.Tenant != "" {
		table["tenant-id"] = e.Tenant
	}
	return amqp.Publishing{
		MessageId: e.ID, Type: e.Type, AppId: e.Source, CorrelationId: e.CorrelationID, Timestamp: e.OccurredAt,
		ContentType: e.ContentType, DeliveryMode: amqp.Persistent, Headers: table, Body: e.Body,
	}
}

// Header returns the headers that describe the event to the HTTP API. It
// returns [ErrHeader] where a name or a value would break out of its line.
func (e Event) Header() (http.Header, error) {
	header := http.Header{}
	for name, value := range e.Headers {
		header.Set(name, value)
	}
	for name, value := range map[string]string{
		"Content-Type": e.ContentType, "Event-Id": e.ID, "Event-Type": e.Type, "Event-Source": e.Source,
		"Tenant-Id": e.Tenant, "Correlation-Id": e.CorrelationID, "Occurred-At": timestamp(e.OccurredAt),
	} {
		if value != "" {
			header.Set(name, value)
		}
	}
	for name, values := range header {
		if !validName(name) || strings.ContainsAny(values[0], "\r\n\x00") {
			return nil, fmt.Errorf("%w: %q", ErrHeader, name)
		}
	}
	return header, nil
}

func timestamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// validName reports whether a name is a token of HTTP.
func validName(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}
